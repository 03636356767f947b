"""The service: host projects on a server."""
