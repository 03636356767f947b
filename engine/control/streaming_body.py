"""Bodies of requests that are read as they come: what a route has not taken yet waits in the socket.

Quart's own body grows while its route is busy, and is cut off at a limit even where a route reads a stream.
Here the limit holds for routes that take a body whole.
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
"""Bytes that are held for a route that reads a stream."""
IDLE_TIMEOUT_SECONDS = 60.0
"""How long a stream may bring nothing: who has left without a word holds nothing up for others."""
BODY_TIMEOUT_SECONDS = 120.0
"""How long a body may take that is taken whole."""


class BodyTimeout(SvcError):
    """The rest of a body does not come."""

    code = "slow"

    def __init__(self) -> None:
        super().__init__("the rest of the request did not come in time", "Send it again.")


class StreamedBody(Body):
    """A body of which only some is in memory, unless it is awaited whole."""

    def __init__(self, expected_content_length: int | None, max_content_length: int | None) -> None:
        super().__init__(None, max_content_length)
        self._expected = expected_content_length or 0
        self._whole = False
        self._room = asyncio.Event()
        self._room.set()

    def append(self, data: bytes) -> None:
        """Take what came."""
        super().append(data)
        if not self._whole and len(self._data) >= MAX_BUFFERED_BYTES:
            self._room.clear()

    async def room(self) -> None:
        """Wait until more may come."""
        await self._room.wait()

    @property
    def complete(self) -> bool:
        """Whether all of it came."""
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
    """A request with such a body."""

    body_class = StreamedBody


class StreamedConnection(ASGIHTTPConnection):
    """Reads from the socket only what its request has room for."""

    async def handle_request(self, request: Request, send: Any) -> None:
        """Answer; where that comes before all of the body, say that the connection ends with the answer."""

        async def telling(message: Any) -> None:
            if (
                message["type"] == "http.response.start"
                and isinstance(request.body, StreamedBody)
                and not request.body.complete
                and self.scope["http_version"] < "2"
            ):
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        await super().handle_request(request, telling)

    async def handle_messages(self, request: Request, receive: Any) -> None:
        """Hand on what comes, until the client is gone."""
        while (message := await receive())["type"] != "http.disconnect":
            if message["type"] == "http.request":
                request.body.append(message.get("body", b""))
                if not message.get("more_body", False):
                    request.body.set_complete()
                elif isinstance(request.body, StreamedBody):
                    await request.body.room()
