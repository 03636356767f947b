"""Capsules: files with everything that a request needs to be replayed elsewhere."""
