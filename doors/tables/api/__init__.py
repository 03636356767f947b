"""Routes of the control API for tables."""
