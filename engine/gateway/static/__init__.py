"""Serving static files over HTTP."""
