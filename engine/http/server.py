"""The web server: connections, start, stop. Home of the workarounds for Hypercorn, but for those of HTTP/2.

- It is given connections one by one: its own loop around them installs signal handlers, and from Python
  3.12 on waits for open connections before its time limit begins (pgjones/hypercorn issue 308).
- For each request it starts and ends a task with two more for the time that a connection may idle, and
  hands every part of a response to the system by itself: a quarter of the time of a short answer.
- h11 and the layers around it take most of a short answer's time, and most of what a body costs. Requests
  without a body or of a known length, as nearly all are, are read and answered by `http1.py`, and never come
  to h11.
- What a client sends after its request was answered waits in a queue that nobody reads, or has the answer
  thrown away by the client's system. Here it is read and forgotten.
- An error in a connection, which a malformed request can cause, is that connection's end and nothing more.
- A response that waits for an HTTP/2 client's room goes on waiting when the client has left. It is told here.
- While a request's body is not taken, nobody reads, so nobody sees the client go. The system is asked.
- A connection that turns to HTTP/2 counts as one with a request under way, before there is any.
- A server that stops ends connections without a word, and its clients lose what they send at that moment.
  Here they are told first: by `connection: close` in the next answer, and by GOAWAY.
- Python looks for objects that refer to each other every few requests, which takes a twentieth of a short
  answer's time. Only connections leave such behind, so it looks less often.
"""

import asyncio
import contextlib
import gc
import logging
import socket
from functools import partial
from typing import Any

from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.utils import wrap_app

from engine.gateway.app import GONE, Cut
from engine.http.acceptor import Reception
from engine.http.connection import Connection, close_after
from engine.http.connection_limits import Peers
from engine.http.h1 import PlainRequest
from engine.http.h2 import Buffer, Streams, reset
from engine.http.reader import Incoming
from engine.http.tls import Certificate

HEADER_BYTES = 32 << 10
FAREWELL_SECONDS = 0.25
"""How long clients may send further requests on their connections when the server stops."""
LOOK_SECONDS = 0.25
"""How often the system is asked whether clients are there that nobody reads from."""
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
        self._connections: set[Connection] = set()

    async def serve(self, reader: Incoming, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        loop = asyncio.get_running_loop()
        connection = Connection(self._app, loop, self._config, self._context, {}, reader, writer)
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
            close_after(protocol)
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
