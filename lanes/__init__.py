"""Lanes: each builds the sources of a Resource to one artifact."""
