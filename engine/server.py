"""The web server: connections, start, stop. The only file that knows Hypercorn, and home of its workarounds.

- It is given connections one by one: its own loop around them installs signal handlers, and from Python
  3.12 on waits for open connections before its time limit begins (pgjones/hypercorn issue 308).
- For each request it starts and ends a task with two more for the time that a connection may idle, and
  hands every part of a response to the system by itself: a quarter of the time of a short answer.
- An application that raises after its response began leaves an HTTP/2 stream open for ever: it is reset
  here. An HTTP/1.1 connection is closed without the last chunk, which is what is wanted.
- What a client sends after its request was answered: on HTTP/2 it ends the whole connection, and on HTTP/1.1
  it waits in a queue that nobody reads, or has the answer thrown away by the client's system. Here it is
  read and forgotten.
- An error in a connection, which a malformed request can cause, is that connection's end and nothing more.
- A response that waits for an HTTP/2 client's room goes on waiting when the client has left. It is told here.
- A response on HTTP/2 goes into memory as fast as it is made: its buffer takes an attempt to send that the
  client has no room for as a sign that there is room. The buffer is another one here.
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

import h2.connection
import h2.errors
import h2.exceptions
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.h2 import BUFFER_LOW_WATER, H2Protocol, StreamBuffer
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.utils import wrap_app
from hyperframe.frame import GoAwayFrame

from engine.certificate import Certificate
from engine.gateway.app import GONE, Cut
from engine.idle import Idle
from engine.peers import Peers, is_there
from engine.reception import Reception

HEADER_BYTES = 32 << 10
RESET_SECONDS = 1.0
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
        if not event.data:
            return
        if not self._gathered:
            self.loop.call_soon(self._flush)
        self._gathered.append(event.data)
        self._size += len(event.data)
        if self._size < GATHERED_BYTES and not self.writer.transport.get_write_buffer_size():
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

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        task = asyncio.current_task()
        if scope["type"] != "http" or task is None:
            await self._app(scope, receive, send)
            return
        protocol = send.__self__.send.__self__
        if scope["http_version"] == "2":
            if type(protocol.streams) is dict:
                protocol.streams = _Streams(protocol)
            protocol.stream_buffers[send.__self__.stream_id] = _Buffer(protocol.context.event_class)
        elif self.stops:
            _close_after(protocol)
        scope["extensions"][GONE] = protocol.send.__self__.gone
        self.requests.add(task)
        send.__self__.app_put = partial(_put, receive.__self__)
        try:
            await self._app(scope, receive, send)
        except Cut:
            if scope["http_version"] == "2":
                await _reset(send)
        finally:
            self.requests.discard(task)
            _forget(receive.__self__)


def _close_after(protocol: H11Protocol) -> None:
    """Have the next answer be the last of its connection, and say so."""
    protocol.keep_alive_requests = protocol.config.keep_alive_max_requests


class _Streams(dict[int, Any]):
    """The streams of an HTTP/2 connection; what comes for one that was answered is asked to stop."""

    def __init__(self, protocol: Any) -> None:
        super().__init__(protocol.streams)
        self._protocol = protocol

    def __missing__(self, stream: int) -> "_Answered":
        return _Answered(self._protocol, stream)


class _Answered:
    """A stream whose answer was sent while its request goes on."""

    def __init__(self, protocol: Any, stream: int) -> None:
        self._protocol = protocol
        self._stream = stream

    async def handle(self, _event: object) -> None:
        """Let the client know that no more is wanted (RFC 9113 8.1), once it has the whole answer."""
        if self._stream not in self._protocol.stream_buffers:
            with contextlib.suppress(h2.exceptions.ProtocolError):
                self._protocol.connection.reset_stream(self._stream, h2.errors.ErrorCodes.NO_ERROR)


class _Buffer(StreamBuffer):
    """What waits to be sent on an HTTP/2 stream: it holds its writer back until it has been sent."""

    async def push(self, data: bytes) -> None:
        """Add bytes; return when there is room for more."""
        await self._paused.clear()
        await super().push(data)

    async def pop(self, max_length: int) -> bytes:
        """Take bytes that may be sent now."""
        data = bytes(self.buffer[:max_length])
        del self.buffer[:max_length]
        if len(self.buffer) < BUFFER_LOW_WATER:
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data


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


async def _reset(send: Any) -> None:
    """Reset the HTTP/2 stream that `send` belongs to, after what was sent on it has left."""
    stream = send.__self__
    protocol = stream.send.__self__
    connection: h2.connection.H2Connection = protocol.connection
    buffer = protocol.stream_buffers.get(stream.stream_id)
    try:
        if buffer is not None:
            await asyncio.wait_for(buffer.drain(), RESET_SECONDS)
        connection.reset_stream(stream.stream_id, h2.errors.ErrorCodes.INTERNAL_ERROR)
        await protocol._flush()
    except (TimeoutError, h2.exceptions.ProtocolError):
        return
