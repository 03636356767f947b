"""Timeouts of connections, in seconds."""

IDLE_SECONDS = 75.0
"""Keep-alive timeout: how long a connection may have no request."""
HEADER_SECONDS = 20.0
"""Header timeout, from the first byte of a request head on; in HTTP/2, of a block of fields."""
PEER_CHECK_SECONDS = 0.25
"""How often the system is asked whether the client is connected while its socket is not read."""
LINGER_SECONDS = 2.0
"""How long input is discarded after the last response before the connection closes."""
SHUTDOWN_NOTICE_SECONDS = 0.25
"""How long clients may send further requests on their connections when the server stops."""
