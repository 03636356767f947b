"""The tables Door: relational tables of a Project, in SQLite, and what is done to them."""
