"""SQLite access: connections, errors, catalog and SQL text."""
