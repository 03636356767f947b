"""The web server: sockets, start, stop. The only file that knows Hypercorn, and home of its workarounds.

- Without a `shutdown_trigger` it installs signal handlers, which fails in a thread: always pass one.
- From Python 3.12 on it waits for open connections before its own time limit begins (pgjones/hypercorn
  issue 308): requests that are still under way when the grace is over are cancelled here.
- An application that raises after its response began leaves an HTTP/2 stream open for ever: it is reset
  here. An HTTP/1.1 connection is closed without the last chunk, which is what is wanted.
"""

import asyncio
import errno
import logging
import socket
from typing import Any

import h2.connection
import h2.errors
import h2.exceptions
from hypercorn.asyncio.run import worker_serve
from hypercorn.config import Config, Sockets
from hypercorn.typing import ASGIFramework
from hypercorn.utils import wrap_app

from engine.errors import SvcError
from engine.gateway.app import Cut

HEADER_BYTES = 32 << 10
IDLE_SECONDS = 75
RESET_SECONDS = 1.0
BACKLOG = 1024
_PORTS_TRIED = 50
_log = logging.getLogger("svc.server")
_log.addHandler(logging.NullHandler())
_log.propagate = False


class PortInUse(SvcError):
    """Another program listens on the port."""

    code = "port-in-use"


def bind(host: str, port: int) -> list[socket.socket]:
    """Return listening sockets on an address; `localhost` means both 127.0.0.1 and ::1.

    Port 0 takes a free one, the same for both families. Raises `PortInUse`, or `SvcError` for an address
    that this machine does not have.
    """
    hosts = ["127.0.0.1", "::1"] if host == "localhost" else [host]
    tries = _PORTS_TRIED if port == 0 else 1
    while True:
        tries -= 1
        try:
            return _bind_all(hosts, port)
        except PortInUse:
            if not tries:
                raise


def _bind_all(hosts: list[str], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for host in hosts:
            opened = _bind_one(host, sockets[0].getsockname()[1] if sockets else port, optional=bool(sockets))
            if opened is not None:
                sockets.append(opened)
    except BaseException:
        for opened in sockets:
            opened.close()
        raise
    return sockets


def _bind_one(host: str, port: int, *, optional: bool) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = None
    try:
        # asyncio turns Nagle's algorithm off only for sockets that name their protocol.
        opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind((host, port))
        opened.listen(BACKLOG)
        opened.setblocking(False)
    except OSError as error:
        if opened is not None:
            opened.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"port {port} is in use by another program",
                f"Stop that program, or take another port: --port {_free_port(port)}",
            ) from error
        if error.errno == errno.EACCES:
            raise SvcError(
                f"port {port} may not be used: {error.strerror}", "Take a port above 1023."
            ) from error
        if optional:
            return None
        raise SvcError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    return opened


def _free_port(after: int) -> int:
    """Return the next port that is free on both loopback addresses."""
    for port in range(after + 1, min(after + _PORTS_TRIED, 65535)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    return 0


async def serve(app: Any, sockets: list[socket.socket], *, stop: asyncio.Event, grace: float) -> None:
    """Serve an ASGI application on bound sockets until `stop` is set.

    Then no new connection is taken, requests under way have `grace` seconds to end, and what remains is
    cancelled. Closes the sockets.
    """
    config = Config()
    config.errorlog = _log
    config.accesslog = None
    config.include_server_header = False
    config.h11_max_incomplete_size = HEADER_BYTES
    config.h2_max_header_list_size = HEADER_BYTES
    config.keep_alive_timeout = IDLE_SECONDS
    config.keep_alive_max_requests = 1 << 62
    config.graceful_timeout = grace
    config.backlog = BACKLOG
    requests: set[asyncio.Task[Any]] = set()
    framework: ASGIFramework = _Edge(app, requests)
    server = asyncio.get_running_loop().create_task(
        worker_serve(
            wrap_app(framework, 0, "asgi"),
            config,
            sockets=Sockets([], sockets, []),
            shutdown_trigger=stop.wait,
        )
    )
    stopping = asyncio.get_running_loop().create_task(stop.wait())
    try:
        await asyncio.wait({server, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not server.done():
            await asyncio.wait({server}, timeout=grace + 0.5)
    finally:
        stopping.cancel()
        for task in requests:
            task.cancel()
        if not server.done():
            server.cancel()
        await asyncio.gather(server, *requests, return_exceptions=True)
        for opened in sockets:
            opened.close()


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
