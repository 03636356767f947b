"""Where one begins without a Project: make one, or open what a service has."""
