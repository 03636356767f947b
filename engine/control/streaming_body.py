"""Request bodies with backpressure, and streams that end when their caller loses access.

Data that a route has not read yet stays in the socket. Quart's own body grows without a bound while its route
is busy, and applies the size limit to streamed bodies too. Here the size limit applies only to routes that
read the whole body. Long JSON is parsed in a thread, in short steps.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Generator
from functools import partial
from typing import Any, cast

from quart import Request
from quart.asgi import ASGIHTTPConnection
from quart.wrappers.request import Body
from werkzeug.exceptions import RequestEntityTooLarge

from engine.control import ndjson
from engine.control.access_watch import RequestAccess
from engine.control.errors import problem_members
from engine.control.project_threads import ProjectThreads
from engine.errors import SvcError
from engine.stepwise_json import MAX_STEP, TooComplex, parse

MAX_BUFFERED_BYTES = 256 << 10
"""Maximum bytes buffered for a route that reads a stream."""
IDLE_TIMEOUT_SECONDS = 60.0
"""Maximum time without data while a stream is read."""
BODY_TIMEOUT_SECONDS = 120.0
"""Maximum time to receive a body that is read whole."""
MAX_VALUES = 200_000
"""Maximum values in a JSON body that is read whole."""
LAST_LINE_SECONDS = 0.25
"""Maximum time to send the error that ends a stream; a client that reads nothing is cut off."""


_threads = ProjectThreads("json-body", threads=4)


async def parse_json(owner: str, document: bytes | bytearray, max_values: int) -> Any:
    """Return the value of a JSON document, a long one parsed in a thread. Raises `SvcError`.

    Documents of equal owners take turns.
    """
    try:
        text = document.decode()
        if len(text) <= MAX_STEP:
            return parse(text, max_values, exact=True)
        return await _threads.run(owner, partial(parse, text, max_values, exact=True))
    except TooComplex as error:
        raise SvcError(f"the request body has {error}", "Send it in parts.", code="body-too-large") from error
    except ValueError as error:
        raise SvcError("the request body is not valid JSON", code="invalid") from error


@contextlib.asynccontextmanager
async def _limited(seconds: float) -> AsyncIterator[None]:
    """Raise `SvcError` if the rest of a request body does not arrive in time."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        message = "timed out waiting for the rest of the request body"
        raise SvcError(message, "Send the request again.", code="slow") from error


class StreamedBody(Body):
    """A request body that buffers a bounded amount, unless it is awaited whole."""

    def __init__(self, expected_content_length: int | None, max_content_length: int | None) -> None:
        super().__init__(None, max_content_length)
        self._expected = expected_content_length or 0
        self._awaited = False
        self._room = asyncio.Event()
        self._room.set()
        self._failure: SvcError | None = None

    def fail(self, error: SvcError) -> None:
        """Raise an error in a route that reads the body as a stream."""
        self._failure = error
        self._has_data.set()

    def append(self, data: bytes) -> None:
        super().append(data)
        if not self._awaited and len(self._data) >= MAX_BUFFERED_BYTES:
            self._room.clear()

    async def room(self) -> None:
        await self._room.wait()

    @property
    def complete(self) -> bool:
        return self._complete.is_set()

    async def __anext__(self) -> bytes:
        async with _limited(IDLE_TIMEOUT_SECONDS):
            data = await super().__anext__()
        if self._failure is not None:
            raise self._failure
        self._room.set()
        return data

    def __await__(self) -> Generator[Any, None, Any]:
        if self._max_content_length is not None and self._expected > self._max_content_length:
            raise RequestEntityTooLarge
        self._awaited = True
        self._room.set()
        return (yield from self._all().__await__())

    async def _all(self) -> bytes:
        async with _limited(BODY_TIMEOUT_SECONDS):
            await self._complete.wait()
        if self._must_raise is not None:
            raise self._must_raise
        return bytes(self._data)


class StreamedRequest(Request):
    """A request with a `StreamedBody`. `access` has the rights of an authenticated caller."""

    body_class = StreamedBody
    access: RequestAccess | None = None
    on_access_lost: Callable[[SvcError], None]

    async def get_json(self, force: bool = False, silent: bool = False, cache: bool = True) -> Any:
        """Return the body as JSON, like Quart. Raises `SvcError` for a long body that is not valid."""
        if (force or self.is_json) and len(
            body := cast(bytes, await self.get_data(as_text=False))
        ) > MAX_STEP:
            return await parse_json(str((self.view_args or {}).get("project", "")), body, MAX_VALUES)
        return await super().get_json(force, silent, cache)


class StreamedConnection(ASGIHTTPConnection):
    """The connection of one request, which reads only while the body's buffer has room.

    A stream ends when its caller loses access: NDJSON with an `error` line, another response incomplete.
    """

    def __init__(self, app: Any, scope: Any) -> None:
        super().__init__(app, scope)
        self._limit = asyncio.timeout(None)
        self._read_error: SvcError | None = None
        self._response: Any = None
        self._sent = False

    async def handle_request(self, request: Request, send: Any) -> None:
        """Respond. If the response starts before the whole body arrived, add `connection: close`."""
        assert isinstance(request, StreamedRequest)

        async def forward(message: Any) -> None:
            if (
                message["type"] == "http.response.start"
                and isinstance(request.body, StreamedBody)
                and not request.body.complete
                and self.scope["http_version"] < "2"
            ):
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            self._sent = message["type"] == "http.response.body" and not message["more_body"]
            await send(message)

        request.on_access_lost = partial(self._on_access_lost, request.body)
        try:
            async with self._limit:
                await super().handle_request(request, forward)
        except TimeoutError:
            if self._read_error is None:
                raise
            if isinstance(self._response, ndjson.NdjsonResponse):
                line = ndjson.line({"error": problem_members(self._read_error)})
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LAST_LINE_SECONDS):
                        await send({"type": "http.response.body", "body": line, "more_body": False})
        finally:
            if request.access is not None:
                request.access.unwatch()

    async def _send_response(self, send: Any, response: Any) -> None:
        self._response = response
        await super()._send_response(send, response)

    def _on_access_lost(self, body: Any, error: SvcError) -> None:
        """End the response if it has started, else a body that its route reads as a stream.

        Other routes end by themselves. They may revoke the caller's own session, and must then respond.
        """
        if self._response is None:
            if isinstance(body, StreamedBody):
                body.fail(error)
        elif self._read_error is None and not self._sent:
            self._read_error = error
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def handle_messages(self, request: Request, receive: Any) -> None:
        """Forward body messages to the request until the client disconnects."""
        while (message := await receive())["type"] != "http.disconnect":
            if message["type"] == "http.request":
                request.body.append(message.get("body", b""))
                if not message.get("more_body", False):
                    request.body.set_complete()
                elif isinstance(request.body, StreamedBody):
                    await request.body.room()
