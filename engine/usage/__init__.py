"""Usage: resource consumption of each resource, per minute."""
