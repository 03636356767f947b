"""HTTP/1.1 connections and their exchanges. Every HTTP/1.1 request takes this path."""

from typing import Any

from engine.http import timeouts
from engine.http.buffered import SMALL_PART_BYTES
from engine.http.connection import Connection, CountedExchange
from engine.http.exchange import Headers, Request, RequestBody
from engine.http.messages import HEADER_BYTES, ChunkedDecoder, MalformedRequest, RequestHead, ResponseEncoder

PIPELINE_BYTES = 64 << 10
"""Bytes of further requests that are buffered while one is in progress."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\n"


class Http1Exchange(CountedExchange):
    """A request on an HTTP/1.1 connection."""

    __slots__ = ("_close_after", "_encoder")

    def __init__(self, connection: "Http1Connection", head: RequestHead, request: Request) -> None:
        body = RequestBody(b"" if head.length == 0 else None)
        super().__init__(connection, request, body, connection.disconnected)
        self._close_after = not head.keep_alive
        self._encoder = ResponseEncoder(head.method, chunked=head.version == "1.1")

    def ask_for_body(self) -> None:
        """Send 100, unless the response has started."""
        if not self._encoder.started:
            self._connection.write(b"HTTP/1.1 100 \r\n\r\n")

    async def send_head(self, status: int, headers: Headers) -> None:
        if self.complete:
            return
        close = self._close_after or self._connection.manager.stopping or (b"connection", b"close") in headers
        data = self._encoder.head(status, headers, close=close)
        self._close_after = close
        self._connection.write(data)

    async def send_body(self, data: bytes, *, end: bool) -> None:
        if self.complete:
            return
        connection, start = self._connection, 0
        while len(data) - start > SMALL_PART_BYTES and self.unsent.crowded and not self.complete:
            connection.write(self._encoder.body(data[start : start + SMALL_PART_BYTES], end=False))
            connection.flush()
            start += SMALL_PART_BYTES
            if connection.backlogged:
                await self._drain()
        data = self._encoder.body(data[start:] if start else data, end=end)
        if data:
            connection.write(data)
            if connection.backlogged:
                await self._drain()
        if end:
            self._end(keep_alive=not self._close_after)

    async def _drain(self) -> None:
        """Wait until the client can take more, and count the bytes that it has not taken meanwhile."""
        connection = self._connection
        self.unsent.set_buffered(connection.transport.get_write_buffer_size())
        await connection.drain()
        if not self.complete:
            self.unsent.set_buffered(0)

    def abort(self) -> None:
        """Close the connection in the middle of the response."""
        self._end(keep_alive=False)

    async def close(self) -> None:
        """Send a 500 if the response has not started; abort it if it is incomplete."""
        if not (self.complete and self.body.exhausted):
            self.fail(500)
            self.body.close()

    def fail(self, status: int) -> None:
        """End the exchange with an error, or in the middle of the response if that has started."""
        if not self.complete:
            if not self._encoder.started:
                self._connection.write(self._encoder.head(status, [(b"content-length", b"0")], close=True))
            self.abort()

    def _end(self, *, keep_alive: bool) -> None:
        if not self.complete:
            self.complete = True
            if self._unsent is not None:
                self._unsent.close()
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
    _skipped = False
    """Whether an empty line before the next request was ignored."""
    _continuing = False

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

    def _next_request(self, *, nested: bool = False) -> None:
        """Start the next request if its head was received.

        One that is `nested` in the end of another begins in the next turn of the event loop, and so does one
        with a body, of which more is received by then.
        """
        if not self._skipped and self._buffer.startswith(b"\r\n"):  # RFC 9112 2.2
            self._buffer, self._searched, self._skipped = self._buffer[2:], 0, True
        buffer = self._buffer
        end = buffer.find(b"\r\n\r\n", self._searched)
        if end < 0:
            self._await_head()
            return
        end += 4
        if self._first and buffer[:end] == PREFACE:
            self.manager.upgrade(self, buffer)
            return
        self._first, self._idle, self._skipped, self._searched = False, False, False, 0
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
        if head.length == 0:
            self._buffer = buffer[end:]
        else:
            self._start_body(exchange, head, buffer[end:])
        if self.eof and not self._buffer:
            self.on_disconnect()
        if nested or not exchange.body.complete:
            self.loop.call_soon(self.manager.start, exchange)
        else:
            self.manager.start(exchange)

    def _start_body(self, exchange: Http1Exchange, head: RequestHead, data: bytes) -> None:
        exchange.body.on_taken = self._on_taken
        self.count_body(exchange.body)
        if head.length is None:
            self._chunks = ChunkedDecoder()
        else:
            self._missing = head.length
        if head.expects_continue and not data:
            exchange.body.on_wanted = exchange.ask_for_body
        self._receive_body(data)

    def _await_head(self) -> None:
        buffer = self._buffer
        if not buffer:
            return
        if len(buffer) > HEADER_BYTES or (buffer[0] < 0x21 and buffer != b"\r"):
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
        if self.lingering:
            return
        unfinished = self._chunks is not None and self._chunks.unfinished
        if body.full or unfinished:
            self.pause_reading()
        if not body.full and (unfinished or self.paused):
            self._resume_body()

    def _on_taken(self, _size: int) -> None:
        """Receive more of the body of the current request, if there is room."""
        if self.paused and self._exchange is not None and not self._exchange.body.full:
            self._resume_body()

    def on_peer_connected(self) -> None:
        """Receive more of the body, if other clients have made room."""
        self._on_taken(0)

    def _resume_body(self) -> None:
        if self._chunks is not None and self._chunks.unfinished:
            if not self._continuing:
                self._continuing = True
                self.loop.call_soon(self._continue_body)
        elif len(self._buffer) <= PIPELINE_BYTES:
            self.resume_reading()

    def _continue_body(self) -> None:
        """Decode further chunks that were received, in a turn of their own."""
        self._continuing = False
        if self._chunks is not None and self._chunks.unfinished and not self.lingering:
            self._receive_body(b"")

    def response_complete(self, exchange: Http1Exchange, *, keep_alive: bool) -> None:
        """Continue with the next request, or close the connection."""
        self.flush()
        self._exchange = None
        body = exchange.body
        body.on_taken = body.on_wanted = None
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
            self._next_request(nested=True)
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
        if self._exchange is None and not self.lingering:
            self.close()
