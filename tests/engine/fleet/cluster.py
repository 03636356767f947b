"""A cluster of nats-servers on loopback, with mutual TLS and nkeys, for tests."""

import asyncio
import os
import random
import secrets
import signal
import socket
import ssl
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from engine.fleet.authority import Authority
from engine.fleet.connection import ClusterAddress
from engine.fleet.errors import NatsServerFailed
from engine.fleet.nats_server import NatsServer, NatsServerSettings
from engine.fleet.nkeys import Nkey

T = TypeVar("T")
HOST = "127.0.0.1"
READY_SECONDS = 30


def free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago, below those that outgoing connections use."""
    ports: set[int] = set()
    while len(ports) < count:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with suppress(OSError), socket.create_server((HOST, port)):
            ports.add(port)
    return list(ports)


def node_settings(folder: Path, count: int) -> tuple[list[NatsServerSettings], ClusterAddress]:
    """Write the keys of a cluster below a folder; return the settings of its nodes, and its address."""
    authority, client, system = Authority.create("test"), Nkey.create(), Nkey.create()
    ports = free_ports(3 * count)
    listen, routes, monitors = ([f"{HOST}:{port}" for port in ports[n::3]] for n in range(3))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ca.pem").write_bytes(authority.pair.certificate)
    nodes = []
    for n in range(count):
        home = folder / f"node ü {n}"
        home.mkdir()
        pair = authority.issue(f"n{n}", [HOST])
        (home / "node.pem").write_bytes(pair.certificate)
        (home / "node.key").write_bytes(pair.key)
        nodes.append(
            NatsServerSettings(
                name=f"n{n}",
                cluster="test",
                folder=home,
                listen=listen[n],
                route=routes[n],
                monitor=monitors[n],
                routes=routes,
                certificate=home / "node.pem",
                key=home / "node.key",
                authority=folder / "ca.pem",
                client_nkey=client.public,
                system_nkey=system.public,
                store_key=f"1e{secrets.token_urlsafe(32)}",
                max_bytes=1 << 30,
            )
        )
    tls = ssl.create_default_context(cafile=folder / "ca.pem")
    tls.load_cert_chain(nodes[0].certificate, nodes[0].key)
    servers = tuple(f"tls://{address}" for address in listen)
    return nodes, ClusterAddress(servers=servers, tls=tls, nkey=client)


class Cluster:
    """Running servers. Their supervision runs on a loop of its own thread."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        self.settings, self.address = node_settings(folder, count)
        self.log: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.nodes = [self.run(self._create(settings)) for settings in self.settings]

    async def _create(self, settings: NatsServerSettings) -> NatsServer:
        server = NatsServer(settings, lambda level, line: self.log.append(line))
        await server.start()
        return server

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the supervision."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def wait(self) -> None:
        """Wait until all servers are healthy."""
        for node in self.nodes:
            try:
                self.run(node.ready(READY_SECONDS))
            except NatsServerFailed as error:
                lines = [line for server in self.nodes for line in server._lines]
                raise AssertionError("\n".join([error.message, *self.log, *lines])) from error

    @contextmanager
    def paused(self, number: int) -> Iterator[None]:
        """Stop a server from running within the context."""
        pid = self.nodes[number].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill the servers."""
        for node in self.nodes:
            self.run(node.kill())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def running(folder: Path, count: int = 3) -> Iterator[Cluster]:
    """Run a cluster that is healthy."""
    cluster = Cluster(folder, count)
    try:
        cluster.wait()
        yield cluster
    finally:
        cluster.close()


def process_state(pid: int) -> str:
    """Return whether a process runs: "gone", or its command line."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode() or "gone"
    except (ProcessLookupError, FileNotFoundError):
        return "gone"
