"""The static lane: a folder of files."""
