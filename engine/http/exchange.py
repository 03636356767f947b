"""HTTP exchanges: a request, its body, and the way to send the response."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from engine.http.buffered import SMALL_PART_BYTES, BufferedBytes, ResponseBytes

Headers = list[tuple[bytes, bytes]]
OnBody = Callable[[bytes | None], bool]
"""Takes a part of a body, `b""` at its end, or `None` on an interruption; returns whether to continue."""
MAX_BODY = 32 << 20
"""Default limit of a request body, in bytes."""
SMALL_BYTES = 4096
"""Parts of a body are joined up to this size while they wait for the application."""
BODY_BYTES = 256 << 10
"""Bytes of a body that are buffered for the application before the client is throttled."""


@dataclass(slots=True, kw_only=True)
class Request:
    """The head of a request.

    `path` and `query` are as the client sent them, percent-encoded. `headers` have names in lower case.
    `client` and `server` are addresses with ports. `id` is empty unless the server itself makes the request.
    `resource` is the project and the resource that such a request goes to, whatever its host; its fields that
    only svc may send are passed on.
    """

    method: str
    scheme: str
    path: str
    query: bytes
    headers: Headers
    http_version: str = "1.1"
    client: tuple[str, int] | None = None
    server: tuple[str, int] | None = None
    id: str = ""
    resource: tuple[str, str] | None = None


class BodyInterrupted(ConnectionError):
    """The rest of a request body will not arrive."""


class RequestBody:
    """A request body: the connection feeds it, and one consumer reads it or subscribes to it.

    `complete` is true once all of it was received. `on_taken` is called with the size of each part that
    leaves the buffer. `observer` is called with each part that the consumer takes, and `b""` at the end.
    `on_wanted` is called before the consumer first takes a part.
    """

    def __init__(self, data: bytes | None = None) -> None:
        """`data` is the whole body, if it is known."""
        self._parts: deque[bytes | bytearray] = deque((data,) if data else ())
        self._interrupted = False
        self._ended = data == b""
        self._subscriber: OnBody | None = None
        self._wakeup: asyncio.Event | None = None
        self._counts: tuple[BufferedBytes, ...] = ()
        self.complete = data is not None
        self.size = len(data or b"")
        self.observer: Callable[[bytes], None] | None = None
        self.on_taken: Callable[[int], None] | None = None
        self.on_wanted: Callable[[], None] | None = None

    @property
    def exhausted(self) -> bool:
        """Return whether the body has ended, and every part of it was read."""
        return self.complete and not self._parts

    @property
    def full(self) -> bool:
        """Return whether the client should be throttled."""
        if self.complete or self.size <= SMALL_PART_BYTES:
            return False
        return self.size > BODY_BYTES or any(count.exceeded for count in self._counts)

    def count(self, *counts: BufferedBytes) -> None:
        """Count the bytes that are buffered now and later."""
        self._counts += counts
        for count in counts:
            count.size += self.size

    def feed(self, data: bytes) -> bool:
        """Add a part that was received; return false, and ignore it, after an interruption."""
        if self._interrupted:
            return False
        if data:
            last = self._parts[-1] if self._parts else None
            if last is None or len(last) + len(data) > SMALL_BYTES:
                self._parts.append(data)
            elif isinstance(last, bytearray):
                last += data
            else:
                self._parts[-1] = bytearray(last + data)
            self._add(len(data))
            self._notify()
        return True

    def finish(self) -> None:
        if not self._interrupted:
            self.complete = True
            self._notify()

    def interrupt(self) -> None:
        """Mark that the rest of the body will not arrive; buffered parts are still delivered."""
        if not self.complete and not self._interrupted:
            self._interrupted = True
            self._notify()

    def close(self) -> None:
        """Interrupt the body unless it is complete, and discard what is buffered."""
        self.interrupt()
        self._parts.clear()
        if self.size:
            self._remove(self.size)

    async def read(self) -> bytes:
        """Return the next part, `b""` at the end. Raises `BodyInterrupted`."""
        self._want()
        while not (self._parts or self.complete or self._interrupted):
            self._wakeup = self._wakeup or asyncio.Event()
            self._wakeup.clear()
            await self._wakeup.wait()
        part = self._take()
        if part is None:
            raise BodyInterrupted("the client disconnected before the end of its request")
        return part

    def subscribe(self, callback: OnBody | None) -> None:
        """Call `callback` with each part as it arrives, until it returns false; `None` unsubscribes."""
        self._subscriber = callback
        if callback is not None:
            self._want()
        self._notify()

    def _want(self) -> None:
        if self.on_wanted is not None:
            self.on_wanted()
            self.on_wanted = None

    def _notify(self) -> None:
        while self._subscriber is not None and (self._parts or self.complete or self._interrupted):
            part = self._take()
            if not self._subscriber(part) or not part:
                self._subscriber = None
        if self._wakeup is not None:
            self._wakeup.set()

    def _take(self) -> bytes | None:
        if self._parts:
            part = bytes(self._parts.popleft())
            self._remove(len(part))
        elif self.complete:
            part = b""
        else:
            return None
        if self.observer is not None and not self._ended:
            self.observer(part)
        self._ended = self._ended or not part
        return part

    def _add(self, size: int) -> None:
        self.size += size
        for count in self._counts:
            count.size += size

    def _remove(self, size: int) -> None:
        self._add(-size)
        if self.on_taken is not None:
            self.on_taken(size)


class Disconnected(asyncio.Event):
    """An event that is set once the client has disconnected. Callbacks run immediately, in order."""

    def __init__(self) -> None:
        super().__init__()
        self._callbacks: dict[Callable[[], None], None] = {}

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the client disconnects; at once if it already has."""
        if self.is_set():
            callback()
        else:
            self._callbacks[callback] = None

    def remove_callback(self, callback: Callable[[], None]) -> None:
        self._callbacks.pop(callback, None)

    def set(self) -> None:
        """Mark the client as disconnected."""
        super().set()
        callbacks, self._callbacks = self._callbacks, {}
        for callback in callbacks:
            callback()


