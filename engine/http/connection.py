"""One connection: what comes on it goes to a request, what is sent on it leaves together.

Owns one connection's bytes, idle time and end, and how it begins requests that are plain; all others are
Hypercorn's to read. Knows no other connection; what this mends of Hypercorn is listed in `server.py`.
"""

import asyncio
import contextlib
from typing import Any, Protocol

from h11 import IDLE
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.h11 import H11Protocol
from hyperframe.frame import GoAwayFrame

from engine.gateway.app import GONE, LISTEN
from engine.http.connection_limits import is_there
from engine.http.h1 import Head, PlainRequest, read_head, scope
from engine.http.reader import Incoming
from engine.http.timeouts import Idle

LAST_STREAM = 2**31 - 1
GATHERED_BYTES = 32 << 10
"""What parts of responses wait for each other at most, within one turn of the event loop."""
LINGER_SECONDS = 2.0
"""How long a client may go on to send what nobody wants, so that it comes to read the answer."""
READ_BYTES = 65536


class Edge(Protocol):
    """The application, as a connection sees it."""

    stops: bool

    async def answer(self, scope: dict[str, Any], request: PlainRequest) -> None:
        """Have a plain request answered."""
        ...


class Connection(TCPServer):
    """A connection that gathers what one turn of the loop sends, and whose idle time is a timer."""

    idle_task: Idle  # type: ignore[assignment]
    reader: Incoming

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.idle_task = Idle(self.loop, self._expire)
        self._edge: Edge = self.app.app  # type: ignore[attr-defined]
        self._plain: PlainRequest | None = None
        self._gathered: list[bytes] = []
        self._size = 0
        self._reading = False
        self._busy = False
        self._looks = 0
        self._ending = False
        self._linger: asyncio.TimerHandle | None = None
        self.gone: asyncio.Future[None] = self.loop.create_future()

    async def _read_data(self) -> None:
        self._reading = True
        try:
            while data := await self.reader.read(READ_BYTES):
                if self._ending:
                    continue
                self._busy, self._looks = True, 0
                if (data := await self._take_plain(data)) and not self._ending:
                    if isinstance(self.protocol.protocol, H11Protocol):
                        self.idle_task.begin_head()
                    await self.protocol.handle(RawData(data))
                self._busy = False
                if isinstance(self.protocol.protocol, H2Protocol):
                    self._note_frames(self.protocol.protocol)
        except OSError:
            pass
        finally:
            self._reading = False
            if self._linger is not None:
                self._linger.cancel()
            await self._left()

    async def _take_plain(self, data: bytes) -> bytes:
        """Begin requests that are plain, each when the one before is answered; return what is left."""
        while data:
            if self._plain is not None:
                await self._plain.over()
            head = read_head(data) if self._between_requests() and not self._ending else None
            if head is None:
                break
            data = data[head.size :]
            await self.idle_task.stop()
            self._plain = request = PlainRequest(head, self)
            self._task_group.spawn(self._edge.answer, self._scope(head, request), request)
            if head.length:
                self.reader.divert(request, data)
                data = b""
        return data

    def hold(self, *, back: bool) -> None:
        """Read no more of a request's body, or again."""
        self._looks = 0
        if back:
            self.reader.pause()
        else:
            self.reader.resume()

    def _between_requests(self) -> bool:
        """Whether HTTP/1.1 is spoken, and what comes now is the head of a request."""
        protocol: Any = self.protocol.protocol
        if type(protocol) is not H11Protocol or protocol.stream is not None:
            return False
        return protocol.connection.their_state is IDLE and not protocol.connection.trailing_data[0]

    def _scope(self, head: Head, request: PlainRequest) -> dict[str, Any]:
        at = self.protocol
        scheme = "https" if at.ssl else "http"
        return scope(head, scheme, at.client, at.server, {GONE: self.gone, LISTEN: request.listen})

    @property
    def ends(self) -> bool:
        """Whether the next answer is the last."""
        return self._edge.stops

    async def answered(self, *, go_on: bool) -> None:
        """Hear that a plain request is over."""
        self._plain = None
        if go_on and not self.context.terminated.is_set():
            self.idle_task.begin()
        else:
            await self._close()

    def _note_frames(self, protocol: H2Protocol) -> None:
        """Have what came in part end as soon as a head: the preface, a frame, a block of fields."""
        if not protocol.streams:
            self.idle_task.begin()
        buffer = protocol.connection.incoming_buffer
        if buffer._preamble_len or buffer._data or buffer._headers_buffer:
            self.idle_task.begin_head()
        else:
            self.idle_task.end_head()

    def say_farewell(self) -> None:
        """Let the client know that there will be an end (RFC 9112 9.6, RFC 9113 6.8)."""
        protocol = getattr(getattr(self, "protocol", None), "protocol", None)
        if isinstance(protocol, H11Protocol):
            close_after(protocol)
        elif isinstance(protocol, H2Protocol):
            self._gathered.append(GoAwayFrame(0, last_stream_id=LAST_STREAM).serialize())
            self._flush()

    async def _left(self) -> None:
        """Tell everybody that the client is gone, and let nobody wait for what it could take."""
        self._leave()
        if self._plain is not None:
            self._plain.leave()
        await self.protocol.handle(Closed())
        for buffer in list(getattr(self.protocol.protocol, "stream_buffers", {}).values()):
            await buffer.close()

    def _leave(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    def look(self) -> None:
        """Find out whether the client is there, when what it sent has been waiting for a while."""
        if not (self._busy or self.reader.paused):
            return
        self._looks += 1
        transport = self.writer.transport
        if self._looks > 1 and (transport.is_closing() or not is_there(transport.get_extra_info("socket"))):
            self._leave()

    async def protocol_send(self, event: Event) -> None:
        """Take what the protocol sends."""
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        if event.data:
            await self.write(event.data)

    async def write(self, data: bytes) -> None:
        """Send bytes, with what else is sent in this turn of the loop; wait while the client takes none."""
        if not self._gathered:
            self.loop.call_soon(self._flush)
        self._gathered.append(data)
        self._size += len(data)
        transport = self.writer.transport
        # What TLS has ended has no size of its buffer any more.
        if self._size < GATHERED_BYTES and not (transport.is_closing() or transport.get_write_buffer_size()):
            return
        self._flush()
        try:
            await self.writer.drain()
        except (ConnectionError, RuntimeError):
            await self.protocol.handle(Closed())

    def _flush(self) -> None:
        data = b"".join(self._gathered)
        self._gathered.clear()
        self._size = 0
        if data and not self._ending and not self.writer.transport.is_closing():
            self.writer.write(data)

    async def _close(self) -> None:
        self._flush()
        if self._reading and not self._ending and not self.gone.done():
            # A socket that is closed with something unread takes the answer away from the client.
            self._ending = True
            self.reader.end_body()
            with contextlib.suppress(OSError, RuntimeError):
                self.writer.write_eof()
            self._linger = self.loop.call_later(LINGER_SECONDS, self.writer.close)
            await self.idle_task.stop()
        elif not self._reading:
            await super()._close()

    def _expire(self) -> None:
        if not self._reading:
            return  # The client left: the connection is about to end, and its tasks' group may have ended.
        self._task_group.spawn(self._initiate_server_close)


def close_after(protocol: H11Protocol) -> None:
    """Have the next answer be the last of its connection, and say so."""
    protocol.keep_alive_requests = protocol.config.keep_alive_max_requests
