"""The tables Door: SQLite tables of a project, with schema changes, imports and exports."""
