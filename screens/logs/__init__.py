"""Logs: the timeline of a Project, live."""
