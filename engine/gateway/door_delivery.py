"""Responses of Doors to clients of a project.

A guest names a file in the field `x-svc-file` of its response, and its run ends: the host sends the file.
Paths below `/.svc/<door>/` are answered by that Door, which checks the permission itself.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

from engine.door import DOMAIN, Caller, DoorRequest, DoorResponse, Session
from engine.gateway.routes import Endpoint
from engine.gateway.static.responder import folder_location, relative_name
from engine.gateway.static.source import names_of
from engine.gateway.traced_exchange import DELIVERED, SpanContext, TracedExchange
from engine.http.exchange import Headers
from engine.static_files.rules import StaticRules
from engine.wasm.outbound.door_calls import MAX_PATH_CHARS, DoorBinding

PUBLIC = "/.svc/"
"""Path of the Doors that answer clients."""
_OF_BODY = {b"content-length", b"content-range", b"accept-ranges", b"etag", b"last-modified", DELIVERED}
"""Fields that describe the bytes that are sent, so the guest does not set them."""
_PIECE_BYTES = 64 << 10
FILES_URL = f"http://files.{DOMAIN}"
DoorsOf = Callable[[str], Mapping[str, DoorBinding]]
"""Returns the open Doors of a project."""


def public_door(doors: Mapping[str, DoorBinding], path: str) -> DoorBinding | None:
    """Return the Door that answers a path below `PUBLIC`, or `None`."""
    door = doors.get(path.removeprefix(PUBLIC).partition("/")[0])
    return door if door is not None and door.streams else None


def file_url(path: str) -> str:
    """Return the URL by which a recording names a request of the host to the Door `files`."""
    return FILES_URL + quote(path, safe="/%!$&'()*+,:;=@~")


@dataclass(frozen=True, slots=True)
class Delivery:
    """The response of a Door to a request of a client.

    Methods return its status, and the bytes of the bodies of response and request.
    """

    exchange: TracedExchange
    endpoint: Endpoint
    span: SpanContext
    door: DoorBinding

    async def answer(self) -> tuple[int, int, int]:
        head, received = self.exchange.request, 0

        async def body() -> AsyncIterator[bytes]:
            nonlocal received
            while part := await self.exchange.body.read():
                received += len(part)
                yield part

        status, size = await self._send(await self._ask(head.method, head.path, stream=body()), None)
        return status, size, received

    async def send_named(self, head: tuple[int, Headers]) -> tuple[int, int, int]:
        """Send the file that the head of a guest's response names."""
        key = dict(head[1])[DELIVERED].decode("latin-1")
        method = "HEAD" if self.exchange.request.method == "HEAD" else "GET"
        # Ranges and conditions are of responses with 200 only, not of the page of an error.
        answer = await self._ask(method, f"/v1/files/{key}", plain=head[0] != HTTPStatus.OK)
        return *await self._send(answer, head), 0

    async def send_static(self, rules: StaticRules) -> tuple[int, int, int] | None:
        """Send the file of a static resource with `files`.

        Returns `None`, with nothing sent, if no file matches. Paths lead to files as those of a folder.
        """
        head, fields = self.exchange.request, rules.fields(self.exchange.request.path)
        method, name = "GET" if head.method == "GET" else "HEAD", relative_name(head.path)

        async def ask(name: str, *, plain: bool = False) -> DoorResponse | None:
            answer = await self._ask(method, f"/v1/files/{quote(self.endpoint.files + name)}", plain=plain)
            return None if answer.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND) else answer

        answer, status, uncached = None, HTTPStatus.OK, ("cache-control", b"no-cache")
        if name is not None:
            file, page = names_of(name)
            answer = await ask(file)
            if answer is None and page:
                answer = await ask(page)
                if answer is not None and not rules.redirects_folder(head.path):
                    answer = DoorResponse(308, headers=(("location", folder_location(head, name)), uncached))
        if answer is not None and head.method not in ("GET", "HEAD"):
            answer = DoorResponse(405, headers=(("allow", b"GET, HEAD"), uncached))
        elif answer is None and self.endpoint.not_found and head.method in ("GET", "HEAD"):
            answer, status = await ask(self.endpoint.not_found, plain=True), HTTPStatus.NOT_FOUND
            fields = {b"content-disposition": b"inline"} | fields
        if answer is None:
            return None
        own = None if answer.status == HTTPStatus.PERMANENT_REDIRECT else (status, [*fields.items()])
        return *await self._send(answer, own), 0

    async def _ask(
        self, method: str, path: str, *, stream: AsyncIterator[bytes] | None = None, plain: bool = False
    ) -> DoorResponse:
        """Return the answer of the Door; if `plain`, to a request without header fields.

        A recording has its head as a call, and the bytes in the response.
        """
        exchange, endpoint, span = self.exchange, self.endpoint, self.span
        trace, began = exchange.call_trace(), time.time_ns()
        fields = [] if plain else exchange.request.headers
        request = DoorRequest(
            method,
            path,
            query=exchange.request.query.decode("latin-1"),
            headers=tuple((name.decode("latin-1"), value) for name, value in fields),
            caller=Caller(endpoint.name, exchange.id, span.trace_id, span.span_id, endpoint.stale),
            session=exchange.begin_session() if endpoint.sessions else Session(),
            stream=stream,
            client=True,
        )
        name = f"{method} files{path[:MAX_PATH_CHARS]}"
        call = trace.begin("door", name) if trace is not None else None
        answer = self.door.answer(request)
        answer = answer if isinstance(answer, DoorResponse) else await answer
        if call is not None:
            call.end(answer.status)
            if (capture := call.capture) is not None:
                capture.time_ns, capture.received = began, answer.body
                capture.request = method, file_url(path), []
                capture.response = answer.status, _encoded(answer.headers)
        return answer

    async def _send(self, answer: DoorResponse, head: tuple[int, Headers] | None) -> tuple[int, int]:
        """Send a response, with the other fields of `head` and, unless it is partial, its status."""
        exchange, status, headers = self.exchange, answer.status, _encoded(answer.headers)
        if answer.stream is None and status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            headers.append((b"content-length", b"%d" % len(answer.body)))
        if head is not None and status < HTTPStatus.BAD_REQUEST:
            status = head[0] if status == HTTPStatus.OK else status
            own = [field for field in head[1] if field[0] not in _OF_BODY]
            names = {name for name, _ in own}
            headers = [*(field for field in headers if field[0] not in names), *own]
        await exchange.send_head(status, headers)
        if answer.stream is None:
            await exchange.send_body(answer.body, end=True)
            return status, len(answer.body)
        size = 0
        async with aclosing(answer.stream) as chunks:
            async for chunk in chunks:
                for start in range(0, len(chunk), _PIECE_BYTES):
                    if exchange.disconnected.is_set():
                        return status, size
                    piece = chunk[start : start + _PIECE_BYTES]
                    await exchange.send_body(piece, end=False)
                    size += len(piece)
        await exchange.send_body(b"", end=True)
        return status, size


def _encoded(headers: tuple[tuple[str, bytes], ...]) -> Headers:
    return [(name.encode("latin-1"), value) for name, value in headers]
