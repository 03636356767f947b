"""Changes of the schema: `change.py` says what there is to change, `apply.py` does it, all or nothing."""
