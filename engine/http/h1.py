"""HTTP/1.1 as most clients speak it: read and answered at a fraction of h11's cost.

Owns the bytes of such a request and of its answer, and knows no socket. What is not plainly one (a body in
chunks, an upgrade, an odd byte, a head in parts) is h11's to read, which also says what is wrong with it.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import unquote
from wsgiref.handlers import format_date_time

Fields = list[tuple[bytes, bytes]]
HEAD_BYTES = 16 << 10
"""The largest head that is read here."""
BODY_BYTES = 256 << 10
"""What of a body waits at most for the application, but for one part, before the client is held back."""
_LENGTH_DIGITS = 18
_NAME = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_HEAD = re.compile(rb"([A-Z]+) ([!-~]+) HTTP/1\.1\r\n((?:" + _NAME + rb":[\t -~]*\r\n)+)\r\n")
_FIELD = re.compile(rb"(" + _NAME + rb"):([\t -~]*)\r\n")
# Lower case, as ASGI has it: no spelling of a name passes by those that are the connection's.
_ANSWER_FIELDS = re.compile(rb"(?:[-!#$%&'*+.^_`|~0-9a-z]+: [\t -~\x80-\xff]*\r\n)*")
_NOT_PLAIN = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"http2-settings"})
_OF_THE_CONNECTION = frozenset({b"connection", b"keep-alive", b"transfer-encoding"})
_BODILESS = frozenset({204, 304})
_CHUNKED = b"transfer-encoding: chunked\r\n"
_NO_BODY = {"type": "http.request", "body": b"", "more_body": False}


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request: `size` bytes of it, of its body `length`, the names of its fields in lower case.

    `last` says that the client wants no further answer on its connection.
    """

    method: str
    target: bytes
    fields: Fields
    last: bool
    size: int
    length: int


def read_head(data: bytes) -> Head | None:
    """Return the head that the bytes begin with, `None` when it is h11 that has to look at them.

    Takes a part of what RFC 9112 allows, so that h11 would understand the same.
    """
    found = _HEAD.match(data, 0, HEAD_BYTES)
    if found is None:
        return None
    method, target, block = found.groups()
    fields = [(name.lower(), value.strip(b" \t")) for name, value in _FIELD.findall(block)]
    names = [name for name, _ in fields]
    if names.count(b"host") != 1 or method == b"CONNECT" or not _NOT_PLAIN.isdisjoint(names):
        return None
    last = False
    if b"connection" in names:
        wishes = [value.lower() for name, value in fields if name == b"connection"]
        if wishes not in ([b"close"], [b"keep-alive"]):
            return None
        last = wishes == [b"close"]
    length = b"0"
    if b"content-length" in names:
        lengths = [value for name, value in fields if name == b"content-length"]
        length = lengths[0]
        if len(lengths) != 1 or not length.isdigit() or len(length) > _LENGTH_DIGITS:
            return None
    return Head(method.decode(), target, fields, last, found.end(), int(length))


