"""A fleet whose machines can be killed, cut off, slowed down and replaced."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from doors.tables.replication.copy import read_log_position
from doors.tables.sqlite.connections import open_replica
from engine.fleet.connection import NatsConnection
from engine.fleet.fleet import COPIES, StreamCopies, stream_copies
from engine.fleet.node import FleetNode, cluster_address
from engine.fleet.tables_log import STREAM
from tests.faults.disks import Disk, Ext4Disk
from tests.faults.log_check import LogReport, check_log
from tests.support.fleet import FleetNodes
from tests.support.network import Link, Network
from tests.support.service import run_process
from tests.support.waiting import until

NAMESPACE = "svc"
_T = TypeVar("_T")


class FaultyFleet:
    """A running fleet whose nodes can be harmed. Nodes count from 1; `alive` are those that clients use."""

    def __init__(
        self,
        machines: FleetNodes,
        network: Network | None = None,
        disks: Sequence[Disk] = (),
        applications: Sequence[str] = (),
    ) -> None:
        """`applications` are the names of the resources through which clients also write and read."""
        self.machines, self.applications = machines, applications
        self._network, self._disks = network, disks
        self.alive = [1, 2, 3]
        self.seed = 0
        """Seed of the choices of the current case."""

    def folder(self, node: int) -> Path:
        """Return the data folder of a node."""
        return self.machines.folder(node)

    def tables(self, node: int) -> Path:
        """Return the file with the copy of a node."""
        return self.folder(node) / "projects" / "shop" / "tables" / "tables.db"

    def id(self, node: int) -> str:
        """Return the id of a node."""
        return FleetNode.read(self.folder(node) / "fleet").node

    def ask(self, question: Callable[[NatsConnection], Awaitable[_T]], node: int = 0) -> _T:
        """Return what a function learns by a connection to the cluster (default: of a node that is alive)."""
        node = node or self.alive[0]

        async def connect() -> _T:
            folder = self.folder(node) / "fleet"
            connection = await NatsConnection.open(cluster_address(folder, FleetNode.read(folder)))
            try:
                return await question(connection)
            finally:
                await connection.aclose()

        with self.machines.at(node):
            return asyncio.run(connect())

    def revive(self) -> str:
        """Start the nodes that should run and do not; return the status and the log of each."""
        processes = {node: self.machines.servers[node - 1].process for node in self.alive}
        ended = [node for node, process in processes.items() if process.poll() is not None]
        logs = [f"node {node} ended with {processes[node].returncode}" for node in ended]
        logs += [str(processes[node].communicate()[1]) for node in ended]
        self.machines.restart(*ended)
        return "\n".join(logs)

    def copies(self) -> list[StreamCopies]:
        """Return where the streams of the fleet are stored."""
        return self.ask(stream_copies)

    def check_log(self) -> LogReport:
        """Check the log of the tables."""
        return self.ask(lambda connection: check_log(connection, NAMESPACE, "shop"))

    def leader(self) -> int:
        """Return the node that leads the log of the tables, after an election if there is one."""
        leaders: list[int] = []

        def elected() -> bool:
            leader = next(each.leader for each in self.copies() if each.name == STREAM)
            leaders[:] = [node for node in self.alive if self.id(node) == leader]
            return bool(leaders)

        until(elected)
        return leaders[0]

    def follower(self) -> int:
        """Return a node that stores the log, and does not lead it."""
        copies = next(each for each in self.copies() if each.name == STREAM)
        others = copies.servers - {copies.leader}
        return next(node for node in self.alive if self.id(node) in others)

    def writer(self) -> int:
        """Return the node that wrote last to the tables."""
        writers: list[int] = []

        def found() -> bool:
            with closing(open_replica(self.tables(self.alive[0]))) as connection:
                writer = read_log_position(connection).lease.partition(".")[0]
            writers[:] = [node for node in self.alive if self.id(node) == writer]
            return bool(writers)

        until(found)
        return writers[0]

    def lead(self, node: int) -> None:
        """Move the leadership of the log to a node."""
        body = {"placement": {"preferred": self.id(node)}}
        self.ask(lambda connection: connection.api(f"STREAM.LEADER.STEPDOWN.{STREAM}", body))
        until(lambda: self.leader() == node)

    def wait_for_copies(self) -> None:
        """Wait until each stream has all of its copies."""
        until(lambda: all(len(each.current) == COPIES for each in self.copies()), 120)

    def service(self, node: int) -> int:
        """Return the process id of a node's service."""
        return self.machines.servers[node - 1].process.pid

    def server(self, node: int) -> int:
        """Return the process id of a node's nats-server."""
        return next(iter(self._servers(node)))

    def server_version(self, node: int) -> str:
        """Return the version of a node's nats-server."""
        program = f"/proc/{self.server(node)}/exe"
        shown = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
        return shown.split()[-1].removeprefix("v")

    def _servers(self, node: int) -> list[int]:
        path = Path(f"/proc/{self.service(node)}/task/{self.service(node)}/children")
        children = [int(pid) for pid in path.read_text().split()]
        return [pid for pid in children if b"nats.conf" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def kill_servers(self, *nodes: int) -> None:
        """Kill nats-servers, and wait until their services have started others."""
        before = {node: self.server(node) for node in nodes}
        for pid in before.values():
            os.kill(pid, signal.SIGKILL)
        until(lambda: all(set(self._servers(node)) - {pid} for node, pid in before.items()))

    def kill(self, *nodes: int) -> None:
        """Kill services with their nats-servers, and start them again."""
        self.machines.kill(*nodes)
        self.machines.restart(*nodes)

    def lose_power(self, *nodes: int) -> None:
        """Cut the power of machines at the same time, and start them again."""
        disks = [disk for disk in (self._disks[node - 1] for node in nodes) if isinstance(disk, Ext4Disk)]
        assert len(disks) == len(nodes)
        pids = [pid for node in nodes for pid in (self.service(node), self.server(node))]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for disk in disks:
            disk.cut_power()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.machines.kill(*nodes)
        for disk in disks:
            disk.restore_power()
        self.machines.restart(*nodes)

    @contextmanager
    def paused(self, pid: int) -> Iterator[None]:
        """Stop a process from running within the context."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def pause(self, pid: int, seconds: float) -> None:
        """Stop a process from running for a time."""
        with self.paused(pid):
            time.sleep(seconds)

    def stop(self, node: int) -> None:
        """Stop a service, and start it again."""
        assert self.machines.servers[node - 1].stop() == 0
        self.machines.restart(node)

    def restart_with(self, node: int, environ: dict[str, str]) -> None:
        """Stop a service unless it has ended, and start it with additional variables."""
        server = self.machines.servers[node - 1]
        server.stop()
        with self.machines.at(node):
            self.machines.servers[node - 1] = server.restarted({**self.machines.environ, **environ})

    def join(self, *, keeper: bool) -> int:
        """Add a machine to the fleet, and return its number."""
        token = self.command(self.alive[0], "token", *(["--keeper"] if keeper else [])).strip()
        number = len(self.machines.servers) + 1
        self.machines.servers.append(self.machines.join(number, token))
        self.alive.append(number)
        return number

    def status_warnings(self, node: int) -> str:
        """Return the warnings of `svc fleet status` for a node."""
        with self.machines.at(node):
            done = run_process(
                self.machines.project, self.machines.environ, "fleet", "status", *self.machines.data(node)
            )
        return done.stderr

    @contextmanager
    def links(self, link: Link, *pairs: tuple[int, int]) -> Iterator[None]:
        """Change links between nodes within the context. A pair is the sender and the receiver."""
        assert self._network is not None
        with self._network.changed(link, *pairs):
            yield

    def owner_command(self, *arguments: str) -> None:
        """Run `svc` at the first node, logged in as the owner of the service."""
        # A deploy through another node has linked the project to that one.
        environ = {**self.machines.environ, "SVC_URL": self.machines.servers[0].control}
        with self.machines.at(1):
            done = run_process(self.machines.project, environ, *arguments)
        assert done.returncode == 0, done.stderr

    def command(self, node: int, *arguments: str) -> str:
        """Run `svc fleet` for a node until it succeeds, and return what it prints."""
        printed: list[str] = []

        def succeeds() -> bool:
            with self.machines.at(node):
                done = run_process(
                    self.machines.project,
                    self.machines.environ,
                    "fleet",
                    *arguments,
                    *self.machines.data(node),
                )
            printed.append(done.stdout or done.stderr)
            return done.returncode == 0

        until(succeeds, 120)
        return printed[-1]
