"""The control API, which the command line and the Console call."""
