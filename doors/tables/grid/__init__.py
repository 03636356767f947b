"""Grids: sorted and filtered tables, read in windows of rows."""
