"""Base of connections: buffered writes, backpressure, one timer, disconnects and lingering close."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.http import timeouts
from engine.http.buffered import CONNECTION_BYTES, BufferedBytes, ResponseBytes
from engine.http.connection_limits import peer_connected
from engine.http.exchange import Disconnected, Request, RequestBody

if TYPE_CHECKING:
    from engine.http.server import Server

WRITE_BUFFER_BYTES = 32 << 10
"""Parts of responses that are collected within one turn of the event loop before they are written."""
TRANSPORT_BYTES = 64 << 10
"""Bytes that a transport buffers before it applies backpressure: asyncio's default, but for TLS too."""


class CountedExchange:
    """The part of an exchange that counts the bytes of its bodies for their project.

    It is `complete` once its response has ended or was aborted, or the client left.
    """

    __slots__ = ("_connection", "_project", "_unsent", "body", "complete", "disconnected", "request")

    def __init__(
        self, connection: Any, request: Request, body: RequestBody, disconnected: Disconnected
    ) -> None:
        self._connection = connection
        self._project = ""
        self._unsent: ResponseBytes | None = None
        self.request = request
        self.body = body
        self.disconnected = disconnected
        self.complete = False

    @property
    def project(self) -> str:
        """The project that the bytes of the bodies count for."""
        return self._project

    @project.setter
    def project(self, name: str) -> None:
        self._project = name
        if not self.body.exhausted:
            self.body.count(self._connection.manager.unread.for_project(name))

    @property
    def unsent(self) -> ResponseBytes:
        """The unsent bytes of the response, without those that the transport buffers in any case."""
        if self._unsent is None:
            self._unsent = self._connection.count_response(self.project)
        return self._unsent


class PendingWrites:
    """Connections whose collected parts are written at the end of this turn of the event loop."""

    def __init__(self) -> None:
        self._connections: list[Connection] = []

    def add(self, connection: "Connection") -> None:
        """Flush a connection in the next turn of the event loop."""
        if not self._connections:
            connection.loop.call_soon(self._flush)
        self._connections.append(connection)

    def _flush(self) -> None:
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.flush()


