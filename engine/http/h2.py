"""HTTP/2: connections that Hypercorn's `H2Protocol` serves, and their exchanges.

Workarounds for Hypercorn:

- A handler that fails after its response began leaves a stream open forever: it is reset here.
- Data for a stream that was answered ends the whole connection: the stream is reset here instead.
- Its buffer does not apply backpressure when the client's flow-control window is empty: it is replaced.
- A writer that waits for the window still waits after a disconnect: its buffer is closed here.
- It acknowledges data before the application has taken it: the acknowledgment is deferred here.
- It has no GOAWAY before shutdown, no header timeout, and no limit on frames without a stream.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import h2.connection
import h2.errors
import h2.exceptions
from hypercorn.asyncio.task_group import TaskGroup
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.typing import ConnectionState
from hyperframe.frame import GoAwayFrame

from engine.http import timeouts
from engine.http.buffered import CONNECTION_BYTES, SMALL_PART_BYTES
from engine.http.connection import Connection
from engine.http.exchange import RequestBody
from engine.http.frame_budget import FRAMES_PER_TURN, FrameBudget, FrameFlood
from engine.http.h2_protocol import Protocol
from engine.http.h2_streams import Http2Exchange, UnsentBuffer
from engine.http.messages import HEADER_BYTES

if TYPE_CHECKING:
    from engine.http.server import Server

READ_BYTES = 65536
LAST_STREAM = 2**31 - 1
_log = logging.getLogger("svc.server")


class Hypercorn:
    """The state that Hypercorn's protocols share: configuration, and whether the server has terminated."""

    def __init__(self) -> None:
        self.config = Config()
        self.config.errorlog = _log
        self.config.accesslog = None
        self.config.include_server_header = False
        self.config.h2_max_header_list_size = HEADER_BYTES
        self.config.keep_alive_max_requests = 1 << 62
        self.config.max_app_queue_size = 0
        self.context = WorkerContext(None)


