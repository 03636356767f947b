"""The web server: connections, start, stop. The only file that knows Hypercorn, and home of its workarounds.

- It is given connections one by one: its own loop around them installs signal handlers, and from Python
  3.12 on waits for open connections before its time limit begins (pgjones/hypercorn issue 308).
- For each request it starts and ends a task with two more for the time that a connection may idle, and
  hands every part of a response to the system by itself: a quarter of the time of a short answer.
- An application that raises after its response began leaves an HTTP/2 stream open for ever: it is reset
  here. An HTTP/1.1 connection is closed without the last chunk, which is what is wanted.
- Each request leaves objects behind that refer to each other. Looking for them as often as Python does by
  itself, every few requests, takes a twentieth of a short answer's time.
"""

import asyncio
import gc
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import h2.connection
import h2.errors
import h2.exceptions
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.utils import wrap_app

from engine.gateway.app import Cut
from engine.listen import BACKLOG

HEADER_BYTES = 32 << 10
IDLE_SECONDS = 75
RESET_SECONDS = 1.0
GATHERED_BYTES = 32 << 10
"""What parts of responses wait for each other at most, within one turn of the event loop."""
COLLECT_AFTER = 10_000
"""How many more objects there are when Python looks for those that nothing refers to."""
_log = logging.getLogger("svc.server")
_log.addHandler(logging.NullHandler())
_log.propagate = False


async def serve(app: Any, sockets: list[socket.socket], *, stop: asyncio.Event, grace: float) -> None:
    """Serve an ASGI application on bound sockets until `stop` is set.

    Then no new connection is taken, requests under way have `grace` seconds to end, and what remains is
    cancelled. Closes the sockets.
    """
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    service = _Service(app, _config())
    servers = [await asyncio.start_server(service.accept, sock=s, backlog=BACKLOG) for s in sockets]
    try:
        await stop.wait()
    finally:
        for server in servers:
            server.close()
        await service.end(grace)
        for opened in sockets:
            opened.close()


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
        self._requests: set[asyncio.Task[Any]] = set()
        self._app = wrap_app(_Edge(app, self._requests), 0, "asgi")
        self._config = config
        self._context = WorkerContext(None)
        self._connections: dict[_Connection, asyncio.Task[Any]] = {}

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        connection = _Connection(self._app, loop, self._config, self._context, {}, reader, writer)
        self._connections[connection] = task
        try:
            await connection
        finally:
            del self._connections[connection]

    async def end(self, grace: float) -> None:
        """Close connections that idle, give the others `grace` seconds, and end what is left."""
        await self._context.terminated.set()
        for connection in self._connections:
            connection.idle_task.expire()
        tasks = set(self._connections.values())
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        left = [*self._requests, *self._connections.values()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


class _Connection(TCPServer):
    """A connection that gathers what one turn of the loop sends, and whose idle time is a timer."""

    idle_task: "_Idle"  # type: ignore[assignment]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.idle_task = _Idle(self.loop, self._expire)
        self._gathered: list[bytes] = []
        self._size = 0
        self._reading = False

    async def _read_data(self) -> None:
        self._reading = True
        try:
            await super()._read_data()
        finally:
            self._reading = False

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
        if data and not self.writer.transport.is_closing():
            self.writer.write(data)

    async def _close(self) -> None:
        self._flush()
        await super()._close()

    def _expire(self) -> None:
        if not self._reading:
            return  # The client left: the connection is about to end, and its tasks' group may have ended.
        self._task_group.spawn(self._initiate_server_close)


class _Idle:
    """Ends a connection that has nothing to do for long."""

    def __init__(self, loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
        self._loop = loop
        self._act = act
        self._timer: asyncio.TimerHandle | None = None

    async def restart(self, _group: Any, _action: Callable[[], Awaitable[None]]) -> None:
        """Begin to wait."""
        self._cancel()
        self._timer = self._loop.call_later(IDLE_SECONDS, self._act)

    async def stop(self) -> None:
        """Wait no longer: there is something to do."""
        self._cancel()

    def expire(self) -> None:
        """Act now, if it is idle."""
        if self._timer is not None:
            self._cancel()
            self._act()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Edge:
    """The application as Hypercorn calls it: its tasks known, its cut responses cut."""

    def __init__(self, app: Any, requests: set[asyncio.Task[Any]]) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        task = asyncio.current_task()
        if scope["type"] != "http" or task is None:
            await self._app(scope, receive, send)
            return
        self._requests.add(task)
        try:
            await self._app(scope, receive, send)
        except Cut:
            if scope["http_version"] == "2":
                await _reset(send)
        finally:
            self._requests.discard(task)


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
