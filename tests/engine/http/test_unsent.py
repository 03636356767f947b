"""Unsent bytes of clients that do not read are bounded by connection, address and project."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.settings
import pytest

from engine.http import buffered, server
from engine.http.buffered import CONNECTION_BYTES, PROJECT_BYTES, SMALL_PART_BYTES
from engine.http.connection_limits import ConnectionLimiter
from engine.http.h2 import Http2Connection
from engine.wasm.execution.memory_budget import ResidentSet
from engine.wasm.execution.run_state import GuestRequest, RunReport
from tests.engine.exchanges import PLAIN
from tests.engine.gateway.serving import Scripted, Site, reply, report, with_site
from tests.engine.gateway.test_gateway import PUBLIC_API
from tests.engine.http.test_server import FIELDS
from tests.engine.limits.hosted import until

HOST = "api--shop.localhost"
CHUNK = os.urandom(256 << 10)
CHUNKS = 8
STREAMS = 90
CONNECTIONS = 10
MIB = 1 << 20
REQUEST = f"GET / HTTP/1.1\r\nhost: {HOST}\r\n\r\n".encode()


async def large(request: GuestRequest) -> RunReport:
    """Respond with 2 MiB in chunks as large as a guest's output buffer, or with a line at `/small`."""
    if request.target == "/small":
        return await reply(request, b"small")
    await request.exchange.send_head(200, [])
    for number in range(CHUNKS):
        await request.exchange.send_body(CHUNK, end=number == CHUNKS - 1)
    return report()


class Servers(list[server.Server]):
    """The servers of a test, with the unsent bytes that they count."""

    @property
    def project(self) -> int:
        return sum(count.size for each in self for count in each.unsent._projects.values())

    @property
    def address(self) -> int:
        return sum(count.size for each in self for count in each.unsent._addresses.values())

    @property
    def streams(self) -> list[Any]:
        """The exchanges of HTTP/2 connections."""
        connections = [
            each for server in self for each in server._connections if isinstance(each, Http2Connection)
        ]
        return [exchange for each in connections for exchange in each.streams.values()]


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    created = Servers()

    class Spied(server.Server):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            created.append(self)

    monkeypatch.setattr(server, "Server", Spied)
    return created


async def stalled_http2(port: int, streams: int = STREAMS, path: str = "/") -> asyncio.StreamWriter:
    """Open a connection whose streams have windows of zero, and send a request on each."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.initiate_connection()
    connection.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    for number in range(streams):
        fields = [field if field[0] != ":path" else (":path", path) for field in FIELDS]
        connection.send_headers(1 + 2 * number, fields, end_stream=True)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(connection.data_to_send())
    return writer


async def stalled_http1(port: int) -> asyncio.StreamWriter:
    """Open a connection with a small receive buffer, send a request, and read nothing."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.setblocking(False)
    await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", port))
    _, writer = await asyncio.open_connection(sock=opened, limit=1)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(REQUEST)
    return writer


async def settled(measure: Callable[[], int]) -> int:
    """Return a number once it has stopped to change."""
    values = [-1, -2, -3]
    while len(set(values[-3:])) > 1:
        await asyncio.sleep(0.1)
        for _ in range(100):  # If the machine stopped this process meanwhile, nothing was sent.
            await asyncio.sleep(0)
        values.append(measure())
    return values[-1]


async def read_all(site: Site) -> bytes:
    return (await site.ask("/", HOST)).content


def serve(test: Callable[[Site], Awaitable[Any]], **options: Any) -> Any:
    return with_site([PUBLIC_API], {"api": Scripted(large)}, test, **options)


