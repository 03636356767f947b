"""The tables Door: SQLite tables of a Project, with schema changes, imports and exports."""
