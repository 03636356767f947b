"""The web server: connections, start, stop. Home of the workarounds for Hypercorn, but for those of HTTP/2.

- It is given connections one by one: its own loop around them installs signal handlers, and from Python
  3.12 on waits for open connections before its time limit begins (pgjones/hypercorn issue 308).
- For each request it starts and ends a task with two more for the time that a connection may idle, and
  hands every part of a response to the system by itself: a quarter of the time of a short answer.
- h11 and the layers around it take most of a short answer's time. Requests without a body, as most are, are
  read and answered by `http1.py`, and never come to h11.
- What a client sends after its request was answered waits in a queue that nobody reads, or has the answer
  thrown away by the client's system. Here it is read and forgotten.
- An error in a connection, which a malformed request can cause, is that connection's end and nothing more.
- A response that waits for an HTTP/2 client's room goes on waiting when the client has left. It is told here.
- While a request's body is not taken, nobody reads, so nobody sees the client go. The system is asked.
- A connection that turns to HTTP/2 counts as one with a request under way, before there is any.
- A server that stops ends connections without a word, and its clients lose what they send at that moment.
  Here they are told first: by `connection: close` in the next answer, and by GOAWAY.
- Each request leaves objects behind that refer to each other. Looking for them as often as Python does by
  itself, every few requests, takes a twentieth of a short answer's time.
"""

import asyncio
import contextlib
import gc
import logging
import socket
from functools import partial
from typing import Any

from h11 import IDLE
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.utils import wrap_app
from hyperframe.frame import GoAwayFrame

from engine.certificate import Certificate
from engine.gateway.app import GONE, Cut
from engine.http1 import Head, PlainRequest, read_head, scope
from engine.http2 import Buffer, Streams, reset
from engine.idle import Idle
from engine.peers import Peers, is_there
from engine.reception import Reception

HEADER_BYTES = 32 << 10
FAREWELL_SECONDS = 0.25
"""How long clients may send further requests on their connections when the server stops."""
LAST_STREAM = 2**31 - 1
GATHERED_BYTES = 32 << 10
"""What parts of responses wait for each other at most, within one turn of the event loop."""
LINGER_SECONDS = 2.0
"""How long a client may go on to send what nobody wants, so that it comes to read the answer."""
LOOK_SECONDS = 0.25
"""How often the system is asked whether clients are there that nobody reads from."""
READ_BYTES = 65536
COLLECT_AFTER = 10_000
"""How many more objects there are when Python looks for those that nothing refers to."""
_log = logging.getLogger("svc.server")
_log.addHandler(logging.NullHandler())
_log.propagate = False


async def serve(
    app: Any,
    sockets: list[socket.socket],
    *,
    stop: asyncio.Event,
    grace: float,
    certificate: Certificate | None = None,
    peers: Peers | None = None,
) -> None:
    """Serve an ASGI application on listening sockets until `stop` is set.

    Then no new connection is taken, requests under way have `grace` seconds to end, and what remains is
    cancelled. Closes the sockets; connections wait in those that another process has open too. `peers` says
    how many connections an address may have. Raises `CertificateError`.
    """
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    tls = certificate.context() if certificate is not None else None
    service = _Service(app, _config())
    reception = Reception(sockets, service.serve, tls, peers or Peers())
    reception.begin()
    try:
        await stop.wait()
    finally:
        reception.end()
        await service.end(reception.tasks, grace)


def _config() -> Config:
    config = Config()
    config.errorlog = _log
    config.accesslog = None
    config.include_server_header = False
    config.h11_max_incomplete_size = HEADER_BYTES
    config.h2_max_header_list_size = HEADER_BYTES
    config.keep_alive_max_requests = 1 << 62
    return config


class _Service:
    """All connections of a server."""

    def __init__(self, app: Any, config: Config) -> None:
        self._edge = _Edge(app)
        self._app = wrap_app(self._edge, 0, "asgi")
        self._config = config
        self._looking: asyncio.TimerHandle | None = None
        self._context = WorkerContext(None)
        self._connections: set[_Connection] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        loop = asyncio.get_running_loop()
        connection = _Connection(self._app, loop, self._config, self._context, {}, reader, writer)
        self._connections.add(connection)
        if self._looking is None:
            self._looking = loop.call_later(LOOK_SECONDS, self._look)
        try:
            await connection
        except asyncio.CancelledError:
            if not self._context.terminated.is_set():
                raise
        except Exception:
            _log.debug("a connection failed", exc_info=True)
            with contextlib.suppress(AttributeError):  # What TLS has ended has nothing to abort.
                writer.transport.abort()
        finally:
            self._connections.remove(connection)

    def _look(self) -> None:
        """Tell the requests of clients that left, where nobody reads what these sent before."""
        for connection in self._connections:
            connection.look()
        self._looking = (
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look) if self._connections else None
        )

    async def end(self, tasks: set[asyncio.Task[None]], grace: float) -> None:
        """Close connections that idle, give the others `grace` seconds, and end what is left of `tasks`."""
        if self._looking is not None:
            self._looking.cancel()
        self._edge.stops = True
        for connection in self._connections:
            connection.say_farewell()
        await _wait(tasks, min(grace, FAREWELL_SECONDS))
        await self._context.terminated.set()
        for connection in self._connections:
            connection.idle_task.expire()
        await _wait(tasks, grace)
        left = [*self._edge.requests, *tasks]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def _wait(tasks: set[asyncio.Task[None]], seconds: float) -> None:
    if tasks:
        await asyncio.wait(set(tasks), timeout=seconds)


