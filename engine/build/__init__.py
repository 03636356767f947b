"""Building Resources: inputs, cache and the builder."""
