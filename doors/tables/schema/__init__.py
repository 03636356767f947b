"""Changes of the schema: `change.py` defines them, `apply.py` applies them in one transaction."""
