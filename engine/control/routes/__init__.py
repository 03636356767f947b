"""Routes of the control API, by subject."""
