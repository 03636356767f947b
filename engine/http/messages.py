"""HTTP/1.1 messages (RFC 9112): a strict parser of requests, and an encoder of responses.

The parser accepts a subset of what h11 accepts: no folded fields, no line that ends without CR, no second
Content-Length, no Content-Length beside Transfer-Encoding, no CONNECT. The authority of a target in absolute
form replaces the Host field.
"""

import re
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from wsgiref.handlers import format_date_time

from engine.http.exchange import Headers, RequestBody

HEADER_BYTES = 32 << 10
"""The largest request head, in HTTP/2 too, and the largest trailer section of a chunked body."""
MAX_FIELDS = 256
"""The most fields of a request head: each takes a few microseconds."""
MAX_CHUNKS_PER_TURN = 2048
"""Chunks of a body that are decoded in one turn of the event loop, in a few milliseconds."""
_CHUNK_LINE_BYTES = 4096
_LENGTH_DIGITS = 18
_TOKEN = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_VALUE = rb"[\t -~\x80-\xff]*"
_FIELDS = rb"(?:" + _TOKEN + rb":" + _VALUE + rb"\r\n)*"
_HEAD = re.compile(rb"(" + _TOKEN + rb") ([!-~]+) HTTP/1\.([01])\r\n(" + _FIELDS + rb")\r\n")
_ABSOLUTE = re.compile(rb"https?://([^/?#]+)([/?][!-~]*)?", re.IGNORECASE)
_FIELD = re.compile(rb"(" + _TOKEN + rb"):(" + _VALUE + rb")\r\n")
_TRAILERS = re.compile(_FIELDS + rb"\r\n")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t -~\x80-\xff]*)?\r\n")
# Lower case, as in ASGI: no spelling of a name evades `CONNECTION_FIELDS`.
_RESPONSE_FIELDS = re.compile(rb"(?:[-!#$%&'*+.^_`|~0-9a-z]+: [\t -~\x80-\xff]*\r\n)*")
_FRAMING_FIELDS = frozenset({b"content-length", b"transfer-encoding"})
CONNECTION_FIELDS = frozenset({b"connection", b"keep-alive", b"transfer-encoding"})
BODILESS = frozenset({204, 304})


class MalformedRequest(Exception):
    """A request is not valid HTTP/1.1; `status` is that of the response."""

    def __init__(self, status: int = 400) -> None:
        super().__init__(status)
        self.status = status


def is_request(method: bytes, target: bytes, fields: Headers) -> bool:
    """Return whether method, target and fields have only characters that a request of HTTP/1.1 may have."""
    lines = b"".join([b"%b:%b\r\n" % field for field in fields if not field[0].startswith(b":")])
    return _HEAD.fullmatch(b"%b %b HTTP/1.1\r\n%b\r\n" % (method, target, lines)) is not None


class RequestHead:
    """A request head. `length` is that of the body in bytes, `None` for a chunked body."""

    __slots__ = ("expects_continue", "headers", "keep_alive", "length", "method", "target", "version")

    def __init__(self, data: bytes) -> None:
        """Parse a head with its empty line. Raises `MalformedRequest`."""
        if data.count(b"\n") > MAX_FIELDS + 2:
            raise MalformedRequest(431)
        match = _HEAD.fullmatch(data)
        if match is None:
            raise MalformedRequest
        method, target, minor, block = match.groups()
        if method == b"CONNECT":
            raise MalformedRequest
        self.method = method.decode()
        self.target = target
        self.version = "1.1" if minor == b"1" else "1.0"
        self.headers = [(name.lower(), value.strip(b" \t")) for name, value in _FIELD.findall(block)]
        names = [name for name, _ in self.headers]
        hosts = names.count(b"host")
        if hosts > 1 or (not hosts and minor == b"1"):
            raise MalformedRequest
        if not target.startswith(b"/"):
            self._resolve_target()
        self.length: int | None = 0
        if b"transfer-encoding" in names:
            codings = [value for name, value in self.headers if name == b"transfer-encoding"]
            if len(codings) != 1 or codings[0].lower() != b"chunked":
                raise MalformedRequest(501)
            if b"content-length" in names or minor == b"0":
                raise MalformedRequest
            self.length = None
        elif b"content-length" in names:
            lengths = [value for name, value in self.headers if name == b"content-length"]
            if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > _LENGTH_DIGITS:
                raise MalformedRequest
            self.length = int(lengths[0])
        self.keep_alive = minor == b"1" and (
            b"connection" not in names or b"close" not in self._tokens(b"connection")
        )
        self.expects_continue = (
            b"expect" in names and minor == b"1" and b"100-continue" in self._tokens(b"expect")
        )

    def _resolve_target(self) -> None:
        """Handle a target in another form than a path (RFC 9112 3.2)."""
        if self.target == b"*" and self.method == "OPTIONS":
            return
        match = _ABSOLUTE.fullmatch(self.target)
        if match is None:
            raise MalformedRequest
        authority, path = match[1], match[2] or b"/"
        self.target = path if path.startswith(b"/") else b"/" + path
        self.headers = [(b"host", authority), *(field for field in self.headers if field[0] != b"host")]

    def _tokens(self, name: bytes) -> set[bytes]:
        values = b",".join(value for key, value in self.headers if key == name)
        return {token.strip(b" \t").lower() for token in values.split(b",")}


