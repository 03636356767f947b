"""Host capabilities that a guest reaches at reserved host names; one folder a Door."""
