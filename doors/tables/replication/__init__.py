"""Replication of a project's tables: a copy of the database on each node, and one log of its transactions."""
