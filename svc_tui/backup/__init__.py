"""Backups of a service to an object store, and their restore."""
