"""Supervision of nats-server, on clusters of their own."""

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from engine.bucket.protocols import Bucket
from engine.fleet.errors import NatsServerFailed
from engine.fleet.nats_server import ERROR_REPORTS, LOG, SHOWN_ATTEMPTS, NatsServer, is_shown
from tests.engine.fleet.cluster import Cluster, create_nodes, pid_of, process_state
from tests.support.blobs import put
from tests.support.buckets import Use
from tests.support.full_disk import on_small_disk
from tests.support.waiting import until

PARENT = """
import asyncio, sys
from pathlib import Path
from engine.fleet.nats_server import NatsServer
from tests.engine.fleet.cluster import create_nodes, pid_of

async def main():
    server = NatsServer(*create_nodes(Path(sys.argv[1]), 3)[0][0], lambda level, line: None)
    await server.start()
    print(pid_of(server), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_server_ends_when_its_parent_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path], stdout=subprocess.PIPE, cwd=Path.cwd()
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    until(lambda: "nats-server" in process_state(pid))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: process_state(pid) == "gone")


def test_killed_server_restarts_and_becomes_healthy(cluster: Cluster) -> None:
    node = cluster.nodes[2]
    before = pid_of(node)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    until(lambda: pid_of(node) != before)
    cluster.wait()
    assert any(f"nats-server {node.node.node} ended" in line for line in cluster.log)
    assert (node.folder / LOG).read_text().count("Server is ready") >= 2


def test_missing_node_is_not_reported_at_each_attempt_to_connect(cluster: Cluster) -> None:
    node = cluster.nodes[2]
    for _ in range(3):  # Each pause before a restart is longer.
        before = pid_of(node)
        assert before is not None
        os.kill(before, signal.SIGKILL)
        until(lambda before=before: pid_of(node) != before)  # type: ignore[misc]
    cluster.wait()
    assert not [line for line in cluster.log if "(attempt 2)" in line]


def test_client_that_only_checks_the_port_is_not_reported(cluster: Cluster) -> None:
    address = cluster.nodes[0].node.address
    socket.create_connection((address.host, address.port)).close()
    without_certificate = ssl._create_unverified_context()
    with socket.create_connection((address.host, address.port), timeout=30) as client:
        assert client.recv(10_000).startswith(b"INFO")
        with suppress(OSError), without_certificate.wrap_socket(client) as encrypted:
            encrypted.recv(1)
    until(lambda: any("TLS handshake error" in line for line in cluster.log))
    assert not [line for line in cluster.log if line.endswith(("EOF", "reset by peer"))]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("[7] 2026/11/26 06:18:47 [ERR] [::1]:15 - rid:1 - Error flushing: connection reset by peer", False),
        ("[7] 2026/11/26 06:18:47 [ERR] [::1]:15 - cid:3 - Error flushing: broken pipe", False),
        ("[7] 2026/11/26 06:18:47 [ERR] [::1]:15 - cid:3 - TLS handshake error: unexpected EOF", False),
        ("[7] 2026/11/26 06:18:47 [ERR] Error trying to connect to route (attempt 2): dial tcp", False),
        ("[7] 2026/11/26 06:18:47 [ERR] Error trying to connect to route (attempt 10): dial tcp", True),
        ("[7] 2026/11/26 06:18:47 [ERR] [::1]:15 - cid:3 - TLS handshake error: tls: bad certificate", True),
        ("[7] 2026/11/26 06:18:47 [ERR] JetStream out of File resources, will be DISABLED", True),
    ],
)
def test_errors_of_servers_that_start_together_are_not_forwarded(line: str, shown: bool) -> None:
    assert is_shown(line) == shown


def test_servers_report_the_attempts_that_are_forwarded() -> None:
    assert all(attempt % ERROR_REPORTS == 0 for attempt in SHOWN_ATTEMPTS)


def test_configuration_encrypts_store_without_containing_the_key(cluster: Cluster) -> None:
    for each in cluster.nodes:
        assert each.node.store_key not in (each.folder / "nats.conf").read_text()


def test_store_has_no_value_in_clear(cluster: Cluster, use: Use) -> None:
    secret = b"secret value of a test"

    async def scenario(bucket: Bucket) -> None:
        assert isinstance(await bucket.kv.cas("secrets/a", secret, None), int)
        await put(bucket.blobs, secret)

    use(scenario)
    contents: dict[Path, bytes] = {}
    for path in (path for node in cluster.nodes for path in node.folder.rglob("*")):
        with suppress(IsADirectoryError, FileNotFoundError):  # The server replaces its files meanwhile.
            contents[path] = path.read_bytes()
    assert any(path.suffix == ".blk" for path in contents)
    assert not [path for path, content in contents.items() if secret in content]


def test_lone_node_of_a_cluster_reports_that_it_is_not_healthy(cluster: Cluster, tmp_path: Path) -> None:
    async def main() -> None:
        nodes, _ = create_nodes(tmp_path, 3)
        server = NatsServer(*nodes[0], lambda level, line: None)
        await server.start()
        try:
            with pytest.raises(NatsServerFailed, match=r"nats-server n1-.* was not healthy within 0\.5 s"):
                await server.ready(0.5)
        finally:
            await server.stop()

    asyncio.run(main())


@pytest.mark.slow
def test_server_with_a_full_disk_catches_up_once_there_is_space(cluster: Cluster, tmp_path: Path) -> None:
    """`cluster` skips the test without nats-server. The majority stores values meanwhile."""
    on_small_disk("tests.engine.fleet.full_disk", tmp_path, "small", 64)
