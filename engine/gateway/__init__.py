"""The ASGI application: routing, mounts, static files, guest requests and error responses."""
