"""A cluster of nats-servers on loopback, with mutual TLS and passwords, for tests."""

import asyncio
import fcntl
import os
import random
import secrets
import signal
import socket
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from engine.certificates.private import Issuer
from engine.fleet.connection import ClusterAddress
from engine.fleet.errors import NatsServerFailed
from engine.fleet.nats_server import LOG, NatsServer
from engine.fleet.node import (
    JOIN_OFFSET,
    MONITOR_OFFSET,
    ROUTE_OFFSET,
    FleetNode,
    NodeAddress,
    cluster_address,
    create_keeper,
    node_id,
)
from tests.support.waiting import until

T = TypeVar("T")
HOST = "127.0.0.1"
READY_SECONDS = 120
MAX_SHOWN_LOG = 10_000


def pid_of(server: NatsServer) -> int | None:
    """Return the process id of a running server."""
    return server._process.pid if server._process is not None else None


def free_ports(count: int) -> list[int]:
    """Return ports for nodes, which other test processes do not get until this one ends.

    The ports of a node differ by multiples of 1000, so a process locks their remainder. A free port alone
    could be taken before its server starts, and while it restarts. The ports are below those that outgoing
    connections use.
    """
    folder = Path(tempfile.gettempdir()) / f"svc-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(10_000, 28_000)
        lock = os.open(folder / str(port % 1000), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for offset in (0, JOIN_OFFSET, ROUTE_OFFSET, MONITOR_OFFSET):
                socket.create_server((HOST, port + offset)).close()
        except OSError:
            os.close(lock)
        else:
            ports.append(port)
    return ports


def free_addresses(count: int) -> list[NodeAddress]:
    """Return addresses of nodes whose ports were free a moment ago."""
    return [NodeAddress(HOST, port) for port in free_ports(count)]


def create_nodes(folder: Path, count: int) -> tuple[list[tuple[Path, FleetNode]], ClusterAddress]:
    """Create the folders of a fleet's nodes on loopback; return these nodes, and the fleet's address.

    The servers of the address are in the order of the nodes.
    """
    authority, client, system = Issuer.create("test"), secrets.token_hex(), secrets.token_hex()
    fleet, addresses = secrets.token_hex(4), tuple(free_addresses(count))
    root = folder / "fleet ü"
    root.mkdir()
    nodes = []
    for number, address in enumerate(addresses, 1):
        node = FleetNode(fleet=fleet, node=node_id(number), address=address, nodes=addresses, state="member")
        path = root / f"node{number}"
        create_keeper(path, node, authority, client, system)
        nodes.append((path, node))
    return nodes, cluster_address(*nodes[0])


def server_logs(folder: Path) -> list[tuple[str, str]]:
    """Return the ends of the logs of all nats-servers below a folder, by their path."""
    return [
        (str(path.relative_to(folder)), path.read_text(errors="replace")[-MAX_SHOWN_LOG:])
        for path in sorted(folder.rglob(f"{LOG}*"))
    ]


class Cluster:
    """Running servers. Their supervision runs on a loop of its own thread."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        self.folder = folder
        nodes, self.address = create_nodes(folder, count)
        self.log: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.nodes = [self.run(self._create(*each)) for each in nodes]

    async def _create(self, folder: Path, node: FleetNode) -> NatsServer:
        server = NatsServer(folder, node, lambda level, line: self.log.append(line))
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
                raise AssertionError(error.message) from error

    @contextmanager
    def paused(self, number: int) -> Iterator[None]:
        """Stop a server from running within the context."""
        pid = pid_of(self.nodes[number])
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            threads = Path(f"/proc/{pid}/task")
            until(lambda: all(") T " in path.read_text() for path in threads.glob("*/stat")))
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
