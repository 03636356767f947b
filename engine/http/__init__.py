"""The HTTP server: sockets, connections, HTTP/1.1 and HTTP/2."""
