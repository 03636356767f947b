"""The ports of a fleet: strangers, members of another fleet, and members beyond their rights."""

import asyncio
import json
import socket
import ssl
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.certificates.private import Issuer
from engine.fleet.connection import NatsConnection
from engine.fleet.errors import ClusterRefused, Unavailable
from engine.fleet.nats_server import NatsServer
from engine.fleet.node import AUTHORITY, AUTHORITY_KEY, CERTIFICATE, CLIENT, KEY, SYSTEM, NodeAddress
from engine.http.tls import Certificate, IssuedCertificate
from tests.engine.fleet.cluster import Cluster, free_addresses

STRANGERS = {"no certificate": None, "another fleet's": "other", "another fleet's of the same name": "test"}


def stored(folder: Path, pair: IssuedCertificate) -> tuple[Path, Path]:
    """Write a certificate and its key; return their paths."""
    (folder / CERTIFICATE).write_text(pair.chain)
    (folder / KEY).write_text(pair.key)
    return folder / CERTIFICATE, folder / KEY


def spoken(address: NodeAddress, pair: tuple[Path, Path] | None, *, greeted: bool) -> bytes:
    """Return what a port sends after a TLS handshake and a command. `greeted` is for a greeting before."""
    tls = ssl._create_unverified_context()
    if pair is not None:
        tls.load_cert_chain(*pair)
    with socket.create_connection(address, 30) as plain:
        if greeted:
            assert plain.recv(10_000).startswith(b"INFO")
        with suppress(OSError), tls.wrap_socket(plain) as encrypted:
            encrypted.sendall(b"PING\r\n")
            return encrypted.recv(10_000)
    return b""


@pytest.mark.parametrize("fleet", STRANGERS.values(), ids=STRANGERS.keys())
def test_ports_of_data_and_routes_say_nothing_to_strangers(
    cluster: Cluster, tmp_path: Path, fleet: str | None
) -> None:
    server = cluster.nodes[0]
    node, folder = server.node, server.folder.parent
    pair = fleet and stored(tmp_path, Issuer.create(fleet).issue(node.node, "127.0.0.1"))
    assert spoken(node.address, pair or None, greeted=True) == b""
    assert spoken(node.address.route, pair or None, greeted=False) == b""
    own = folder / CERTIFICATE, folder / KEY
    assert spoken(node.address, own, greeted=True) == b"-ERR 'Authorization Violation'\r\n"
    assert spoken(node.address.route, own, greeted=False).startswith(b"INFO")


def test_member_with_the_password_of_another_fleet_is_refused(cluster: Cluster) -> None:
    address = replace(cluster.address, password="other")
    with pytest.raises(ClusterRefused, match="cannot connect to the fleet at 127"):
        asyncio.run(NatsConnection.open(address))


@pytest.mark.parametrize(
    "subject",
    [
        "$SYS.REQ.SERVER.PING",
        "$SYS.REQ.USER.INFO.other",
        "$JS.API.SERVER.REMOVE",
        "$JS.API.ACCOUNT.PURGE.SVC",
    ],
)
def test_member_reaches_no_subject_of_the_system(cluster: Cluster, subject: str) -> None:
    async def main() -> None:
        connection = await NatsConnection.open(cluster.address)
        try:
            with suppress(Unavailable):
                content = json.dumps({"peer": cluster.nodes[2].node.node}).encode()
                assert await connection.call(subject, content, 0.5) is None
        finally:
            await connection.aclose()

    asyncio.run(main())
    cluster.wait()


def test_agent_cannot_add_a_server_to_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """An agent has a certificate of the fleet, but no key of its authority."""
    server, (address,) = cluster.nodes[0], free_addresses(1)
    folder = server.folder.parent
    authority = Issuer(Certificate(folder / AUTHORITY, folder / AUTHORITY_KEY).load())
    stored(tmp_path, authority.issue("n4-agent", "127.0.0.1"))
    (tmp_path / AUTHORITY).write_bytes((folder / AUTHORITY).read_bytes())
    for name in (AUTHORITY_KEY, CLIENT, SYSTEM):
        (tmp_path / name).write_text("a guess")
    forged = replace(server.node, node="n4-agent", address=address)

    def routes() -> list[str]:
        document: Any = httpx.get(
            f"http://{server.node.address.monitor}/routez", trust_env=False, timeout=60
        ).json()
        return [each["remote_name"] for each in document["routes"]]

    async def main() -> None:
        log: list[str] = []
        agent = NatsServer(tmp_path, forged, lambda level, line: log.append(line))
        await agent.start()
        try:
            async with asyncio.timeout(60):
                while not agent.listening or not (log or "n4-agent" in routes()):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert "n4-agent" not in routes()
        finally:
            await agent.kill()

    asyncio.run(main())
