"""Tables into files and files into tables: `loading.py` and `saving.py` are the ways in and out."""
