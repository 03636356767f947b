"""Logging in to a service."""
