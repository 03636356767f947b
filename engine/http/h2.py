"""HTTP/2 as Hypercorn speaks it, mended: streams that were answered, buffers that are full, resets.

Owns the parts that `server.py` puts in the place of Hypercorn's own; it starts nothing and knows no socket.

- An application that raises after its response began leaves a stream open for ever: it is reset here.
- What a client sends after its request was answered ends the whole connection. Here it is asked to stop.
- A response goes into memory as fast as it is made: its buffer takes an attempt to send that the client has
  no room for as a sign that there is room. The buffer is another one here.
"""

import asyncio
import contextlib
from typing import Any

import h2.connection
import h2.errors
import h2.exceptions
from hypercorn.protocol.h2 import BUFFER_LOW_WATER, StreamBuffer

RESET_SECONDS = 1.0


class Streams(dict[int, Any]):
    """The streams of an HTTP/2 connection; what comes for one that was answered is asked to stop."""

    def __init__(self, protocol: Any) -> None:
        super().__init__(protocol.streams)
        self._protocol = protocol

    def __missing__(self, stream: int) -> "_Answered":
        return _Answered(self._protocol, stream)


class _Answered:
    """A stream whose answer was sent while its request goes on."""

    def __init__(self, protocol: Any, stream: int) -> None:
        self._protocol = protocol
        self._stream = stream

    async def handle(self, _event: object) -> None:
        """Let the client know that no more is wanted (RFC 9113 8.1), once it has the whole answer."""
        if self._stream not in self._protocol.stream_buffers:
            with contextlib.suppress(h2.exceptions.ProtocolError):
                self._protocol.connection.reset_stream(self._stream, h2.errors.ErrorCodes.NO_ERROR)


class Buffer(StreamBuffer):
    """What waits to be sent on an HTTP/2 stream: it holds its writer back until it has been sent."""

    async def push(self, data: bytes) -> None:
        """Add bytes; return when there is room for more."""
        await self._paused.clear()
        await super().push(data)

    async def pop(self, max_length: int) -> bytes:
        """Take bytes that may be sent now."""
        data = bytes(self.buffer[:max_length])
        del self.buffer[:max_length]
        if len(self.buffer) < BUFFER_LOW_WATER:
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data


async def reset(send: Any) -> None:
    """Reset the HTTP/2 stream that `send` belongs to, after what was sent on it has left."""
    stream = send.__self__
    protocol = stream.send.__self__
    connection: h2.connection.H2Connection = protocol.connection
    buffer = protocol.stream_buffers.get(stream.stream_id)
    try:
        if buffer is not None:
            await asyncio.wait_for(buffer.drain(), RESET_SECONDS)
        connection.reset_stream(stream.stream_id, h2.errors.ErrorCodes.INTERNAL_ERROR)
        await protocol._flush()
    except (TimeoutError, h2.exceptions.ProtocolError):
        return
