"""Connections to other servers, by HTTP/1.1; a response may arrive while its request is being sent."""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter_ns

import h11
import httpcore

from engine.manifest.egress import Origin
from engine.wasm.outbound.dialer import CONNECT_SECONDS, Dialer, connecting

MAX_CONNECTIONS = 256
"""Maximum number of connections of a resource by one scheme."""
MAX_IDLE = 64
MAX_IDLE_SECONDS = 15.0
MAX_HEAD_BYTES = 102_400
_READ_BYTES = 65_536


class Connection:
    """A connection to an origin, for one exchange at a time."""

    def __init__(self, origin: Origin, stream: httpcore.AsyncNetworkStream) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self._stream = stream
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)

    async def send(self, part: h11.Event, seconds: float) -> None:
        """Send a part of a request."""
        await self._stream.write(self._protocol.send(part) or b"", seconds)

    async def receive(self, seconds: float) -> h11.Event:
        """Return the next part of the response."""
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(await self._stream.read(_READ_BYTES, seconds))
        assert isinstance(event, h11.Event)  # No request asks for another protocol.
        return event

    async def head(self, seconds: float) -> h11.Response:
        """Return the head of the response, without those of interim responses."""
        while not isinstance(head := await self.receive(seconds), h11.Response):
            pass
        return head

    async def body(self, seconds: float) -> AsyncIterator[bytes]:
        """Yield the body of the response."""
        while isinstance(part := await self.receive(seconds), h11.Data):
            yield bytes(part.data)

    @property
    def answered(self) -> bool:
        """True once the response is complete, if the server waits for the rest of the request."""
        return self._protocol.their_state is h11.DONE

    def reset(self) -> bool:
        """Prepare for the next exchange; return whether there can be one."""
        unexpected, _ = self._protocol.trailing_data
        if self._protocol.our_state is not h11.DONE or not self.answered or unexpected:
            return False
        self._protocol.start_next_cycle()
        return True

    def is_open(self) -> bool:
        """Return whether the server has not closed the idle connection."""
        return not self._stream.get_extra_info("is_readable")

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()


class ConnectionPool:
    """The connections of a resource by one scheme, and the number of its exchanges in progress."""

    def __init__(self, dialer: Dialer, tls: ssl.SSLContext | None) -> None:
        self.exchanges = 0
        self.used_at = 0.0
        self._dialer = dialer
        self._tls = tls
        if tls is not None:
            tls.set_alpn_protocols(["http/1.1"])
        self._permits = asyncio.Semaphore(MAX_CONNECTIONS)
        self._idle: deque[Connection] = deque()
        self._closed = False

    @asynccontextmanager
    async def connection(self, origin: Origin, seconds: float) -> AsyncIterator[Connection]:
        """Return a connection for an exchange; `seconds` is the timeout to open one.

        Raises `AddressDenied` and httpcore's errors.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._permits.acquire()
        except TimeoutError:
            raise httpcore.PoolTimeout(str(origin)) from None
        self.exchanges += 1
        try:
            connection = await self._reused(origin) or await self._opened(origin, seconds)
            try:
                yield connection
            finally:
                if not self._closed and connection.reset():
                    connection.idle_since = asyncio.get_running_loop().time()
                    self._idle.append(connection)
                else:
                    await connection.aclose()
        finally:
            self.exchanges -= 1
            self.used_at = asyncio.get_running_loop().time()
            self._permits.release()

    async def _reused(self, origin: Origin) -> Connection | None:
        """Return an idle connection to an origin; close those that can no longer be used."""
        oldest, found, closing = asyncio.get_running_loop().time() - MAX_IDLE_SECONDS, None, []
        while self._idle and (
            self._idle[0].idle_since < oldest
            or len(self._idle) > min(MAX_IDLE, MAX_CONNECTIONS - self.exchanges)
        ):
            closing.append(self._idle.popleft())
        for connection in [each for each in reversed(self._idle) if each.origin == origin]:
            self._idle.remove(connection)
            if connection.is_open():
                found = connection
                break
            closing.append(connection)
        for connection in closing:
            await connection.aclose()
        return found

    async def _opened(self, origin: Origin, seconds: float) -> Connection:
        stream = await self._dialer.connect_tcp(origin.host, origin.port, seconds)
        if self._tls is not None:
            try:
                stream = await stream.start_tls(self._tls, origin.host, seconds)
            except BaseException:
                await stream.aclose()
                raise
        call = connecting.get()
        if call is not None and call.details is not None:
            call.details["connect_ns"] = perf_counter_ns() - call.start_ns
        return Connection(origin, stream)

    async def aclose(self) -> None:
        """Close the idle connections now, and those in use after their exchanges."""
        self._closed = True
        while self._idle:
            await self._idle.popleft().aclose()
