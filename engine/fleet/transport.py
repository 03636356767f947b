"""TCP transport of the NATS client that closes at once when the server does not answer.

asyncio waits 30 s for the end of a TLS connection to a server that is frozen. Meanwhile the client would not
connect to another server. The TCP connection below is aborted: a TLS transport that was closed ignores that,
and raises `AttributeError` in Python 3.11.2.
"""

import asyncio
from urllib.parse import ParseResult

from nats.aio.transport import TcpTransport

CLOSE_SECONDS = 0.5


class AbortingTransport(TcpTransport):
    """Aborts a connection that does not close in time."""

    def __bool__(self) -> bool:
        """Return true, so that the client does not replace this transport by its own."""
        return True

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:
        """Connect to a server. The client does not close the connection of a failed handshake before."""
        self.abort()
        await super().connect(uri, buffer_size, connect_timeout)

    async def readline(self) -> bytes:
        """Read a line of the handshake. Raises `ConnectionResetError` at the end of the connection.

        The client would take the end for a successful handshake.
        """
        line: bytes = await super().readline()  # type: ignore[no-untyped-call]
        if not line:
            raise ConnectionResetError("the server closed the connection")
        return line

    async def wait_closed(self) -> None:
        """Wait until the connection is closed, or abort it."""
        try:
            await asyncio.wait_for(super().wait_closed(), CLOSE_SECONDS)  # type: ignore[no-untyped-call]
        except TimeoutError:
            self.abort()

    def abort(self) -> None:
        """Close the TCP connection at once, if there is one."""
        if self._bare_io_writer is not None:
            self._bare_io_writer.transport.abort()