class Connection(asyncio.Protocol):
    """A client connection.

    Linux resets a socket that is closed with unread data, and the client loses the response. So `linger` ends
    the sending side and discards input for a while before it closes the connection.
    """

    def __init__(self, manager: "Server", release: Callable[["Connection"], None]) -> None:
        """`release` is called when the connection is closed."""
        self.manager = manager
        self.release = release
        self.loop = asyncio.get_running_loop()
        self.transport: Any = None
        self.disconnected = Disconnected()
        self.eof = False
        """Whether the client has ended its sending side."""
        self.lingering = False
        self.paused = False
        self.unread = BufferedBytes(CONNECTION_BYTES)
        """The unread bytes of the request bodies."""
        self._written: list[bytes] = []
        self._written_bytes = 0
        self._writable: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: float | None = None
        self._on_deadline: Callable[[], None] = self.close
        self._counts: tuple[BufferedBytes, ...] | None = None
        self._unread_counts: tuple[BufferedBytes, ...] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to serve the connection."""
        self.transport = transport
        self.transport.set_write_buffer_limits(TRANSPORT_BYTES)
        self.manager.opened(self)

    @property
    def secure(self) -> bool:
        return self.transport.get_extra_info("ssl_object") is not None

    @property
    def addresses(self) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
        """The addresses and ports of the client and of the server."""
        names = (self.transport.get_extra_info(key) for key in ("peername", "sockname"))
        client, server = ((name[0], name[1]) if name else None for name in names)
        return client, server

    def count_response(self, project: str) -> ResponseBytes:
        """Return the count of a response's unsent bytes: for this connection, its address and the project."""
        if self._counts is None:
            address = self.manager.count_address(self.manager.unsent, self.addresses[0])
            self._counts = BufferedBytes(CONNECTION_BYTES), *address
        return ResponseBytes((*self._counts, self.manager.unsent.for_project(project)))

    def count_body(self, body: RequestBody) -> None:
        """Count the unread bytes of a request body: for this connection and its address."""
        if self._unread_counts is None:
            address = self.manager.count_address(self.manager.unread, self.addresses[0])
            self._unread_counts = self.unread, *address
        body.count(*self._unread_counts)

    # -- writing -----------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Write bytes together with others of this turn of the event loop."""
        if not self._written:
            self.manager.pending_writes.add(self)
        self._written.append(data)
        self._written_bytes += len(data)
        if self._written_bytes >= WRITE_BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was collected."""
        data = self._written[0] if len(self._written) == 1 else b"".join(self._written)
        self._written.clear()
        self._written_bytes = 0
        if data and not self.lingering and not self.transport.is_closing():
            self.transport.write(data)

    @property
    def backlogged(self) -> bool:
        """Return whether the client cannot take more now."""
        return self._writable is not None

    async def drain(self) -> None:
        if self._writable is not None:
            await asyncio.shield(self._writable)

    def pause_writing(self) -> None:
        """Apply backpressure: the transport's buffer is full."""
        if self._writable is None:
            self._writable = self.loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None

    # -- reading -----------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Throttle the client. Its disconnect cannot be read then, so the system is asked for it."""
        if not self.paused and not self.lingering:
            self.paused = True
            self.transport.pause_reading()
            self.set_timer(timeouts.PEER_CHECK_SECONDS, self._check_peer)

    def resume_reading(self) -> None:
        if self.paused:
            self.paused = False
            self.clear_timer()
            self.transport.resume_reading()

    def _check_peer(self) -> None:
        if self.transport.is_closing() or not peer_connected(self.transport.get_extra_info("socket")):
            self.disconnected.set()  # Bytes that were sent before can still be read.
        else:
            self.on_peer_connected()
            self.set_timer(timeouts.PEER_CHECK_SECONDS, self._check_peer)

    def on_peer_connected(self) -> None:
        """Handle that a client that is throttled is still connected."""

    def on_disconnect(self) -> None:
        """Notify the requests of the connection that the client left."""
        self.disconnected.set()

    # -- the timer ---------------------------------------------------------------------------------------

    def set_timer(self, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` after a time, instead of the action that was set before."""
        self._deadline = deadline = self.loop.time() + seconds
        self._on_deadline = action
        # A timer that fires early sets itself again: cheaper than a new one for every request.
        if self._timer is not None and self._timer.when() > deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self.loop.call_at(deadline, self._on_timer)

    def clear_timer(self) -> None:
        self._deadline = None

    def cancel_timer(self) -> None:
        """Call no action. So neither the event loop nor the connection itself refers to the connection."""
        self._deadline, self._on_deadline = None, lambda: None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self.loop.time() < self._deadline:
            self._timer = self.loop.call_at(self._deadline, self._on_timer)
            return
        self._deadline = None
        self._on_deadline()

    # -- the end -----------------------------------------------------------------------------------------

    def announce_shutdown(self) -> None:
        """Announce to the client that the connection will close."""

    def close_if_idle(self) -> None:
        """Close the connection unless a request is in progress."""

    def linger(self) -> None:
        """Close the connection after its last response, once the client had time to read it."""
        if self.lingering:
            return
        self.flush()
        if self.eof or self.transport.is_closing():
            self.close()
            return
        self.resume_reading()
        self.lingering = True
        with contextlib.suppress(OSError, NotImplementedError, RuntimeError):
            self.transport.write_eof()
        self.set_timer(timeouts.LINGER_SECONDS, self.close)

    def close(self) -> None:
        """Close the connection; what was written is still sent."""
        if not self.transport.is_closing():
            self.flush()
            self.transport.close()

    def eof_received(self) -> bool:
        """Handle the end of the client's sending side. Returns whether the transport stays open."""
        self.eof = True
        if self.lingering:
            return False
        self.on_disconnect()
        return not self.secure

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self.cancel_timer()
        self.resume_writing()
        self._written.clear()
        self.on_disconnect()
        self.release(self)
