"""Column types and the conversion of values."""
