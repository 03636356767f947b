"""What comes on a connection, in the parts in which the system gives it, until somebody takes them.

Owns these bytes, and with them when the socket is read. asyncio's own reader copies each part into a buffer
and out of it again; a body gets it here as it came, in the very call that brings it.
"""

import asyncio
from typing import Any, Protocol

from engine.http.byte_queue import Parts

HELD_BYTES = 128 << 10
"""What waits at most for its reader, but for one part, before the socket is read no more."""


class Body(Protocol):
    """Whoever takes a body as it comes."""

    @property
    def whole(self) -> bool:
        """Whether no more of it is to come."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Take a part; return what comes after the body."""
        ...


class Incoming(asyncio.StreamReader):
    """The reader of a connection, as asyncio's streams know it."""

    def __init__(self) -> None:
        super().__init__()
        self._parts = Parts()
        self._ended = False
        self._failure: Exception | None = None
        self._reading: asyncio.Future[None] | None = None
        self._source: Any = None
        self._body: Body | None = None
        self.paused = False
        """Whether the socket is not read."""

    def set_transport(self, transport: asyncio.BaseTransport) -> None:
        """Hear where the bytes come from."""
        self._source = transport

    def feed_data(self, data: Any) -> None:
        """Hear of a part."""
        if self._body is not None:
            data = self._into_body(self._body, data)
        if data:
            self._parts.add(data)
            self._wake()
            if self._parts.size > HELD_BYTES:
                self.pause()

    def feed_eof(self) -> None:
        """Hear that no more comes."""
        self._ended = True
        self._wake()

    def set_exception(self, exc: Exception) -> None:
        """Hear that the connection broke."""
        self._failure = exc
        self.feed_eof()

    def exception(self) -> Exception | None:
        """Return why the connection broke, if it did."""
        return self._failure

    def _wake(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)

    async def read(self, n: int = -1) -> bytes:
        """Return what has come, at most `n` bytes of it; nothing at the end. Raises `OSError`."""
        while not (self._parts or self._ended):
            self._reading = asyncio.get_running_loop().create_future()
            try:
                await self._reading
            finally:
                self._reading = None
        if self._failure is not None:
            raise self._failure
        data = self._parts.take(n) if self._parts else b""
        if self._parts.size <= HELD_BYTES // 2:
            self.resume()
        return data

    def divert(self, body: Body, begun: bytes) -> None:
        """Give to a body, until it is whole: what was read of it, what waits, and what comes."""
        self.resume()
        self._body = body
        rest = self._into_body(body, begun)
        while self._parts and self._body is not None:
            rest = self._into_body(body, self._parts.take())
        if rest:
            self._parts.put_back(rest)

    def _into_body(self, body: Body, data: bytes) -> bytes:
        rest = body.feed(data)
        if body.whole:
            self._body = None
        return rest

    def end_body(self) -> None:
        """Give no more to a body: what comes is for `read`."""
        self._body = None
        self.resume()

    def pause(self) -> None:
        """Read the socket no more."""
        if not self.paused:
            self.paused = True
            self._source.pause_reading()

    def resume(self) -> None:
        """Read the socket again."""
        if self.paused:
            self.paused = False
            self._source.resume_reading()
