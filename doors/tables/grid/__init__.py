"""A table in an order of its own, shown window by window."""
