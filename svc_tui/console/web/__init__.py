"""The Console in a browser: an HTTP server, its authentication, and one Console process per page."""
