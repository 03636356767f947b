"""Supervision of nats-server, on clusters of their own."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.bucket.protocols import Bucket
from engine.fleet.errors import NatsServerFailed
from engine.fleet.nats_server import LOG, NatsServer, configuration
from tests.engine.bucket.conftest import Use
from tests.engine.fleet.cluster import Cluster, create_nodes, process_state
from tests.support.blobs import put
from tests.support.waiting import until

PARENT = """
import asyncio, sys
from pathlib import Path
from engine.fleet.nats_server import NatsServer
from tests.engine.bucket.conftest import Use
from tests.engine.fleet.cluster import create_nodes

async def main():
    server = NatsServer(create_nodes(Path(sys.argv[1]), 3)[0][0], lambda level, line: None)
    await server.start()
    print(server.pid, flush=True)
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
    before = node.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    until(lambda: node.pid != before)
    cluster.wait()
    assert any(f"nats-server {node.settings.name} ended" in line for line in cluster.log)
    assert (node.settings.folder / LOG).read_text().count("Server is ready") >= 2


def test_configuration_encrypts_store_without_containing_the_key(cluster: Cluster) -> None:
    for settings in cluster.settings:
        assert settings.store_key not in configuration(settings)
        assert settings.store_key not in (settings.folder / "nats.conf").read_text()


def test_store_has_no_value_in_clear(cluster: Cluster, use: Use) -> None:
    secret = b"secret value of a test"

    async def scenario(bucket: Bucket) -> None:
        assert isinstance(await bucket.kv.cas("secrets/a", secret, None), int)
        await put(bucket.blobs, secret)

    use(scenario)
    files = [path for node in cluster.settings for path in node.folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".blk" for path in files)
    assert not [path for path in files if secret in path.read_bytes()]


def test_lone_node_of_a_cluster_reports_that_it_is_not_healthy(cluster: Cluster, tmp_path: Path) -> None:
    async def main() -> None:
        settings, _ = create_nodes(tmp_path, 3)
        server = NatsServer(settings[0], lambda level, line: None)
        await server.start()
        try:
            with pytest.raises(NatsServerFailed, match=r"nats-server n1-.* was not healthy within 0\.5 s"):
                await server.ready(0.5)
        finally:
            await server.stop()

    asyncio.run(main())
