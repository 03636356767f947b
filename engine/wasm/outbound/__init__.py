"""Outgoing HTTP requests and Door calls of guests."""
