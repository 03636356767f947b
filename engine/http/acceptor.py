"""Takes connections from listening sockets: as many as there are files for, and so many from one address.

Owns the tasks of connections. Knows nothing of HTTP, and of TLS only that its handshake is part of a
connection: who never ends one is counted too, and has no longer for it than for a request's head.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable

from engine.http.connection_limits import Peers, network
from engine.http.reader import Incoming
from engine.http.sockets import open_files
from engine.http.timeouts import HEAD_SECONDS

AT_ONCE = 16
"""Connections that are taken in one turn, so that processes that share a socket come to have some each."""
PAUSE_SECONDS = 1.0
"""How long none is taken when the system has no file or memory for one."""
NOTED_SECONDS = 60.0
"""How often it is noted, at most, that an address has too many."""
CLOSE_SECONDS = 2.0
"""How long a client may take to confirm the end of TLS; a stop of the server waits for it."""
FILES_SHARE = 3
"""One of so many open files may be a connection of one server; the rest is for what serves them."""
_log = logging.getLogger("svc.server")

Serve = Callable[[Incoming, asyncio.StreamWriter], Awaitable[None]]


class Reception:
    """Gives each connection to `serve`, which closes it."""

    def __init__(
        self, sockets: list[socket.socket], serve: Serve, tls: ssl.SSLContext | None, peers: Peers
    ) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        self._serve = serve
        self._tls = tls
        self._peers = peers
        self._most = open_files() // FILES_SHARE
        self._noted = -NOTED_SECONDS
        self._waits = self._ended = False

    def begin(self) -> None:
        """Take connections from now on."""
        self._waits = False
        if not self._ended:
            for listening in self._sockets:
                self._loop.add_reader(listening, self._take, listening)

    def end(self) -> None:
        """Take none from now on, and close the sockets; `tasks` has the connections that are left."""
        self._wait()
        self._ended = True
        for listening in self._sockets:
            listening.close()

    def _wait(self) -> None:
        self._waits = True
        if not self._ended:
            for listening in self._sockets:
                self._loop.remove_reader(listening)

    def _take(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            if len(self.tasks) >= self._most:
                self._wait()
                return
            try:
                opened, (address, *_) = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _log.error("no connection can be taken: %s", error.strerror)
                self._wait()
                self._loop.call_later(PAUSE_SECONDS, self.begin)
                return
            if not self._peers.enter(address):
                opened.close()
                self._note(address)
                continue
            task = self._loop.create_task(self._connected(opened, address))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    def _note(self, address: str) -> None:
        if self._loop.time() - self._noted >= NOTED_SECONDS:
            self._noted = self._loop.time()
            whose, most = network(address), self._peers.most
            _log.warning("%s has %d connections; more from there are closed", whose, most)

    async def _connected(self, opened: socket.socket, address: str) -> None:
        try:
            await self._serve(*await self._streams(opened))
        except OSError:
            opened.close()  # Gone before it was ready; a handshake that fails is an OSError.
        finally:
            self._peers.leave(address)
            if self._waits and len(self.tasks) <= self._most:
                self.begin()

    async def _streams(self, opened: socket.socket) -> tuple[Incoming, asyncio.StreamWriter]:
        opened.setblocking(False)
        reader = Incoming()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await self._loop.connect_accepted_socket(
            lambda: protocol,
            opened,
            ssl=self._tls,
            ssl_handshake_timeout=HEAD_SECONDS if self._tls else None,
            ssl_shutdown_timeout=CLOSE_SECONDS if self._tls else None,
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, self._loop)
