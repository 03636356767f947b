"""Accepts connections, bounded by the file-descriptor limit and a per-address limit."""

import asyncio
import contextlib
import functools
import logging
import socket
import ssl
from collections.abc import Callable

from engine.files.reserve import fd_limit
from engine.http import timeouts
from engine.http.connection_limits import ConnectionLimiter, client_key

ACCEPT_BATCH = 16
"""Connections that are accepted in one turn, so that processes that share a socket all get some."""
PAUSE_SECONDS = 1.0
"""How long no connection is accepted after the system had no file or memory for one."""
WARNING_INTERVAL_SECONDS = 60.0
"""Time between two warnings of an address that has too many connections."""
CLOSE_SECONDS = 2.0
"""How long a client may take to confirm the end of TLS; a shutdown of the server waits for it."""
FD_SHARE = 4
"""A server may use one in four file descriptors for connections, so that a service and its control API leave
half of them for files, Doors and calls."""
KERNEL_UNSENT_BYTES = 128 << 10
"""Unsent bytes of a connection that the kernel buffers; by default it buffers up to 4 MiB."""
PLAIN_RESPONSE = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 35\r\nconnection: close\r\n\r\n"
    b"This port serves https:// URLs only"
)
"""For a client that sends HTTP without TLS to a port with TLS."""
_log = logging.getLogger("svc.server")

Connect = Callable[[Callable[[], None]], asyncio.Protocol]
"""Returns the protocol of a connection, which calls the argument once it is closed."""


class Acceptor:
    """Accepts connections from listening sockets.

    The TLS handshake is part of a connection: it counts for the limits, and has the header timeout.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        connect: Connect,
        *,
        tls: ssl.SSLContext | None,
        limiter: ConnectionLimiter,
    ) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        """Connections that are being set up."""
        self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        self._connect = connect
        self._tls = tls
        self._limiter = limiter
        self._limit = fd_limit() // FD_SHARE
        self._open: dict[socket.socket, str] = {}
        self._warned = -WARNING_INTERVAL_SECONDS
        self._paused = self._stopped = False
        for listening in sockets:  # Accepted sockets inherit the option.
            with contextlib.suppress(OSError):
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, KERNEL_UNSENT_BYTES)

    def start(self) -> None:
        """Accept connections from now on."""
        self._paused = False
        if not self._stopped:
            for listening in self._sockets:
                self._loop.add_reader(listening, self._accept, listening)

    def stop(self) -> None:
        """Accept no more connections, and close the listening sockets."""
        self._pause()
        self._stopped = True
        for listening in self._sockets:
            listening.close()

    def _pause(self) -> None:
        self._paused = True
        if not self._stopped:
            for listening in self._sockets:
                self._loop.remove_reader(listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPT_BATCH):
            if len(self._open) >= self._limit:
                self._pause()
                return
            try:
                accepted, (address, *_) = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _log.error("cannot accept a connection: %s", error.strerror)
                self._pause()
                self._loop.call_later(PAUSE_SECONDS, self.start)
                return
            if not self._limiter.acquire(address):
                accepted.close()
                if self._loop.time() - self._warned >= WARNING_INTERVAL_SECONDS:
                    self._warned = self._loop.time()
                    client, limit = client_key(address), self._limiter.limit
                    _log.warning("%s has %d connections; further ones are closed", client, limit)
                continue
            self._open[accepted] = address
            task = self._loop.create_task(self._set_up(accepted))
            self.tasks.add(task)
            task.add_done_callback(functools.partial(self._end_set_up, accepted))

    async def _set_up(self, accepted: socket.socket) -> None:
        def release() -> None:
            self._release(accepted)

        accepted.setblocking(False)
        plain: socket.socket | None = None
        try:
            plain = accepted.dup() if self._tls is not None else None
            await self._loop.connect_accepted_socket(
                lambda: self._connect(release),
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=timeouts.HEADER_SECONDS if self._tls else None,
                ssl_shutdown_timeout=CLOSE_SECONDS if self._tls else None,
            )
        except OSError as error:  # The client left before, or the TLS handshake failed.
            if plain is not None and getattr(error, "reason", "") == "HTTP_REQUEST":
                with contextlib.suppress(OSError):
                    plain.send(PLAIN_RESPONSE)
            accepted.close()
            release()
        finally:
            if plain is not None:
                plain.close()

    def _end_set_up(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if task.cancelled():  # Maybe before its first step.
            accepted.close()
            self._release(accepted)

    def _release(self, accepted: socket.socket) -> None:
        address = self._open.pop(accepted, None)
        if address is not None:
            self._limiter.release(address)
            if self._paused and len(self._open) < self._limit:
                self.start()
