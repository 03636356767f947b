"""Rows as people see and change them: which row is which, what its cells are, and changes of many at once."""
