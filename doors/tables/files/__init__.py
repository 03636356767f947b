"""Import and export of tables; the entry points are `importer.py` and `exporter.py`."""
