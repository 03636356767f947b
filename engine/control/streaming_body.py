"""Request bodies with backpressure: data that a route has not read yet stays in the socket.

Quart's own body grows without a bound while its route is busy, and applies the size limit to streamed bodies
too. Here the size limit applies only to routes that read the whole body.
"""

import asyncio
from collections.abc import Generator
from typing import Any

from quart import Request
from quart.asgi import ASGIHTTPConnection
from quart.wrappers.request import Body
from werkzeug.exceptions import RequestEntityTooLarge

from engine.errors import SvcError

MAX_BUFFERED_BYTES = 256 << 10
"""Maximum bytes buffered for a route that reads a stream."""
IDLE_TIMEOUT_SECONDS = 60.0
"""Maximum time without data while a stream is read."""
BODY_TIMEOUT_SECONDS = 120.0
"""Maximum time to receive a body that is read whole."""


class BodyTimeout(SvcError):
    """The rest of a request body did not arrive in time."""

    code = "slow"

    def __init__(self) -> None:
        super().__init__("timed out waiting for the rest of the request body", "Send the request again.")


class StreamedBody(Body):
    """A request body that buffers a bounded amount, unless it is awaited whole."""

    def __init__(self, expected_content_length: int | None, max_content_length: int | None) -> None:
        super().__init__(None, max_content_length)
        self._expected = expected_content_length or 0
        self._whole = False
        self._room = asyncio.Event()
        self._room.set()

    def append(self, data: bytes) -> None:
        """Buffer received data."""
        super().append(data)
        if not self._whole and len(self._data) >= MAX_BUFFERED_BYTES:
            self._room.clear()

    async def room(self) -> None:
        """Wait until the buffer has room."""
        await self._room.wait()

    @property
    def complete(self) -> bool:
        """True once the whole body was received."""
        return self._complete.is_set()

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout(IDLE_TIMEOUT_SECONDS):
                data = await super().__anext__()
        except TimeoutError as error:
            raise BodyTimeout from error
        self._room.set()
        return data

    def __await__(self) -> Generator[Any, None, Any]:
        if self._max_content_length is not None and self._expected > self._max_content_length:
            raise RequestEntityTooLarge
        self._whole = True
        self._room.set()
        return (yield from self._all().__await__())

    async def _all(self) -> bytes:
        try:
            async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
                await self._complete.wait()
        except TimeoutError as error:
            raise BodyTimeout from error
        if self._must_raise is not None:
            raise self._must_raise
        return bytes(self._data)


class StreamedRequest(Request):
    """A request with a `StreamedBody`."""

    body_class = StreamedBody


class StreamedConnection(ASGIHTTPConnection):
    """An ASGI connection that reads from the socket only while the body's buffer has room."""

    async def handle_request(self, request: Request, send: Any) -> None:
        """Respond. If the response starts before the whole body arrived, add `connection: close`."""

        async def forward(message: Any) -> None:
            if (
                message["type"] == "http.response.start"
                and isinstance(request.body, StreamedBody)
                and not request.body.complete
                and self.scope["http_version"] < "2"
            ):
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        await super().handle_request(request, forward)

    async def handle_messages(self, request: Request, receive: Any) -> None:
        """Forward body messages to the request until the client disconnects."""
        while (message := await receive())["type"] != "http.disconnect":
            if message["type"] == "http.request":
                request.body.append(message.get("body", b""))
                if not message.get("more_body", False):
                    request.body.set_complete()
                elif isinstance(request.body, StreamedBody):
                    await request.body.room()