def scope(head: Head, scheme: str, client: Any, server: Any, extensions: dict[str, Any]) -> dict[str, Any]:
    """Return the ASGI scope of a request (ASGI 3.0, HTTP 2.1)."""
    path, _, query = head.target.partition(b"?")
    return {
        "type": "http",
        "http_version": "1.1",
        "asgi": {"spec_version": "2.1", "version": "3.0"},
        "method": head.method,
        "scheme": scheme,
        "path": unquote(path.decode("ascii")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": head.fields,
        "client": client,
        "server": server,
        "state": {},
        "extensions": extensions,
    }


class Answer:
    """The bytes of an answer, part by part (RFC 9112 4 and 6). Raises `ValueError` for what can be none."""

    __slots__ = ("_bodiless", "_left", "_method", "begun")

    def __init__(self, method: str) -> None:
        self._method = method
        self._bodiless = False
        self._left: int | None = None
        self.begun = False

    def head(self, status: int, fields: Fields, *, last: bool) -> bytes:
        """Return status line and fields; `last` has them say that the connection ends with this answer."""
        lines = [b"%b: %b\r\n" % field for field in fields if field[0] not in _OF_THE_CONNECTION]
        block = b"".join(lines)
        if self.begun or not 200 <= status <= 999:
            raise ValueError("no status of an answer in HTTP, or a second one")
        if block.count(b"\n") != len(lines) or _ANSWER_FIELDS.fullmatch(block) is None:
            raise ValueError("no field of an answer in HTTP")
        lengths = {value for name, value in fields if name == b"content-length"}
        if lengths:
            length = lengths.pop()
            if lengths or not length.isdigit():
                raise ValueError("no content-length in HTTP")
            self._left = int(length)
        self.begun = True
        self._bodiless = self._method == "HEAD" or status in _BODILESS
        framing = b"" if self._left is not None or status in _BODILESS else _CHUNKED
        end = b"connection: close\r\n\r\n" if last else b"\r\n"
        return b"HTTP/1.1 %d \r\n%b%b%b%b" % (status, block, _date(int(time.time())), framing, end)

    def body(self, data: bytes, *, more: bool) -> bytes:
        """Return a part of the body, framed as the head announced."""
        if not self.begun:
            raise ValueError("a body before its head")
        if self._bodiless:
            return b""
        if self._left is None:
            part = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            return part if more else part + b"0\r\n\r\n"
        self._left -= len(data)
        if self._left < 0 or (self._left and not more):
            raise ValueError("a body of another length than announced")
        return data


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return b"date: %b\r\n" % format_date_time(second).encode()


class Wire(Protocol):
    """The connection of a request, as its answer sees it."""

    @property
    def ends(self) -> bool:
        """Whether the next answer is the last."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes; held back while the client takes none."""
        ...

    def hold(self, *, back: bool) -> None:
        """Take no more of the body from the client, or again."""
        ...

    async def answered(self, *, go_on: bool) -> None:
        """Hear that the answer is whole, or never will be; `go_on` says that another may follow."""
        ...


Hear = Callable[[dict[str, Any]], bool]
"""Takes a message of a request and says whether it wants another."""


class PlainRequest:
    """A request on its way to an application, and the answer on its way back.

    `waiting` is how many bytes of the body have come and were not taken.
    """

    __slots__ = (
        *("_answer", "_hear", "_holding", "_last", "_left", "_missing", "_news", "_parts", "_told"),
        *("_wire", "answered", "waiting"),
    )

    def __init__(self, head: Head, wire: Wire) -> None:
        self._wire = wire
        self._last = head.last
        self._answer = Answer(head.method)
        self._missing = head.length
        self._parts: deque[bytes] = deque()
        self._holding = False
        self._told = False
        self._left = False
        self._news: asyncio.Event | None = None
        self._hear: Hear | None = None
        self.answered = False
        self.waiting = 0

    @property
    def whole(self) -> bool:
        """Whether all of the body has come."""
        return not self._missing

    def feed(self, data: bytes) -> bytes:
        """Take what came of the body; return what came after it. Once it is answered, nobody wants more."""
        if self.answered:
            return b""
        rest = b""
        if len(data) > self._missing:
            data, rest = data[: self._missing], data[self._missing :]
        if data:
            self._missing -= len(data)
            self._parts.append(data)
            self.waiting += len(data)
            self._tell()
            self._hold(back=self.waiting > BODY_BYTES and not self.whole)
        return rest

    def _hold(self, *, back: bool) -> None:
        if back is not self._holding:
            self._holding = back
            self._wire.hold(back=back)

    async def receive(self) -> dict[str, Any]:
        """Return a part of the body (ASGI); then wait until the answer is whole, or the client gone.

        What came before the client left is told first. `answered`, which ASGI does not have, tells the end of
        the answer from a client that left before.
        """
        while (message := self._next()) is None:
            await self._until_news()
        return message

    def listen(self, hear: Hear | None) -> None:
        """Have `hear` called with what `receive` would return, as soon as it is there, until it is false."""
        self._hear = hear
        self._tell()

    def _tell(self) -> None:
        while self._hear is not None and (message := self._next()) is not None:
            if not self._hear(message):
                self._hear = None
        if self._news is not None:
            self._news.set()

    def _next(self) -> dict[str, Any] | None:
        if self._parts:
            data = self._parts.popleft()
            self.waiting -= len(data)
            if self.waiting <= BODY_BYTES:
                self._hold(back=False)
            self._told = self.whole and not self._parts
            return {"type": "http.request", "body": data, "more_body": not self._told}
        if self.whole and not self._told:
            self._told = True
            return _NO_BODY.copy()
        return {"type": "http.disconnect", "answered": self.answered} if self._left else None

    async def _until_news(self) -> None:
        self._news = self._news or asyncio.Event()
        self._news.clear()
        await self._news.wait()

    async def send(self, message: dict[str, Any]) -> None:
        """Send a part of the answer (ASGI). What comes after its end is forgotten."""
        if self.answered:
            return
        if message["type"] == "http.response.start":
            fields = message["headers"]
            self._last = self._last or self._wire.ends or (b"connection", b"close") in fields
            data = self._answer.head(message["status"], fields, last=self._last)
            await self._wire.write(data)
            return
        more = message.get("more_body", False)
        data = self._answer.body(message.get("body", b""), more=more)
        if data:
            await self._wire.write(data)
        if not more:
            await self._end(go_on=not self._last)

    async def abandon(self) -> None:
        """Hear that the application has ended: what it left unanswered is an error, what half, is cut."""
        if self.answered:
            return
        if not self._answer.begun:
            await self._wire.write(self._answer.head(500, [(b"content-length", b"0")], last=True))
        await self._end(go_on=False)

    async def _end(self, *, go_on: bool) -> None:
        self.answered = True
        self._hold(back=False)
        self.leave()
        await self._wire.answered(go_on=go_on and self.whole)

    def leave(self) -> None:
        """Hear that the client has gone."""
        self._left = True
        self._tell()

    async def over(self) -> None:
        """Wait until the answer is whole, or the client gone."""
        while not self._left:
            await self._until_news()
