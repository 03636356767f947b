"""HTTP/2 connections and their exchanges (RFC 9113).

h2 has the states of streams and the flow-control windows. Here are the bounds of what a client can cost:
frames without a stream, header blocks, settings, partial frames, and bytes that are not read.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from wsgiref.handlers import format_date_time

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from engine.http import timeouts
from engine.http.buffered import CONNECTION_BYTES, SMALL_PART_BYTES
from engine.http.connection import Connection, CountedExchange
from engine.http.exchange import BODY_BYTES, Disconnected, Headers, Request, RequestBody
from engine.http.frame_budget import FRAMES_PER_TURN, BlockDecoder, FrameBudget, FrameFlood
from engine.http.messages import BODILESS, CONNECTION_FIELDS, HEADER_BYTES, is_request

if TYPE_CHECKING:
    from engine.http.server import Server

READ_BYTES = 65536
MAX_STREAMS = 100
"""Maximum requests of a connection in progress."""
LAST_STREAM = 2**31 - 1
_SETTINGS = frozenset(SettingCodes)
_log = logging.getLogger("svc.server")


class _KnownSettings(Settings):
    """The settings of a client, without unknown ones (RFC 9113 6.5.2)."""

    def __setitem__(self, key: SettingCodes | int, value: int) -> None:
        if key in _SETTINGS:
            super().__setitem__(key, value)


class Http2Exchange(CountedExchange):
    """A stream.

    A part of the response is sent as far as the windows of the client permit, and its sender waits for them.
    """

    def __init__(self, connection: "Http2Connection", stream: int, request: Request, *, ended: bool) -> None:
        """`ended` is whether the request has no body."""
        super().__init__(connection, request, RequestBody(b"" if ended else None), Disconnected())
        self._stream = stream
        self._started = self._bodiless = False
        self._window: asyncio.Event | None = None
        length = next((value for name, value in request.headers if name == b"content-length"), None)
        self._missing = None if length is None else int(length)
        if not ended:
            connection.count_body(self.body)
            self.body.on_taken = partial(connection.acknowledge, stream)
        connection.disconnected.add_callback(self.leave)

    def receive(self, data: bytes) -> int:
        """Handle a part of the body; return how many bytes were added to the buffer."""
        if self._missing is not None:
            self._missing -= len(data)
        return len(data) if self.body.feed(data) else 0

    def finish(self) -> None:
        if self._missing:  # Trailers ended it early (RFC 9113 8.1.1).
            self._connection.reset(self._stream, ErrorCodes.PROTOCOL_ERROR)
            self.leave()
        else:
            self.body.finish()

    def leave(self) -> None:
        """Handle that the client reset the stream or left."""
        self.body.interrupt()
        if not self.complete:
            self.complete = True
            self.disconnected.set()
            self.on_window()
            self._connection.stream_ended(self._stream)

    def on_window(self) -> None:
        """Continue to send: a window was opened."""
        if self._window is not None:
            self._window.set()

    async def send_head(self, status: int, headers: Headers) -> None:
        if self.complete:
            return
        fields = [(b":status", b"%d" % status), *(f for f in headers if f[0] not in CONNECTION_FIELDS)]
        if all(name != b"date" for name, _ in headers):
            fields.append((b"date", format_date_time(time.time()).encode()))
        self._connection.send_headers(self._stream, fields)
        self._started, self._bodiless = True, self.request.method == "HEAD" or status in BODILESS

    async def send_body(self, data: bytes, *, end: bool) -> None:
        connection, position = self._connection, 0
        data = b"" if self._bodiless else data
        while not self.complete and (end or position < len(data)):
            size = connection.sendable(self._stream)
            if not size and position < len(data):
                self._window = self._window or asyncio.Event()
                self._window.clear()
                await self._wait(self._window.wait(), len(data) - position)
                continue
            part = data[position : position + size]
            position += len(part)
            last = end and position == len(data)
            connection.send_data(self._stream, part, end=last)
            if last:
                self._end()
            if connection.backlogged:
                await self._wait(connection.drain(), len(data) - position)
            elif position < len(data) and len(connection.streams) > 1:
                await asyncio.sleep(0)  # Streams send in turn.

    async def _wait(self, condition: Awaitable[Any], size: int) -> None:
        """Wait until more can be sent, and count the bytes that the client has not taken meanwhile."""
        self.unsent.set_buffered(min(size, SMALL_PART_BYTES) if self.unsent.crowded else size)
        try:
            await condition
        finally:
            self.unsent.set_buffered(0)

    def abort(self) -> None:
        if not self.complete:
            self._connection.reset(self._stream, ErrorCodes.INTERNAL_ERROR)
            self._end()

    async def close(self) -> None:
        """Send a 500 if the response has not started; abort it if it is incomplete."""
        if not self._started:
            await self.send_head(500, [(b"content-length", b"0")])
            await self.send_body(b"", end=True)
        self.abort()
        self.body.close()
        if self._unsent is not None:
            self._unsent.close()
        self._connection.disconnected.remove_callback(self.leave)

    def _end(self) -> None:
        self.complete = True
        self.body.interrupt()
        self._connection.stream_ended(self._stream)


class Http2Connection(Connection):
    """A connection that a task of its own reads."""

    def __init__(self, manager: "Server", release: Callable[[Connection], None]) -> None:
        super().__init__(manager, release)
        self.streams: dict[int, Http2Exchange] = {}
        """The requests without a complete response."""
        self.decoder = BlockDecoder()
        self.protocol = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        values = {
            SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            SettingCodes.MAX_HEADER_LIST_SIZE: HEADER_BYTES,
            SettingCodes.INITIAL_WINDOW_SIZE: BODY_BYTES,
        }
        self.protocol.local_settings = Settings(client=False, initial_values=values)
        self.protocol.remote_settings = _KnownSettings(client=True)
        self.protocol.decoder = self.decoder
        self._reader = asyncio.StreamReader()
        self._idle_since = self.loop.time()
        self._header_since: float | None = None
        self._frames = FrameBudget(self._idle_since)
        self._room = asyncio.Event()

    async def serve(self, transport: Any, data: bytes) -> None:
        """Serve a transport, from these bytes on, until it is closed."""
        self.connection_made(transport)
        transport.set_protocol(self)
        self._reader.set_transport(transport)
        self._reader.feed_data(data)
        self._scheme = "https" if self.secure else "http"
        self._client, self._server = self.addresses
        try:
            self.protocol.initiate_connection()
            window = CONNECTION_BYTES - self.protocol.inbound_flow_control_window
            self.protocol.increment_flow_control_window(window)
            self._send_pending()
            self._update_timeout()
            await self._read()
        except Exception:
            _log.debug("a connection failed", exc_info=True)
            transport.abort()
        finally:
            self.disconnected.set()
            self.close()
            # Release the received bytes: cycles of references live until a garbage collection.
            self.cancel_timer()
            self._reader = asyncio.StreamReader()
            vars(self.protocol).clear()

    async def _read(self) -> None:
        cost = 0
        while data := await self._reader.read(READ_BYTES):
            if self.lingering:
                continue
            self.set_timer(timeouts.PEER_CHECK_SECONDS, self._check_peer)
            # Read nothing while a body is full: its address or project has too many unread bytes.
            while self.unread.size > SMALL_PART_BYTES and any(s.body.full for s in self.streams.values()):
                if self.disconnected.is_set():
                    break
                self._room.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(timeouts.PEER_CHECK_SECONDS):
                        await self._room.wait()
            try:
                for part, added in self._frames.receive(data, self.loop.time()):
                    if cost + added > FRAMES_PER_TURN:
                        await self.manager.frame_turn()
                        cost = 0
                    if self.lingering or self.disconnected.is_set():
                        break
                    self.receive(part)
                    cost += added + self.decoder.cost
                    self.decoder.cost = 0
            except FrameFlood:
                self.write(GoAwayFrame(0, LAST_STREAM, ErrorCodes.ENHANCE_YOUR_CALM).serialize())
                break
            self._update_timeout()

    def receive(self, data: bytes) -> None:
        """Handle frames."""
        try:
            events = self.protocol.receive_data(data)
        except ProtocolError:
            self._send_pending()
            self._fail()
            return
        for event in events:
            stream = getattr(event, "stream_id", None) or 0
            exchange = self.streams.get(stream)
            if isinstance(event, RequestReceived):
                self._start(event)
            elif isinstance(event, DataReceived):
                self._receive_data(event, exchange)
            elif isinstance(event, StreamEnded) and exchange is not None:
                exchange.finish()
            elif isinstance(event, StreamReset) and exchange is not None:
                exchange.leave()
            elif isinstance(event, WindowUpdated | RemoteSettingsChanged):
                for number in [stream] if stream else self.streams:
                    if number in self.streams:
                        self.streams[number].on_window()
            elif isinstance(event, ConnectionTerminated):
                self._fail()
        self._send_pending()

    def _fail(self) -> None:
        """Close the connection: no stream can send any more."""
        self.disconnected.set()
        self.linger()

    def _start(self, event: RequestReceived) -> None:
        """Start a request, or refuse one that is malformed (RFC 9113 8.1.1) or oversized."""
        stream, headers, ended = event.stream_id, event.headers, event.stream_ended is not None
        if self.manager.terminated:
            self.protocol.reset_stream(stream)
            self.protocol.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 0})
            return
        fields: dict[bytes, bytes] = dict(headers)
        if self.decoder.oversized:
            status = b"431"
        elif (
            fields[b":method"] == b"CONNECT"
            or fields[b":scheme"] not in (b"http", b"https")
            or not is_request(fields[b":method"], fields[b":path"], headers)
            or (ended and fields.get(b"content-length", b"").strip(b"0"))
        ):
            status = b"400"
        else:
            path, _, query = fields[b":path"].partition(b"?")
            host = fields.get(b":authority", fields.get(b"host", b""))
            others = [field for field in headers if field[0] != b"host" and not field[0].startswith(b":")]
            request = Request(
                method=fields[b":method"].decode(),
                scheme=self._scheme,
                path=path.decode(),
                query=query,
                headers=[(b"host", host), *others],
                http_version="2",
                client=self._client,
                server=self._server,
            )
            self.streams[stream] = exchange = Http2Exchange(self, stream, request, ended=ended)
            self.loop.call_soon(self.manager.start, exchange)
            return
        self.protocol.send_headers(stream, [(b":status", status), (b"content-length", b"0")], end_stream=True)

    def _receive_data(self, event: DataReceived, exchange: Http2Exchange | None) -> None:
        """Acknowledge data when it leaves the body, so that one that is not read exhausts its window."""
        added = exchange.receive(event.data) if exchange is not None else 0
        if event.flow_controlled_length > added:
            self.protocol.acknowledge_received_data(event.flow_controlled_length - added, event.stream_id)
        if exchange is None:  # It has a response: stop the upload (RFC 9113 8.1).
            self.reset(event.stream_id, ErrorCodes.NO_ERROR)

    def acknowledge(self, stream: int, size: int) -> None:
        """Acknowledge data that has left the body of a stream."""
        self._room.set()
        if not self.transport.is_closing() and not self.lingering:
            with contextlib.suppress(ProtocolError):
                self.protocol.acknowledge_received_data(size, stream)
            self._send_pending()

    def sendable(self, stream: int) -> int:
        """Return how many bytes a frame of a stream may have now."""
        window = self.protocol.local_flow_control_window(stream)
        return max(0, min(window, self.protocol.max_outbound_frame_size))

    def send_headers(self, stream: int, fields: Headers) -> None:
        """Send the head of a response. Raises `ValueError` if it is not valid in HTTP/2."""
        try:
            self.protocol.send_headers(stream, fields)
        except ProtocolError as error:
            raise ValueError(str(error)) from error
        self._send_pending()

    def send_data(self, stream: int, data: bytes, *, end: bool) -> None:
        """Send a part of a response that `sendable` permits."""
        self.protocol.send_data(stream, data, end_stream=end)
        self._send_pending()

    def reset(self, stream: int, code: ErrorCodes) -> None:
        """Reset a stream, unless it is closed."""
        with contextlib.suppress(ProtocolError):
            self.protocol.reset_stream(stream, code)
        self._send_pending()

    def stream_ended(self, stream: int) -> None:
        """Remove a stream whose response has ended, and close the connection if it was the last one."""
        self.streams.pop(stream, None)
        if self.streams:
            return
        self._idle_since = self.loop.time()
        if self.manager.terminated:
            self.protocol.close_connection()
            self._send_pending()
            self.linger()
        else:
            self._update_timeout()

    def _send_pending(self) -> None:
        if data := self.protocol.data_to_send():
            self.write(data)
            self._frames.sent(len(data))

    def _update_timeout(self) -> None:
        """Apply the keep-alive timeout, or the header timeout to a partial frame or header block."""
        if self.lingering:
            return
        if self.streams:
            self._header_since = None
            self.clear_timer()
            return
        now = self.loop.time()
        buffer = self.protocol.incoming_buffer
        if buffer._preamble_len or buffer._data or buffer._headers_buffer:
            self._header_since = self._header_since or now
            deadline = self._header_since + timeouts.HEADER_SECONDS
        else:
            self._header_since = None
            deadline = self._idle_since + timeouts.IDLE_SECONDS
        self.set_timer(max(0.0, deadline - now), self.close)

    def data_received(self, data: bytes) -> None:
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
        self.write(GoAwayFrame(0, last_stream_id=LAST_STREAM).serialize())

    def close_if_idle(self) -> None:
        if not self.streams:
            self.close()