class Http2Connection(Connection):
    """A connection that a task of its own reads and passes to Hypercorn's protocol."""

    def __init__(
        self, manager: "Server", release: Callable[[Connection], None], hypercorn: Hypercorn
    ) -> None:
        super().__init__(manager, release)
        self._hypercorn = hypercorn
        self._protocol: Any = None
        self._reader = asyncio.StreamReader()
        self._idle_since = self.loop.time()
        self._header_since: float | None = None
        self._frames = FrameBudget(self._idle_since)
        self._room = asyncio.Event()
        self._acknowledge: Callable[[int, int], None]
        self.bodies: set[RequestBody] = set()
        """The bodies of the requests in progress."""
        self.deferred = 0
        """Bytes of the data being handled that are acknowledged when they leave a body."""

    async def serve(self, transport: Any, data: bytes) -> None:
        """Serve a transport, from these bytes on, until it is closed and every handler has returned."""
        self.connection_made(transport)
        transport.set_protocol(self)
        self._reader.set_transport(transport)
        self._reader.feed_data(data)
        client, server = self.addresses
        shared = self._hypercorn
        try:
            async with TaskGroup(self.loop) as group:
                self._protocol = protocol = Protocol(
                    self._handle,
                    shared.config,
                    shared.context,
                    group,
                    ConnectionState({}),
                    self.secure,
                    client,
                    server,
                    self._send,
                )
                self._defer_acknowledgments(protocol.connection)
                await protocol.initiate()
                window = CONNECTION_BYTES - protocol.connection.inbound_flow_control_window
                protocol.connection.increment_flow_control_window(window)
                self._update_timeout()
                await self._read(protocol)
                self.disconnected.set()
                await protocol.handle(Closed())
                for buffer in list(protocol.stream_buffers.values()):
                    await buffer.close()
        except Exception:
            _log.debug("a connection failed", exc_info=True)
            transport.abort()
        finally:
            for buffer in getattr(self._protocol, "stream_buffers", {}).values():
                if isinstance(buffer, UnsentBuffer):
                    buffer.unsent.close()
            self.close()
            # Release the received bytes: cycles of references live until a garbage collection.
            self.cancel_timer()
            self._reader = asyncio.StreamReader()
            protocol, self._protocol = self._protocol, None
            if protocol is not None:
                vars(protocol.connection).clear()
                vars(protocol).clear()

    async def _read(self, protocol: Protocol) -> None:
        cost = 0
        while data := await self._reader.read(READ_BYTES):
            if self.lingering:
                continue
            self.set_timer(timeouts.PEER_CHECK_SECONDS, self._check_peer)
            # Read nothing while a body is full: its address or project has too many unread bytes.
            while self.unread.size > SMALL_PART_BYTES and any(body.full for body in self.bodies):
                if self.disconnected.is_set():
                    break
                self._room.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(timeouts.PEER_CHECK_SECONDS):
                        await self._room.wait()
            try:
                for part, added in self._frames.receive(data, self.loop.time()):
                    if cost + added > FRAMES_PER_TURN:
                        await self.manager.frame_turns.wait()
                        cost = 0
                    if self.lingering or self.disconnected.is_set():
                        break
                    await protocol.handle(RawData(part))
                    cost += added + protocol.decoder.cost
                    protocol.decoder.cost = 0
            except FrameFlood:
                self.write(GoAwayFrame(0, LAST_STREAM, h2.errors.ErrorCodes.ENHANCE_YOUR_CALM).serialize())
                break
            self._update_timeout()

    def _defer_acknowledgments(self, connection: h2.connection.H2Connection) -> None:
        """Acknowledge data when it leaves the body, not when Hypercorn has handled it.

        So a body that is not read exhausts the window of its stream, and the connection is read on.
        """
        self._acknowledge = connection.acknowledge_received_data

        def on_handled(size: int, stream: int) -> None:
            size, self.deferred = size - self.deferred, 0
            if size:
                self._acknowledge(size, stream)

        connection.acknowledge_received_data = on_handled  # type: ignore[assignment, method-assign]

    def acknowledge(self, size: int, stream: int) -> None:
        """Acknowledge data that has left the body of a stream."""
        self._room.set()
        if self.transport.is_closing():
            return
        with contextlib.suppress(h2.exceptions.ProtocolError):
            self._acknowledge(size, stream)
        if data := self._protocol.connection.data_to_send():
            self.write(data)
            self._frames.sent(len(data))

    def _update_timeout(self) -> None:
        """Apply the keep-alive timeout, or the header timeout to a partial frame or header block."""
        if self.lingering:
            return
        if self._protocol.streams:
            self._header_since = None
            self.clear_timer()
            return
        now = self.loop.time()
        buffer = self._protocol.connection.incoming_buffer
        if buffer._preamble_len or buffer._data or buffer._headers_buffer:
            self._header_since = self._header_since or now
            deadline = self._header_since + timeouts.HEADER_SECONDS
        else:
            self._header_since = None
            deadline = self._idle_since + timeouts.IDLE_SECONDS
        self.set_timer(max(0.0, deadline - now), self.close)

    async def _send(self, event: Event) -> None:
        """Handle an event of Hypercorn's protocol."""
        if isinstance(event, RawData):
            if event.data:
                self.write(event.data)
                self._frames.sent(len(event.data))
                await self.drain()
        elif isinstance(event, Closed):
            self.linger()
        elif isinstance(event, Updated) and event.idle:
            self._idle_since = self.loop.time()
            if self.manager.terminated:
                self.linger()
            else:
                self._update_timeout()

    async def _handle(self, scope: Any, receive: Any, send: Any, *_: Any) -> None:
        """Handle a stream, as the application that Hypercorn calls."""
        stream = send.__self__
        buffer = UnsentBuffer(self._protocol.context.event_class)
        if stream.stream_id in self._protocol.streams:
            self._protocol.stream_buffers[stream.stream_id] = buffer
        else:  # The stream was reset already, and its buffer would never be drained.
            await buffer.close()
        exchange = Http2Exchange(self, self._protocol, scope, receive.__self__, send, buffer=buffer)
        await self.manager.handle(exchange)

    def data_received(self, data: bytes) -> None:
        """Buffer bytes for the task that reads."""
        if not self.lingering:
            self._reader.feed_data(data)

    def on_disconnect(self) -> None:
        """End the task that reads, once it has read what was buffered."""
        self._reader.feed_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self.disconnected.set()
        super().connection_lost(exc)

    def announce_shutdown(self) -> None:
        """Send a GOAWAY that still accepts streams (RFC 9113 6.8)."""
        if self._protocol is not None:
            self.write(GoAwayFrame(0, last_stream_id=LAST_STREAM).serialize())

    def close_if_idle(self) -> None:
        """Close the connection unless it has a stream."""
        if self._protocol is None or not self._protocol.streams:
            self.close()
