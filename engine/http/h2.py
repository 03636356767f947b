"""HTTP/2: connections that Hypercorn's `H2Protocol` serves, and their exchanges.

Workarounds for Hypercorn:

- A handler that fails after its response began leaves a stream open forever: it is reset here.
- Data for a stream that was answered ends the whole connection: the stream is reset here instead.
- Its buffer does not apply backpressure when the client's flow-control window is empty: it is replaced.
- A writer that waits for the window still waits after a disconnect: its buffer is closed here.
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
from hypercorn.protocol.h2 import (
    BUFFER_HIGH_WATER,
    BUFFER_LOW_WATER,
    BufferCompleteError,
    H2Protocol,
    StreamBuffer,
)
from hypercorn.protocol.http_stream import ASGIHTTPState
from hypercorn.typing import ConnectionState
from hyperframe.frame import GoAwayFrame
from priority.priority import MissingStreamError

from engine.http import timeouts
from engine.http.connection import Connection
from engine.http.exchange import Disconnected, Headers, Request, RequestBody
from engine.http.frame_budget import FrameBudget
from engine.http.messages import HEADER_BYTES
from engine.http.unsent import SMALL_PART_BYTES, ResponseBytes

if TYPE_CHECKING:
    from engine.http.server import Server

RESET_SECONDS = 1.0
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
                self._protocol = protocol = H2Protocol(
                    self._handle,  # type: ignore[arg-type]
                    shared.config,
                    shared.context,
                    group,
                    ConnectionState({}),
                    self.secure,
                    client,
                    server,
                    self._send,
                )
                protocol.streams = _Streams(protocol)
                await protocol.initiate()
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
                if isinstance(buffer, _Buffer):
                    buffer.unsent.close()
            self.close()

    async def _read(self, protocol: Any) -> None:
        while data := await self._reader.read(READ_BYTES):
            if self.lingering:
                continue
            if not self._frames.receive(data, self.loop.time()):
                self.write(GoAwayFrame(0, LAST_STREAM, h2.errors.ErrorCodes.ENHANCE_YOUR_CALM).serialize())
                break
            # A stream whose body is full blocks here, and nothing else of the connection is read.
            self.set_timer(timeouts.PEER_CHECK_SECONDS, self._check_peer)
            at = 0
            for turn in (*self._frames.turns, len(data)):
                if self._frames.large:
                    await self.manager.frame_turns.wait()
                await protocol.handle(RawData(data[at:turn]))
                at = turn
                if self.lingering:
                    break
            self._update_timeout()

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
        if scope["type"] != "http":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
            return
        stream = send.__self__
        buffer = _Buffer(self._protocol.context.event_class)
        if stream.stream_id in self._protocol.streams:
            self._protocol.stream_buffers[stream.stream_id] = buffer
        else:  # The stream was reset already, and its buffer would never be drained.
            await buffer.close()
        await self.manager.handle(
            Http2Exchange(self, self._protocol, scope, receive.__self__, send, buffer=buffer)
        )

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


class Http2Exchange:
    """A stream, by way of the ASGI messages that Hypercorn exchanges with an application."""

    def __init__(
        self,
        connection: Http2Connection,
        protocol: Any,
        scope: Any,
        queue: "asyncio.Queue[Any]",
        send: Any,
        *,
        buffer: "_Buffer",
    ) -> None:
        self.request = Request(
            method=scope["method"],
            scheme=scope["scheme"],
            path=scope["raw_path"].decode("ascii", errors="replace"),
            query=scope["query_string"],
            headers=scope["headers"],
            http_version="2",
            client=scope["client"],
            server=scope["server"],
        )
        self.body = RequestBody()
        self.disconnected = Disconnected()
        self.project = ""
        self._connection = connection
        self._protocol = protocol
        self._buffer = buffer
        self._stream = send.__self__
        self._send = send
        self._room = asyncio.Event()
        self._started = self._complete = self._returned = False
        self.body.on_drained = self._room.set
        connection.disconnected.add_callback(self.disconnected.set)
        while not queue.empty():
            self._feed(queue.get_nowait())
        self._stream.app_put = self._receive

    def _feed(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.disconnect":
            self.body.interrupt()
            if self._stream.state is not ASGIHTTPState.CLOSED:
                self.disconnected.set()
            return
        self.body.feed(message["body"])
        if not message["more_body"]:
            self.body.finish()

    async def _receive(self, message: dict[str, Any]) -> None:
        """Handle a message of the client; returns when there is room for another."""
        self._feed(message)
        while self.body.full and not (self._returned or self.disconnected.is_set()):
            self._room.clear()
            await self._room.wait()

    @property
    def unsent(self) -> ResponseBytes:
        """The unsent bytes of the response."""
        if self._buffer.unsent is _UNCOUNTED:
            self._buffer.unsent = self._connection.count_response(self.project)
        return self._buffer.unsent

    async def send_head(self, status: int, headers: Headers) -> None:
        """Send the status and the fields."""
        if not self._complete:
            await self._send({"type": "http.response.start", "status": status, "headers": headers})
            self._started = True

    async def send_body(self, data: bytes, *, end: bool) -> None:
        """Send a part of the body."""
        if data and not self._complete:
            unsent, start = self.unsent, 0
            while len(data) - start > SMALL_PART_BYTES and unsent.crowded and not self._complete:
                part = data[start : start + SMALL_PART_BYTES]
                await self._send({"type": "http.response.body", "body": part, "more_body": True})
                start += SMALL_PART_BYTES
            data = data[start:] if start else data
        if not self._complete:
            await self._send({"type": "http.response.body", "body": data, "more_body": not end})
            self._complete = self._complete or end

    def abort(self) -> None:
        """Reset the stream, once the handler has returned."""
        self._complete, self._started = False, True
        self._returned = True

    async def close(self) -> None:
        """Reset the stream if the response is incomplete; Hypercorn sends a 500 if it has not started."""
        self._returned = True
        self._room.set()
        self.body.interrupt()
        self._connection.disconnected.remove_callback(self.disconnected.set)
        if self._started and not self._complete:
            self._complete = True
            await self._reset()

    async def _reset(self) -> None:
        protocol, stream_id = self._protocol, self._stream.stream_id
        with contextlib.suppress(TimeoutError):
            if self._buffer.buffer:
                await asyncio.wait_for(self._buffer.drain(), RESET_SECONDS)
        with contextlib.suppress(h2.exceptions.ProtocolError):
            protocol.connection.reset_stream(stream_id, h2.errors.ErrorCodes.INTERNAL_ERROR)
            await protocol._flush()
        # Hypercorn removes a stream's buffer when it tries to send it, which a closed window prevents.
        await self._buffer.close()
        with contextlib.suppress(MissingStreamError):
            protocol.priority.unblock(stream_id)
        await protocol.has_data.set()


class _Streams(dict[int, Any]):
    """The streams of a connection. Data for one that was answered is answered with a reset."""

    def __init__(self, protocol: Any) -> None:
        super().__init__()
        self._protocol = protocol

    def __missing__(self, stream: int) -> "_ClosedStream":
        return _ClosedStream(self._protocol, stream)


class _ClosedStream:
    """A stream whose response was sent while its request continues."""

    def __init__(self, protocol: Any, stream: int) -> None:
        self._protocol = protocol
        self._stream = stream

    async def handle(self, _event: object) -> None:
        """Reset the stream to stop the upload (RFC 9113 8.1), once the client has the whole response."""
        if self._stream not in self._protocol.stream_buffers:
            with contextlib.suppress(h2.exceptions.ProtocolError):
                self._protocol.connection.reset_stream(self._stream, h2.errors.ErrorCodes.NO_ERROR)


_UNCOUNTED = ResponseBytes()
"""The count of a stream without a body."""


class _Buffer(StreamBuffer):
    """Bytes that wait to be sent on a stream; a writer waits until there is room."""

    unsent = _UNCOUNTED

    async def push(self, data: bytes) -> None:
        """Add bytes; return when there is room for more."""
        if self._complete:
            raise BufferCompleteError
        await self._paused.clear()
        await self._is_empty.clear()
        self.buffer.extend(data)
        self.unsent.set_buffered(len(self.buffer))
        if len(self.buffer) >= (SMALL_PART_BYTES if self.unsent.crowded else BUFFER_HIGH_WATER):
            await self._paused.wait()

    async def pop(self, max_length: int) -> bytes:
        """Return bytes that may be sent now."""
        data = bytes(self.buffer[:max_length])
        del self.buffer[:max_length]
        self.unsent.set_buffered(len(self.buffer))
        if not self.buffer or (len(self.buffer) < BUFFER_LOW_WATER and not self.unsent.crowded):
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data

    async def close(self) -> None:
        """Discard the bytes, and release the writer."""
        await super().close()
        self.unsent.close()
