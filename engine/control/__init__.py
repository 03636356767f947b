"""The control API: the one way in for the command line and the Console."""
