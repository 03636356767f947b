"""From sources to artifacts that can be served."""
