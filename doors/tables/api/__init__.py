"""The tables in the control API: what the command line and the Console see and do of them."""
