"""Login to a service."""
