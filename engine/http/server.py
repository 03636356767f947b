"""The web server: accepts connections, runs the handler of each request, and shuts down gracefully.

- Clients lose requests that they send while a server closes their connections. So shutdown is announced
  first, by `connection: close` in the next response, and by GOAWAY.
- Python searches for reference cycles every few requests, which takes a twentieth of a short request's
  time. Only connections create cycles, so it searches less often.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable

from engine import eager
from engine.http import timeouts
from engine.http.acceptor import CLOSE_SECONDS, Acceptor
from engine.http.buffered import BufferedBytes, BufferedCounts
from engine.http.connection import Connection, PendingWrites
from engine.http.connection_limits import ConnectionLimiter, client_key
from engine.http.exchange import Handler
from engine.http.h1 import Http1Connection, Http1Exchange
from engine.http.h2 import Http2Connection, Http2Exchange

_log = logging.getLogger("svc.server")
_log.addHandler(logging.NullHandler())


async def serve(
    handler: Handler,
    sockets: list[socket.socket],
    *,
    stop: asyncio.Event,
    grace: float,
    tls: ssl.SSLContext | None = None,
    limiter: ConnectionLimiter | None = None,
) -> None:
    """Serve a handler on listening sockets until `stop` is set, then shut down gracefully.

    Requests in progress have `grace` seconds to end; the others are canceled. Closes the sockets;
    connections wait in those that another process has open too.
    """
    limiter = limiter or ConnectionLimiter()
    server = Server(handler, limiter)
    acceptor = Acceptor(sockets, server.connect, tls=tls, limiter=limiter)
    acceptor.start()
    try:
        await stop.wait()
    finally:
        acceptor.stop()
        await server.shut_down(acceptor, grace)


class Server:
    """The connections of a server, and the tasks of their requests.

    While `stopping`, responses announce the end of their connection. Once `terminated`, connections without a
    request close.
    """

    def __init__(self, handler: Handler, limiter: ConnectionLimiter) -> None:
        self._handler = handler
        self._limiter = limiter
        self.unsent = BufferedCounts()
        self.unread = BufferedCounts()
        self._frame_turns = asyncio.Lock()
        self.pending_writes = PendingWrites()
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self.stopping = False
        self.terminated = False

    def connect(self, release: Callable[[], None]) -> asyncio.Protocol:
        """Return the protocol of a new connection. `release` is called when it is closed."""

        def remove(connection: Connection) -> None:
            self._connections.discard(connection)
            self._changed.set()
            release()

        return Http1Connection(self, remove)

    def opened(self, connection: Connection) -> None:
        self._connections.add(connection)

    def count_address(self, counts: BufferedCounts, client: tuple[str, int] | None) -> list[BufferedBytes]:
        """Return the count of a client's bytes, none for an address without limits."""
        if client is None or self._limiter.is_exempt(client[0]):
            return []
        return [counts.for_address(client_key(client[0]))]

    async def frame_turn(self) -> None:
        """Wait for the turn of a connection with many frames: one in an iteration of the event loop."""
        async with self._frame_turns:
            await asyncio.sleep(0)

    def start(self, exchange: Http1Exchange | Http2Exchange) -> None:
        """Run the handler of an exchange, in a task only if it waits."""
        task = eager.start(self.handle(exchange))
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._on_task_done)

    async def handle(self, exchange: Http1Exchange | Http2Exchange) -> None:
        try:
            await self._handler(exchange)
        except Exception:
            _log.exception("a request handler failed")
        finally:
            await exchange.close()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._changed.set()

    def upgrade(self, connection: Connection, data: bytes) -> None:
        """Continue a connection with HTTP/2, from these bytes on."""
        connection.cancel_timer()
        self._connections.discard(connection)
        upgraded = Http2Connection(self, connection.release)
        task = asyncio.get_running_loop().create_task(upgraded.serve(connection.transport, data))
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    async def shut_down(self, acceptor: Acceptor, grace: float) -> None:
        """Close idle connections, wait `grace` seconds for the others, and cancel what is left."""
        self.stopping = True
        for connection in list(self._connections):
            connection.announce_shutdown()
        await self._wait(acceptor, min(grace, timeouts.SHUTDOWN_NOTICE_SECONDS))
        self.terminated = True
        for connection in list(self._connections):
            connection.close_if_idle()
        await self._wait(acceptor, grace)
        unfinished = [*self._tasks, *acceptor.tasks]
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        for connection in list(self._connections):
            connection.transport.abort()
        await self._wait(acceptor, CLOSE_SECONDS)

    async def _wait(self, acceptor: Acceptor, seconds: float) -> None:
        """Wait at most `seconds` until every connection is closed and every handler has returned."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._connections or self._tasks:
                    self._changed.clear()
                    await self._changed.wait()
                if acceptor.tasks:
                    await asyncio.wait(acceptor.tasks)