def test_windows_of_zero_bound_the_bytes_of_their_connections(servers: Servers) -> None:
    resident = ResidentSet()

    async def test(site: Site) -> tuple[int, int, int, float, bytes]:
        before, slowest = resident.read(), 0.0
        writers = [await stalled_http2(site.port) for _ in range(CONNECTIONS)]
        while len(servers.streams) < CONNECTIONS * STREAMS:
            began = time.thread_time()
            assert (await site.ask("/small", HOST)).content == b"small"
            slowest = max(slowest, time.thread_time() - began)
        size = await settled(lambda: servers.project)
        buffered = sum(exchange.unsent._buffered for exchange in servers.streams)
        grown, body = resident.read() - before, await read_all(site)
        for writer in writers:
            writer.transport.abort()
        await settled(lambda: servers.project)
        assert servers.project == 0
        assert buffered == size
        return size, buffered, grown, slowest, body

    size, _, grown, slowest, body = serve(test)
    assert body == CHUNK * CHUNKS
    assert 0 < size <= CONNECTIONS * (CONNECTION_BYTES + len(CHUNK) + STREAMS * SMALL_PART_BYTES)
    assert grown < 80 * MIB  # Buffers of 256 KiB for each stream took 230 MB.
    assert slowest < 1  # seconds of CPU time


@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("scope", ["address", "project"])
def test_clients_that_do_not_read_share_the_limit_of_address_and_project(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, version: str, scope: str
) -> None:
    limit, clients = MIB, 60 if version == "1.1" else CONNECTIONS
    monkeypatch.setattr(buffered, f"{scope.upper()}_BYTES", limit)

    async def test(site: Site) -> tuple[int, bytes]:
        open_client = stalled_http1 if version == "1.1" else stalled_http2
        writers = [await open_client(site.port) for _ in range(clients)]
        size = await settled(lambda: getattr(servers, scope))
        body = await read_all(site)
        for writer in writers:
            writer.transport.abort()
        await settled(lambda: getattr(servers, scope))
        assert getattr(servers, scope) == 0
        return size, body

    size, body = serve(test, limiter=ConnectionLimiter(local_is_free=False))
    assert body == CHUNK * CHUNKS
    responses = clients if version == "1.1" else clients * STREAMS
    assert (
        limit
        < size
        <= limit
        + len(CHUNK)
        + responses * SMALL_PART_BYTES
        + (clients * (64 << 10) if version == "1.1" else 0)
    )


def test_large_file_is_read_ahead_for_clients_that_read(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from engine.artifact import FolderArtifact
    from engine.gateway.static.responder import StaticResponder

    content = os.urandom(4 * MIB)
    (tmp_path / "large.bin").write_bytes(content)
    monkeypatch.setattr(buffered, "PROJECT_BYTES", MIB)

    async def test(site: Site) -> tuple[int, bytes]:
        writers = [await stalled_http2(site.port, path="/large.bin") for _ in range(CONNECTIONS)]
        size = await settled(lambda: servers.project)
        body = (await site.ask("/large.bin", HOST)).content
        for writer in writers:
            writer.transport.abort()
        await settled(lambda: servers.project)
        assert servers.project == 0
        return size, body

    size, body = with_site([PUBLIC_API], {"api": StaticResponder(FolderArtifact(tmp_path), PLAIN)}, test)
    assert body == content
    # A file is read ahead by up to 1 MiB; 900 of them took as many MiB.
    assert size <= MIB + MIB + CONNECTIONS * STREAMS * 2 * SMALL_PART_BYTES < PROJECT_BYTES


def test_failed_response_with_a_window_of_zero_leaves_no_buffer(servers: Servers) -> None:
    async def failing(request: GuestRequest) -> RunReport:
        await request.exchange.send_head(200, [])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await request.exchange.send_body(CHUNK, end=False)
        return report("guest-failed", 200, complete=False)

    async def test(site: Site) -> None:
        writer = await stalled_http2(site.port)
        await until(lambda: bool(servers.streams))
        await until(lambda: not servers.streams)
        assert servers.project == 0
        writer.transport.abort()

    with_site([PUBLIC_API], {"api": Scripted(failing)}, test)
