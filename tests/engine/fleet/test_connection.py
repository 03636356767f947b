"""Connections to the nats-servers of a fleet: credentials, and servers that svc cannot use."""

import asyncio
import os
import signal
import ssl
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from engine.bucket.protocols import BucketClosed
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.connection import ClusterAddress, NatsConnection, Patience
from engine.fleet.errors import ClusterRefused, FleetNotInstalled, NatsServerFailed, UnsuitableCluster
from engine.fleet.nats_server import NatsServer, find_program
from engine.fleet.node import AUTHORITY
from tests.engine.fleet.cluster import Cluster, create_nodes, free_ports, pid_of


@pytest.mark.parametrize("missing", ["password", "certificate"])
def test_client_without_credentials_is_refused(cluster: Cluster, missing: str) -> None:
    address = cluster.address
    tls = ssl.create_default_context(cafile=cluster.nodes[0].folder.parent / AUTHORITY)
    if missing == "password":
        address = ClusterAddress(servers=address.servers, tls=address.tls)
    else:
        address = ClusterAddress(
            servers=address.servers, tls=tls, user=address.user, password=address.password
        )
    with pytest.raises(ClusterRefused, match="cannot connect to the fleet at 127"):
        asyncio.run(NatsConnection.open(address))


def test_unreachable_cluster_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nats")
    monkeypatch.setattr("engine.fleet.connection.CONNECT_SECONDS", 0.5)
    url = f"nats://127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(ClusterRefused) as caught:
        asyncio.run(JetStreamBucket.open(ClusterAddress(servers=(url,)), "svc", Path()))
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
    monkeypatch.setattr("engine.fleet.connection.CONNECT_SECONDS", 3)

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
        server = NatsServer(*nodes[0], lambda level, line: None)
        await server.start()
        connection = await NatsConnection.open(address)
        await server.kill()
        asking = asyncio.ensure_future(connection.api("INFO", {}))
        await asyncio.sleep(0.5)
        await connection.aclose()
        with pytest.raises(BucketClosed):
            await asking

    asyncio.run(main())


def test_request_without_an_answer_is_repeated_when_its_server_ends(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        servers = cluster.address.servers
        first = await NatsConnection.open(cluster.address)
        second = await NatsConnection.open(replace(cluster.address, servers=servers[1:]))
        questions = await second.subscribe("test-question")
        await second.flush()
        monkeypatch.setattr("engine.fleet.connection.TRY_SECONDS", 600)
        asking = asyncio.ensure_future(first.request("test-question", b"", Patience("a question")))
        await questions.next_msg(60)
        pid = pid_of(cluster.nodes[0])
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        repeated = await questions.next_msg(60)
        await second.publish(repeated.reply, b'{"answered": true}')
        assert await asking == {"answered": True}
        for each in (first, second):
            await each.aclose()
        await asyncio.to_thread(cluster.wait)

    asyncio.run(main())


def test_older_nats_server_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NatsConnection, "server_version", (2, 11))
    with pytest.raises(UnsuitableCluster, match=r"runs nats-server 2\.11") as caught:
        asyncio.run(JetStreamBucket.open(cluster.address, "svc", Path()))
    assert "2.12 or newer" in caught.value.hint


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
