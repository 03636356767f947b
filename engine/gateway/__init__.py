"""The ASGI application: addresses, mounts, static files, dynamic dispatch, problem pages."""
