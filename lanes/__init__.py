"""Lanes: each builds the sources of a resource to one artifact."""