class Exchange(Protocol):
    """A request and the way to send its response.

    `disconnected` is the only notification of a client that left. A response ends with `send_body(...,
    end=True)`; a handler that returns earlier has failed. Sending to a disconnected client, or after the
    end, does nothing. The handler sets `project`, for which the bytes of both bodies count.
    """

    request: Request
    body: RequestBody
    disconnected: Disconnected
    project: str

    @property
    def unsent(self) -> ResponseBytes:
        """The unsent bytes of the response."""

    async def send_head(self, status: int, headers: Headers) -> None:
        """Send the status and header fields. Raises `ValueError` if they are not valid in HTTP."""

    async def send_body(self, data: bytes, *, end: bool) -> None:
        """Send a part of the body, with backpressure. Raises `ValueError` on a wrong length."""

    def abort(self) -> None:
        """End the exchange with an incomplete response, so that the client notices the error."""


Handler = Callable[[Exchange], Awaitable[None]]


class MemoryExchange:
    """An exchange without a connection. `status` is `None` until the response starts."""

    def __init__(self, request: Request, body: bytes = b"") -> None:
        self.request = request
        self.body = RequestBody(body)
        self.disconnected = Disconnected()
        self.project = ""
        self.unsent = ResponseBytes()
        self.status: int | None = None
        self.fields: Headers = []
        self.aborted = False

    async def send_head(self, status: int, headers: Headers) -> None:
        self.status, self.fields = status, headers

    async def send_body(self, data: bytes, *, end: bool) -> None:
        """Discard a part of the body, and leave a turn of the event loop to other exchanges."""
        await asyncio.sleep(0)

    def abort(self) -> None:
        self.aborted = True
