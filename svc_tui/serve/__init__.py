"""The service: host Projects on a server."""
