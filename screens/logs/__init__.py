"""Logs: the live timeline of a project."""
