"""One file a command; each parses, calls and prints."""
