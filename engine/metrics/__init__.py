"""Metrics of the service: counters and histograms of each resource, and the state of its processes."""