class _Connection(TCPServer):
    """A connection that gathers what one turn of the loop sends, and whose idle time is a timer."""

    idle_task: Idle  # type: ignore[assignment]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.idle_task = Idle(self.loop, self._expire)
        self._edge: _Edge = self.app.app  # type: ignore[attr-defined]
        self._plain: PlainRequest | None = None
        self._gathered: list[bytes] = []
        self._size = 0
        self._reading = False
        self._held = 0
        self._ending = False
        self._linger: asyncio.TimerHandle | None = None
        self.gone: asyncio.Future[None] = self.loop.create_future()

    async def _read_data(self) -> None:
        self._reading = True
        try:
            while data := await self.reader.read(READ_BYTES):
                if self._ending:
                    continue
                self._held = 1
                if (data := await self._take_plain(data)) and not self._ending:
                    if isinstance(self.protocol.protocol, H11Protocol):
                        self.idle_task.begin_head()
                    await self.protocol.handle(RawData(data))
                self._held = 0
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
            self._plain = PlainRequest(head, self)
            self._task_group.spawn(self._edge.answer, self._scope(head), self._plain)
        return data

    def _between_requests(self) -> bool:
        """Whether HTTP/1.1 is spoken, and what comes now is the head of a request."""
        protocol: Any = self.protocol.protocol
        if type(protocol) is not H11Protocol or protocol.stream is not None:
            return False
        return protocol.connection.their_state is IDLE and not protocol.connection.trailing_data[0]

    def _scope(self, head: Head) -> dict[str, Any]:
        at = self.protocol
        scheme = "https" if at.ssl else "http"
        return scope(head, scheme, at.client, at.server, {GONE: self.gone})

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
            _close_after(protocol)
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
        if not self._held:
            return
        self._held += 1
        transport = self.writer.transport
        if self._held > 2 and (transport.is_closing() or not is_there(transport.get_extra_info("socket"))):
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


class _Edge:
    """The application as Hypercorn calls it: its tasks known, its cut responses cut."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.requests: set[asyncio.Task[Any]] = set()
        self.stops = False

    async def answer(self, scope: Any, request: PlainRequest) -> None:
        """Have a plain request answered."""
        task = asyncio.current_task()
        assert task is not None
        self.requests.add(task)
        try:
            await self._app(scope, request.receive, request.send)
        except Cut:
            pass
        except Exception:
            _log.exception("an application failed")
        finally:
            self.requests.discard(task)
            await request.abandon()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        task = asyncio.current_task()
        if scope["type"] != "http" or task is None:
            await self._app(scope, receive, send)
            return
        protocol = send.__self__.send.__self__
        if scope["http_version"] == "2":
            if type(protocol.streams) is dict:
                protocol.streams = Streams(protocol)
            protocol.stream_buffers[send.__self__.stream_id] = Buffer(protocol.context.event_class)
        elif self.stops:
            _close_after(protocol)
        scope["extensions"][GONE] = protocol.send.__self__.gone
        self.requests.add(task)
        send.__self__.app_put = partial(_put, receive.__self__)
        try:
            await self._app(scope, receive, send)
        except Cut:
            if scope["http_version"] == "2":
                await reset(send)
        finally:
            self.requests.discard(task)
            _forget(receive.__self__)


def _close_after(protocol: H11Protocol) -> None:
    """Have the next answer be the last of its connection, and say so."""
    protocol.keep_alive_requests = protocol.config.keep_alive_max_requests


async def _put(queue: asyncio.Queue[Any], message: dict[str, Any]) -> None:
    """Put what a client sent into its request's queue; that it has left never waits for room."""
    if message["type"] == "http.disconnect":
        queue._maxsize = 0  # type: ignore[attr-defined]
    await queue.put(message)


def _forget(queue: asyncio.Queue[Any]) -> None:
    """Let nobody wait to put into a queue that nobody takes from any more."""
    queue._maxsize = 0  # type: ignore[attr-defined]
    while not queue.empty():
        queue.get_nowait()
