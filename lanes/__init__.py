"""Lanes: each turns the sources of a Resource into one artifact."""
