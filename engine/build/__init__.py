"""Building resources: inputs, cache and the builder."""
