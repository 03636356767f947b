"""Outgoing requests and Door calls of guests."""
