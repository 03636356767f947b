"""The only writers of stdout and stderr."""
