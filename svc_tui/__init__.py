"""The terminal tool `svc`."""