class ChunkedDecoder:
    """Decoder of a chunked body (RFC 9112 7.1). Trailer fields are validated and discarded.

    `unfinished` is true if received bytes remain to be decoded: call `decode` in another turn of the loop.
    """

    __slots__ = ("_buffer", "_delimiter", "_missing", "_trailing", "unfinished")

    def __init__(self) -> None:
        self._buffer = b""
        self._missing = 0
        """Bytes of the current chunk that were not received."""
        self._delimiter = False
        """Whether the line end after a chunk comes next."""
        self._trailing = False
        self.unfinished = False

    def decode(self, data: bytes, body: RequestBody) -> bytes | None:
        """Feed a body; return what follows its end, `None` before the end. Raises `MalformedRequest`."""
        parts: list[bytes] = []
        try:
            end = self._decode(self._buffer + data if self._buffer else data, parts)
        finally:
            if parts:
                body.feed(parts[0] if len(parts) == 1 else b"".join(parts))
        if end is not None:
            body.finish()
        return end

    def _decode(self, data: bytes, parts: list[bytes]) -> bytes | None:
        self._buffer, self.unfinished, position = b"", False, 0
        while not self._trailing:
            if self._missing:
                part = data[position : position + self._missing]
                if part:
                    parts.append(part)
                position += len(part)
                self._missing -= len(part)
                if self._missing:
                    return None
                self._delimiter = True
                if len(parts) >= MAX_CHUNKS_PER_TURN and position < len(data):
                    self._buffer, self.unfinished = data[position:], True
                    return None
            if self._delimiter:
                delimiter = data[position : position + 2]
                if not b"\r\n".startswith(delimiter):
                    raise MalformedRequest
                if len(delimiter) < 2:
                    self._buffer = delimiter
                    return None
                position += 2
                self._delimiter = False
            position = self._read_size(data, position)
            if position < 0:
                return None
        return self._read_trailers(data[position:])

    def _read_size(self, data: bytes, position: int) -> int:
        """Read the line before a chunk; return where it ends, -1 if it is incomplete."""
        match = _CHUNK.match(data, position)
        if match is None:
            rest = data[position:]
            if b"\n" in rest or len(rest) > _CHUNK_LINE_BYTES:
                raise MalformedRequest
            self._buffer = rest
            return -1
        self._missing = int(match[1], 16)
        self._trailing = not self._missing
        return match.end()

    def _read_trailers(self, data: bytes) -> bytes | None:
        end = 2 if data.startswith(b"\r\n") else data.find(b"\r\n\r\n") + 4
        if end == 3:
            if len(data) > HEADER_BYTES:
                raise MalformedRequest(431)
            self._buffer = data
            return None
        trailers = data[:end]
        names = {name.lower() for name, _ in _FIELD.findall(trailers)}
        if _TRAILERS.fullmatch(trailers) is None or not _FRAMING_FIELDS.isdisjoint(names):
            raise MalformedRequest
        return data[end:]


class ResponseEncoder:
    """Encodes a response part by part (RFC 9112 4 and 6). Raises `ValueError` for an invalid response."""

    __slots__ = ("_bodiless", "_chunked", "_method", "_remaining", "started")

    def __init__(self, method: str, *, chunked: bool = True) -> None:
        """Without `chunked`, a body of unknown length ends with its connection."""
        self._method = method
        self._chunked = chunked
        self._bodiless = False
        self._remaining: int | None = None
        self.started = False

    def head(self, status: int, headers: Headers, *, close: bool) -> bytes:
        """Return the status line and the fields; `close` announces the end of the connection.

        Raises ValueError when the head is invalid, or is the second one.
        """
        lines = [b"%b: %b\r\n" % field for field in headers if field[0] not in CONNECTION_FIELDS]
        block = b"".join(lines)
        if self.started or not 200 <= status <= 999:
            raise ValueError("not a status of a response, or a second head")
        if block.count(b"\n") != len(lines) or _RESPONSE_FIELDS.fullmatch(block) is None:
            raise ValueError("not a field of a response")
        lengths = {value for name, value in headers if name == b"content-length"}
        if lengths:
            length = lengths.pop()
            if lengths or not length.isdigit():
                raise ValueError("not a content-length")
            self._remaining = int(length)
        self.started = True
        self._bodiless = self._method == "HEAD" or status in BODILESS
        framing = b""
        if self._remaining is None and status not in BODILESS and self._chunked:
            framing = b"transfer-encoding: chunked\r\n"
        end = b"connection: close\r\n\r\n" if close else b"\r\n"
        date = b"" if b"date" in dict(headers) else _date(int(time.time()))
        return b"HTTP/1.1 %d \r\n%b%b%b%b" % (status, block, date, framing, end)

    def body(self, data: bytes, *, end: bool) -> bytes:
        """Return a part of the body, framed as the head announced.

        Raises ValueError when the head is missing, or when the body has another length than announced.
        """
        if not self.started:
            raise ValueError("a body before its head")
        if self._bodiless:
            return b""
        if self._remaining is None:
            if not self._chunked:
                return data
            part = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            return part + b"0\r\n\r\n" if end else part
        self._remaining -= len(data)
        if self._remaining < 0 or (self._remaining and end):
            raise ValueError("a body of another length than announced")
        return data


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return b"date: %b\r\n" % format_date_time(second).encode()


def retry_after(text: str, now: float, limit: float) -> float | None:
    """Return the seconds that a field `Retry-After` names, as a number or a date; `None` if it is neither."""
    try:
        if text.isdecimal():
            return min(float(text), limit)
        moment = parsedate_to_datetime(text)
        seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), limit)
