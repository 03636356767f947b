"""Streams of HTTP/2 connections: their exchanges, and the bytes that wait to be sent on them."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import h2.errors
import h2.exceptions
from hypercorn.protocol.h2 import (
    BUFFER_HIGH_WATER,
    BUFFER_LOW_WATER,
    BufferCompleteError,
    StreamBuffer,
)
from hypercorn.protocol.http_stream import ASGIHTTPState

from engine.http.buffered import SMALL_PART_BYTES, ResponseBytes
from engine.http.connection import CountedExchange
from engine.http.exchange import Disconnected, Headers, Request, RequestBody

if TYPE_CHECKING:
    from engine.http.h2 import Http2Connection

_RESET_SECONDS = 1.0


class Http2Exchange(CountedExchange):
    """A stream, by way of the ASGI messages that Hypercorn exchanges with an application."""

    def __init__(
        self,
        connection: "Http2Connection",
        protocol: Any,
        scope: Any,
        queue: "asyncio.Queue[Any]",
        send: Any,
        *,
        buffer: "UnsentBuffer",
    ) -> None:
        super().__init__(connection, RequestBody())
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
        self.disconnected = Disconnected()
        self._protocol = protocol
        self._buffer = buffer
        self._stream = send.__self__
        self._send = send
        self._started = self._complete = False
        connection.disconnected.add_callback(self.disconnected.set)
        length = dict(scope["headers"]).get(b"content-length")
        self._missing = None if length is None else int(length)
        self._acknowledged = 0
        while not queue.empty():
            self._acknowledged += self._feed(queue.get_nowait())
        connection.count_body(self.body)
        connection.bodies.add(self.body)
        self.body.on_taken = self._on_taken
        self._stream.app_put = self._receive

    def _feed(self, message: dict[str, Any]) -> int:
        """Handle a message of the client; return how many bytes it added to the body."""
        if message["type"] == "http.disconnect":
            self.body.interrupt()
            if self._stream.state is not ASGIHTTPState.CLOSED:
                self.disconnected.set()
            return 0
        data = message["body"]
        if self._missing is not None:
            self._missing -= len(data)
        if self._missing and not message["more_body"]:  # Trailers ended it early (RFC 9113 8.1.1).
            connection = self._protocol.connection
            connection.reset_stream(self._stream.stream_id, h2.errors.ErrorCodes.PROTOCOL_ERROR)
            self._connection.write(connection.data_to_send())
            return self._feed({"type": "http.disconnect"})
        added = len(data) if self.body.feed(data) else 0
        if not message["more_body"]:
            self.body.finish()
        return added

    async def _receive(self, message: dict[str, Any]) -> None:
        """Handle a message of the client."""
        self._connection.deferred += self._feed(message)

    def _on_taken(self, size: int) -> None:
        """Acknowledge data, without what was acknowledged before the exchange existed."""
        early = min(size, self._acknowledged)
        self._acknowledged -= early
        if size > early:
            self._connection.acknowledge(size - early, self._stream.stream_id)

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

    async def close(self) -> None:
        """Reset the stream if the response is incomplete; Hypercorn sends a 500 if it has not started."""
        self._connection.bodies.discard(self.body)
        self.body.close()
        self._connection.disconnected.remove_callback(self.disconnected.set)
        if self._started and not self._complete:
            self._complete = True
            await self._reset()

    async def _reset(self) -> None:
        protocol, stream_id = self._protocol, self._stream.stream_id
        with contextlib.suppress(TimeoutError):
            if self._buffer.buffer:
                await asyncio.wait_for(self._buffer.drain(), _RESET_SECONDS)
        with contextlib.suppress(h2.exceptions.ProtocolError):
            protocol.connection.reset_stream(stream_id, h2.errors.ErrorCodes.INTERNAL_ERROR)
            await protocol._flush()
        # Hypercorn removes a stream's buffer when it tries to send it, which a closed window prevents.
        await self._buffer.close()
        protocol.priority.unblock(stream_id)
        await protocol.has_data.set()


class Streams(dict[int, Any]):
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


class UnsentBuffer(StreamBuffer):
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
