"""HTTP/1.1 (RFC 9112): strict parsing of requests, encoding of responses, and the connection that does both.

Every request takes this path. The parser accepts a subset of what h11 accepts: no folded fields, no line
that ends without CR, no second Content-Length, no Content-Length beside Transfer-Encoding.
"""

import re
import time
from functools import lru_cache
from typing import Any
from wsgiref.handlers import format_date_time

from engine.http import timeouts
from engine.http.connection import Connection
from engine.http.exchange import Headers, Request, RequestBody

HEADER_BYTES = 32 << 10
"""The largest request head, and the largest trailer section of a chunked body."""
PIPELINE_BYTES = 64 << 10
"""Bytes of further requests that are buffered while one is in progress."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\n"
_CHUNK_LINE_BYTES = 4096
_LENGTH_DIGITS = 18
_TOKEN = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_VALUE = rb"[\t -~\x80-\xff]*"
_FIELDS = rb"(?:" + _TOKEN + rb":" + _VALUE + rb"\r\n)*"
_HEAD = re.compile(rb"(" + _TOKEN + rb") ([!-~]+) HTTP/1\.([01])\r\n(" + _FIELDS + rb")\r\n")
_FIELD = re.compile(rb"(" + _TOKEN + rb"):(" + _VALUE + rb")\r\n")
_TRAILERS = re.compile(_FIELDS + rb"\r\n")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t -~\x80-\xff]*)?\r\n")
# Lower case, as in ASGI: no spelling of a name evades `_CONNECTION_FIELDS`.
_RESPONSE_FIELDS = re.compile(rb"(?:[-!#$%&'*+.^_`|~0-9a-z]+: [\t -~\x80-\xff]*\r\n)*")
_FRAMING_FIELDS = frozenset({b"content-length", b"transfer-encoding"})
_CONNECTION_FIELDS = frozenset({b"connection", b"keep-alive", b"transfer-encoding"})
_BODILESS = frozenset({204, 304})


class MalformedRequest(Exception):
    """A request is not valid HTTP/1.1; `status` is that of the response."""

    def __init__(self, status: int = 400) -> None:
        super().__init__(status)
        self.status = status


class RequestHead:
    """A request head. `length` is that of the body in bytes, `None` for a chunked body."""

    __slots__ = ("expects_continue", "headers", "keep_alive", "length", "method", "target", "version")

    def __init__(self, data: bytes) -> None:
        """Parse a head with its empty line. Raises `MalformedRequest`."""
        match = _HEAD.fullmatch(data)
        if match is None:
            raise MalformedRequest
        method, target, minor, block = match.groups()
        self.method = method.decode()
        self.target = target
        self.version = "1.1" if minor == b"1" else "1.0"
        self.headers = [(name.lower(), value.strip(b" \t")) for name, value in _FIELD.findall(block)]
        names = [name for name, _ in self.headers]
        hosts = names.count(b"host")
        if hosts > 1 or (not hosts and minor == b"1"):
            raise MalformedRequest
        self.length: int | None = 0
        if b"transfer-encoding" in names:
            self._require_chunked(names)
        elif b"content-length" in names:
            self.length = self._content_length()
        self.keep_alive = minor == b"1" and (
            b"connection" not in names or b"close" not in self._tokens(b"connection")
        )
        self.expects_continue = (
            b"expect" in names and minor == b"1" and b"100-continue" in self._tokens(b"expect")
        )

    def _tokens(self, name: bytes) -> set[bytes]:
        values = b",".join(value for key, value in self.headers if key == name)
        return {token.strip(b" \t").lower() for token in values.split(b",")}

    def _content_length(self) -> int:
        lengths = [value for name, value in self.headers if name == b"content-length"]
        if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > _LENGTH_DIGITS:
            raise MalformedRequest
        return int(lengths[0])

    def _require_chunked(self, names: list[bytes]) -> None:
        codings = [value for name, value in self.headers if name == b"transfer-encoding"]
        if len(codings) != 1 or codings[0].lower() != b"chunked":
            raise MalformedRequest(501)
        if b"content-length" in names or self.version == "1.0":
            raise MalformedRequest
        self.length = None


class ChunkedDecoder:
    """Decoder of a chunked body (RFC 9112 7.1). Trailer fields are validated and discarded."""

    __slots__ = ("_buffer", "_delimiter", "_missing", "_trailing")

    def __init__(self) -> None:
        self._buffer = b""
        self._missing = 0
        """Bytes of the current chunk that were not received."""
        self._delimiter = False
        """Whether the line end after a chunk comes next."""
        self._trailing = False

    def decode(self, data: bytes, body: RequestBody) -> bytes | None:
        """Feed a body; return what follows its end, `None` before the end. Raises `MalformedRequest`."""
        data = self._buffer + data if self._buffer else data
        self._buffer, position = b"", 0
        while not self._trailing:
            if self._missing:
                part = data[position : position + self._missing]
                body.feed(part)
                position += len(part)
                self._missing -= len(part)
                if self._missing:
                    return None
                self._delimiter = True
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
        return self._read_trailers(data[position:], body)

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

    def _read_trailers(self, data: bytes, body: RequestBody) -> bytes | None:
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
        body.finish()
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
        """Return the status line and the fields; `close` announces the end of the connection."""
        lines = [b"%b: %b\r\n" % field for field in headers if field[0] not in _CONNECTION_FIELDS]
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
        self._bodiless = self._method == "HEAD" or status in _BODILESS
        framing = b""
        if self._remaining is None and status not in _BODILESS and self._chunked:
            framing = b"transfer-encoding: chunked\r\n"
        end = b"connection: close\r\n\r\n" if close else b"\r\n"
        return b"HTTP/1.1 %d \r\n%b%b%b%b" % (status, block, _date(int(time.time())), framing, end)

    def body(self, data: bytes, *, end: bool) -> bytes:
        """Return a part of the body, framed as the head announced."""
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


class Http1Exchange:
    """A request on an HTTP/1.1 connection; `complete` once its response has ended or was aborted."""

    __slots__ = ("_close_after", "_connection", "_encoder", "body", "complete", "disconnected", "request")

    def __init__(self, connection: "Http1Connection", head: RequestHead, request: Request) -> None:
        self.request = request
        self.body = RequestBody(b"" if head.length == 0 else None)
        self.disconnected = connection.disconnected
        self.complete = False
        self._connection = connection
        self._close_after = not head.keep_alive
        self._encoder = ResponseEncoder(head.method, chunked=head.version == "1.1")

    async def send_head(self, status: int, headers: Headers) -> None:
        """Send the status and the fields."""
        if self.complete:
            return
        close = self._close_after or self._connection.manager.stopping or (b"connection", b"close") in headers
        data = self._encoder.head(status, headers, close=close)
        self._close_after = close
        self._connection.write(data)

    async def send_body(self, data: bytes, *, end: bool) -> None:
        """Send a part of the body."""
        if self.complete:
            return
        data = self._encoder.body(data, end=end)
        if data:
            self._connection.write(data)
            await self._connection.drain()
        if end:
            self._end(keep_alive=not self._close_after)

    def abort(self) -> None:
        """Close the connection in the middle of the response."""
        self._end(keep_alive=False)

    async def close(self) -> None:
        """Send a 500 if the response has not started; abort it if it is incomplete."""
        self.fail(500)

    def fail(self, status: int) -> None:
        """End the exchange with an error, or in the middle of the response if that has started."""
        if not self.complete:
            if not self._encoder.started:
                self._connection.write(self._encoder.head(status, [(b"content-length", b"0")], close=True))
            self.abort()

    def _end(self, *, keep_alive: bool) -> None:
        if not self.complete:
            self.complete = True
            self._connection.response_complete(self, keep_alive=keep_alive)


class Http1Connection(Connection):
    """A connection that serves one request after the other."""

    _buffer = b""
    _searched = 0
    _exchange: Http1Exchange | None = None
    _missing = 0
    _chunks: ChunkedDecoder | None = None
    _first = True
    _idle = True

    def connection_made(self, transport: Any) -> None:
        """Start the keep-alive timeout."""
        super().connection_made(transport)
        self._scheme = "https" if self.secure else "http"
        self._client, self._server = self.addresses
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            self.manager.upgrade(self, b"")
            return
        self.set_timer(timeouts.IDLE_SECONDS, self.close)

    def data_received(self, data: bytes) -> None:
        """Handle a part of a request."""
        if self.lingering:
            return
        if self._missing or self._chunks is not None:
            self._receive_body(data)
            return
        self._buffer = self._buffer + data if self._buffer else data
        if self._exchange is None:
            self._next_request()
        elif len(self._buffer) > PIPELINE_BYTES:
            self.pause_reading()

    def _next_request(self) -> None:
        """Start the next request if its head was received."""
        buffer = self._buffer
        end = buffer.find(b"\r\n\r\n", self._searched)
        if end < 0:
            self._await_head()
            return
        end += 4
        if self._first and buffer[:end] == PREFACE:
            self.manager.upgrade(self, buffer)
            return
        self._first, self._idle, self._searched = False, False, 0
        try:
            if end > HEADER_BYTES:
                raise MalformedRequest(431)
            head = RequestHead(buffer[:end])
        except MalformedRequest as error:
            self._refuse(error.status)
            return
        self._buffer = b""
        self.clear_timer()
        path, _, query = head.target.partition(b"?")
        request = Request(
            method=head.method,
            scheme=self._scheme,
            path=path.decode(),
            query=query,
            headers=head.headers,
            http_version=head.version,
            client=self._client,
            server=self._server,
        )
        self._exchange = exchange = Http1Exchange(self, head, request)
        self.loop.create_task(self.manager.handle(exchange))
        if head.length == 0:
            self._buffer = buffer[end:]
        else:
            self._start_body(exchange, head, buffer[end:])
        if self.eof and not self._buffer:
            self.on_disconnect()

    def _start_body(self, exchange: Http1Exchange, head: RequestHead, data: bytes) -> None:
        exchange.body.on_drained = self._resume_body
        if head.length is None:
            self._chunks = ChunkedDecoder()
        else:
            self._missing = head.length
        if head.expects_continue and not data:
            self.write(b"HTTP/1.1 100 \r\n\r\n")
        self._receive_body(data)

    def _await_head(self) -> None:
        """Handle a head that is incomplete."""
        buffer = self._buffer
        if not buffer:
            return
        if len(buffer) > HEADER_BYTES or buffer[0] < 0x21:
            self._refuse(431 if buffer[0] >= 0x21 else 400)
        elif self.eof:
            self.close()
        else:
            self._searched = max(0, len(buffer) - 3)
            if self._idle:
                self._idle = False
                self.set_timer(timeouts.HEADER_SECONDS, self.close)

    def _refuse(self, status: int) -> None:
        """Respond to a malformed request, and close the connection."""
        encoder = ResponseEncoder("GET")
        self._buffer = b""
        self.write(encoder.head(status, [(b"content-length", b"0")], close=True))
        self.linger()

    def _receive_body(self, data: bytes) -> None:
        exchange = self._exchange
        assert exchange is not None
        body = exchange.body
        if self._chunks is not None:
            try:
                rest = self._chunks.decode(data, body)
            except MalformedRequest as error:
                self._chunks = None
                body.interrupt()
                exchange.fail(error.status)
                self.on_disconnect()
                return
            if rest is not None:
                self._chunks = None
                self._buffer = rest
        else:
            part = data[: self._missing] if len(data) > self._missing else data
            self._missing -= len(part)
            self._buffer = data[len(part) :]
            body.feed(part)
            if not self._missing:
                body.finish()
        if body.full and not self.lingering:
            self.pause_reading()

    def _resume_body(self) -> None:
        if len(self._buffer) <= PIPELINE_BYTES:
            self.resume_reading()

    def response_complete(self, exchange: Http1Exchange, *, keep_alive: bool) -> None:
        """Continue with the next request, or close the connection."""
        self.flush()
        self._exchange = None
        body = exchange.body
        body.on_drained = None
        if not body.complete or not keep_alive or self.manager.terminated:
            self._missing, self._chunks, self._buffer = 0, None, b""
            body.interrupt()
            self.linger()
            return
        self.resume_reading()
        self._idle = True
        if not self.eof:
            self.set_timer(timeouts.IDLE_SECONDS, self.close)
        if self._buffer:
            self._next_request()
        if self.eof and self._exchange is None:
            self.close()

    def on_disconnect(self) -> None:
        """Interrupt the body of the current request, and notify it of the disconnect."""
        if self._exchange is not None:
            self._exchange.body.interrupt()
        super().on_disconnect()

    def eof_received(self) -> bool:
        """Handle the end of the client's sending side: a request that it sent before is still answered."""
        self.eof = True
        if self._exchange is None or self.lingering:
            return False
        if self._buffer and not self.secure:
            # Requests that were pipelined are answered before the client counts as disconnected.
            self.set_timer(timeouts.PEER_CHECK_SECONDS, self.on_disconnect)
            return True
        return super().eof_received()

    def close_if_idle(self) -> None:
        """Close the connection unless a request is in progress."""
        if self._exchange is None and not self.lingering:
            self.close()
