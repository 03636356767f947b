"""Services on loopback that become a fleet."""

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from engine.fleet.errors import NatsServerFailed
from engine.fleet.nats_server import find_program
from engine.fleet.node import DEFAULT_PORT, NodeAddress
from tests.engine.fleet.cluster import free_addresses
from tests.support.network import Network
from tests.support.service import Server, login, prepare, run, share_machine_code
from tests.support.waiting import until


def require_nats() -> None:
    """Skip a test on a machine without the packages of a fleet."""
    pytest.importorskip("nats", reason="nats-py is not installed (extra fleet)")
    try:
        find_program()
    except NatsServerFailed as error:
        pytest.skip(f"{error.message} (extra fleet)")


MACHINES = 6


class FleetNodes:
    """A service with a deployed project, which `form` makes a fleet of three. Nodes count from 1."""

    def __init__(
        self,
        root: Path,
        project: Path,
        environ: dict[str, str],
        cache: Path | None = None,
        network: Network | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        """`root` gets the data folders `m1`, `m2`, …; they share the machine code of a cache, if given.

        Without a network, all machines use loopback. Services get `options` once they are nodes.
        """
        self.root, self.project, self.environ = root, project, environ
        self._network, self._options = network, options
        self.addresses = (
            [NodeAddress(host.address, DEFAULT_PORT) for host in network.hosts.values()]
            if network is not None
            else free_addresses(MACHINES)
        )
        self.tokens: list[str] = []
        with self.at(1):
            self.servers = [Server(root / "m1", environ, cache=cache)]
            try:
                if cache is not None:
                    share_machine_code(root / "m2", cache)
                    share_machine_code(root / "m3", cache)
                login(self.servers[0], project, environ)
                prepare(project, environ, "deploy")
                self.token = prepare(project, environ, "token", "create", "ci", "--role", "owner").split()[-1]
            except BaseException:
                self.close()
                raise

    def at(self, number: int) -> AbstractContextManager[None]:
        """Create the sockets and processes of this thread on the machine of a node within the context."""
        return self._network.hosts[number].entered() if self._network is not None else nullcontext()

    def folder(self, number: int) -> Path:
        """Return the data folder of a node."""
        return self.root / f"m{number}"

    def data(self, number: int) -> tuple[str, str]:
        """Return the option for the data folder of a node."""
        return "--data", str(self.folder(number))

    def start(self) -> None:
        """Found the fleet."""
        listen = ("--listen", str(self.addresses[0]))
        with self.at(1):
            started = run(self.project, self.environ, "fleet", "start", *self.data(1), *listen)
        assert started.returncode == 0, started.stderr
        self.tokens = re.findall(r"SVC_JOIN=(\S+) svc serve --data ", started.stdout)

    def joining(self, number: int, token: str) -> tuple[str, ...]:
        """Return the options of a node that joins."""
        return ("--join", token, "--fleet-listen", str(self.addresses[number - 1]))

    def join(self, number: int, token: str) -> Server:
        """Start the service of a node; returns once it serves."""
        with self.at(number):
            _, _, *listen = self.joining(number, token)
            return Server(self.folder(number), {**self.environ, "SVC_JOIN": token}, *listen, *self._options)

    def form(self) -> None:
        """Found the fleet and start the other nodes."""
        self.start()
        with ThreadPoolExecutor() as threads:
            self.servers += threads.map(self.join, (2, 3), self.tokens)
        until(lambda: self.state(1) == "member" and (self.folder(1) / "control.json").exists())

    def state(self, number: int) -> str:
        """Return the state in the file of a node."""
        document = json.loads((self.folder(number) / "fleet" / "fleet.json").read_bytes())
        return str(document["state"])

    def environ_at(self, number: int) -> dict[str, str]:
        """Return an environment whose `svc` uses a node."""
        return {**self.environ, "SVC_URL": self.servers[number - 1].control, "SVC_TOKEN": self.token}

    def restart(self, *numbers: int) -> None:
        """Start nodes whose process has ended."""

        def start(number: int) -> Server:
            with self.at(number):
                return self.servers[number - 1].restarted(self.environ, *self._options)

        with ThreadPoolExecutor() as threads:
            for number, server in zip(numbers, threads.map(start, numbers), strict=True):
                self.servers[number - 1] = server

    def kill(self, *numbers: int) -> None:
        """Kill the processes of nodes."""
        kill_servers([self.servers[number - 1] for number in numbers])

    def close(self) -> None:
        """Kill the services."""
        kill_servers(self.servers)


def kill_servers(servers: Sequence[Server]) -> None:
    """Kill services at once. Their nats-servers end with them."""
    for server in servers:
        server.process.kill()
    for server in servers:
        server.process.communicate()
