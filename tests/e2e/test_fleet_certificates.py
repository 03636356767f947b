"""Certificates by ACME in a fleet of three nodes, from Pebble."""

import re
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from engine.control.discovery import find_endpoint
from tests.engine.fleet.cluster import free_addresses
from tests.support.fleet import kill_servers, require_nats
from tests.support.pebble import Pebble, authority
from tests.support.service import Server, environ_of, run, static_project
from tests.support.waiting import until
from tests.svc_tui.test_service_acme import handshake, names

pytestmark = pytest.mark.slow(seconds=40)
DOMAIN = "apps.example"


class Nodes:
    """A fleet whose nodes have addresses of their own at the port of the challenges."""

    def __init__(self, root: Path, pebble: Pebble) -> None:
        require_nats()
        self.root, self.pebble, self.environ = root, pebble, environ_of(root / "home")
        self.addresses = free_addresses(3)
        self.servers = [Server(root / "m1", self.environ, *self.options(1))]
        listen = ("--data", str(root / "m1"), "--listen", str(self.addresses[0]))
        started = run(root, self.environ, "fleet", "start", *listen)
        assert started.returncode == 0, started.stderr
        tokens = re.findall(r"SVC_JOIN=(\S+) svc serve --data ", started.stdout)
        with ThreadPoolExecutor() as threads:
            self.servers += threads.map(self.join, (2, 3), tokens)
        until(lambda: (root / "m1" / "control.json").exists() and self.is_ready())

    def options(self, number: int) -> tuple[str, ...]:
        acme = self.pebble.settings
        authority = ("--acme", acme.email, "--acme-directory", acme.directory, "--acme-ca-file", acme.ca_file)
        return (
            "--domain",
            DOMAIN,
            *authority,
            "--acme-http",
            f"{self.address(number)}:{self.pebble.http_port}",
        )

    @staticmethod
    def address(number: int) -> str:
        """Return the address at which a node answers challenges."""
        return f"127.0.0.{number + 1}"

    def join(self, number: int, token: str) -> Server:
        listen = ("--fleet-listen", str(self.addresses[number - 1]))
        environ = {**self.environ, "SVC_JOIN": token}
        return Server(self.root / f"m{number}", environ, *self.options(number), *listen)

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.local(1)[0]}/v1/ready", timeout=60).status_code == 200
        except httpx.TransportError:
            return False

    def local(self, number: int) -> tuple[str, str]:
        """Return URL and token of the control API for programs of a node's machine."""
        endpoint = find_endpoint(self.root / f"m{number}")
        assert endpoint is not None
        return endpoint.url, endpoint.token

    def deploy(self, name: str, number: int) -> None:
        """Deploy a project by a node."""
        url, token = self.local(number)
        project = static_project(self.root / name, name)
        done = run(project, {**self.environ, "SVC_URL": url, "SVC_TOKEN": token}, "deploy")
        assert done.returncode == 0, done.stderr

    def wait_for(self, host: str, expected: set[str], numbers: tuple[int, ...]) -> None:
        """Wait until nodes serve one certificate with these names."""

        def served() -> set[tuple[int, frozenset[str]]]:
            found = [handshake(self.public(number), host) for number in numbers]
            return {(each.serial_number, frozenset(names(each))) for each in found}

        until(lambda: {each for _, each in served()} == {frozenset(expected)})
        assert len(served()) == 1

    def public(self, number: int) -> str:
        return f"https://127.0.0.1:{self.servers[number - 1].port}"


@pytest.fixture
def pebble(cache: Path, tmp_path: Path) -> Iterator[Pebble]:
    with authority(cache, tmp_path / "pebble", address=Nodes.address(1)) as running:
        yield running


def test_one_node_orders_any_node_answers_and_all_serve_the_certificate(
    pebble: Pebble, tmp_path: Path
) -> None:
    nodes = Nodes(tmp_path, pebble)
    try:
        # DNS leads to the node that orders, to another one, and to the third one while the first is down.
        for count, (answering, deploying, serving) in enumerate(
            [(1, 1, (1, 2, 3)), (2, 1, (1, 2, 3)), (3, 2, (2, 3))], 1
        ):
            if count == 3:
                nodes.servers[0].process.kill()
            name, host = f"p{count}", f"web--p{count}.{DOMAIN}"
            pebble.resolve(Nodes.address(answering))
            nodes.deploy(name, deploying)
            nodes.wait_for(host, {host, f"{name}.{DOMAIN}"}, serving)
            trusting = ssl.create_default_context(cadata=pebble.root())
            with httpx.Client(verify=trusting, timeout=60) as client:
                for each in serving:
                    request = client.build_request("GET", nodes.public(each), headers={"host": host})
                    request.extensions["sni_hostname"] = host
                    assert client.send(request).text == "one"
        # Not the requests: Pebble refuses some good nonces, and svc repeats those.
        assert pebble.log().count("Added order ") == 4
    finally:
        kill_servers(nodes.servers)
