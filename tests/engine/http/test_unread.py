"""Unread bytes of request bodies: an application that does not read them stops their clients."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest

from engine.http import buffered
from engine.http.buffered import CONNECTION_BYTES, SMALL_PART_BYTES
from engine.http.connection_limits import ConnectionLimiter
from engine.http.exchange import BODY_BYTES
from engine.wasm.execution.run_state import GuestRequest, RunReport
from tests.engine.gateway.serving import Scripted, Site, reply, report, with_site
from tests.engine.gateway.test_gateway import PUBLIC_API
from tests.engine.http.test_server import FIELDS
from tests.engine.http.test_unsent import HOST, MIB, Servers, servers, settled
from tests.engine.limits.hosted import until

__all__ = ["servers"]
STREAMS = 90
PART_BYTES = {"1.1": 256 << 10, "2": SMALL_PART_BYTES + (64 << 10)}
"""Bytes that are received before a client is throttled: as many are read at once."""
FULL_BYTES = {"1.1": BODY_BYTES, "2": 60 << 10}
"""Bytes that are buffered at least of one unread body, without other clients."""
HEAD = f"POST / HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: {4 * MIB}\r\n\r\n".encode()
POST = [(name, "POST" if name == ":method" else value) for name, value in FIELDS]


class Client:
    """An HTTP/2 client that sends bodies as far as the windows of the server allow."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self._unsent: dict[int, int] = {}
        self.received: dict[int, int] = {}
        self.ended = 0
        self.sent = 0

    @classmethod
    async def connect(cls, port: int) -> "Client":
        client = cls(*await asyncio.open_connection("127.0.0.1", port))
        client._connection.initiate_connection()
        client._connection.increment_flow_control_window(32 * MIB)
        return client

    def post(self, size: int, path: str = "/") -> None:
        """Start a request with a body of this size."""
        stream = self._connection.get_next_available_stream_id()
        fields = [(name, path if name == ":path" else value) for name, value in POST]
        self._connection.send_headers(stream, fields, end_stream=not size)
        self._unsent[stream] = size
        self._send()

    async def run(self, responses: int) -> None:
        """Send and receive until so many responses have ended."""
        while self.ended < responses:
            data = await self._reader.read(65536)
            assert data, "the server closed the connection"
            for event in self._connection.receive_data(data):
                if isinstance(event, h2.events.DataReceived):
                    stream = event.stream_id
                    self.received[stream] = self.received.get(stream, 0) + len(event.data)
                    self._connection.acknowledge_received_data(event.flow_controlled_length, stream)
                elif isinstance(event, h2.events.StreamEnded):
                    self.ended += 1
            self._send()

    def _send(self) -> None:
        for stream, size in self._unsent.items():
            while size:
                window = self._connection.local_flow_control_window(stream)
                part = min(size, window, self._connection.max_outbound_frame_size)
                if not part:
                    break
                size -= part
                self._connection.send_data(stream, b"x" * part, end_stream=not size)
                self.sent += part
            self._unsent[stream] = size
        self.writer.write(self._connection.data_to_send())


async def echo(request: GuestRequest) -> RunReport:
    """Send each part of the body once it was received."""
    await request.exchange.send_head(200, [])
    while part := await request.exchange.body.read():
        await request.exchange.send_body(part, end=False)
    await request.exchange.send_body(b"", end=True)
    return report()


async def unread(request: GuestRequest) -> RunReport:
    """Read nothing until the client leaves, except at `/read`."""
    body = request.exchange.body
    if request.target == "/read":
        while await body.read():
            pass
        return await reply(request, b"read")
    if request.target == "/small":
        return await reply(request, b"small")
    await request.exchange.disconnected.wait()
    return report("client-gone", None)


def serve(
    body: Callable[[GuestRequest], Awaitable[RunReport]], test: Callable[[Site], Awaitable[Any]]
) -> Any:
    limiter = ConnectionLimiter(local_is_free=False)
    return with_site([PUBLIC_API], {"api": Scripted(body)}, test, limiter=limiter, max_body=8 * MIB)


def test_echo_of_a_body_beyond_all_windows_ends() -> None:
    async def test(site: Site) -> Client:
        client = await Client.connect(site.port)
        client.post(4 * MIB)
        async with asyncio.timeout(60):
            await client.run(1)
        client.writer.close()
        return client

    client = serve(echo, test)
    assert list(client.received.values()) == [4 * MIB]


def test_unread_body_stops_its_stream_and_no_other(servers: Servers) -> None:
    async def test(site: Site) -> Client:
        client = await Client.connect(site.port)
        client.post(4 * MIB)
        client.post(4 * MIB, "/read")
        client.post(0, "/small")
        async with asyncio.timeout(60):
            await client.run(2)
        assert 0 < unread_bytes(servers, "project") <= BODY_BYTES
        reset(client.writer)
        await until(lambda: not unread_bytes(servers, "project"))
        return client

    client = serve(unread, test)
    assert client.received == {3: len(b"read"), 5: len(b"small")}


def test_unread_bodies_of_a_connection_are_bounded(servers: Servers) -> None:
    async def test(site: Site) -> int:
        client = await Client.connect(site.port)
        for _ in range(STREAMS):
            client.post(4 * MIB)
        task = asyncio.create_task(client.run(1))
        size = await settled(lambda: unread_bytes(servers, "project"))
        task.cancel()
        reset(client.writer)
        return size

    assert BODY_BYTES < serve(unread, test) <= CONNECTION_BYTES


@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("scope", ["address", "project"])
def test_unread_bodies_share_the_limit_of_address_and_project(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, version: str, scope: str
) -> None:
    limit, clients = MIB, 60
    monkeypatch.setattr(buffered, f"{scope.upper()}_BYTES", limit)

    async def test(site: Site) -> tuple[int, str]:
        writers = []
        for _ in range(clients):
            if version == "2":
                client = await Client.connect(site.port)
                client.post(4 * MIB)
                writers.append(client.writer)
            else:
                _, writer = await asyncio.open_connection("127.0.0.1", site.port)
                writer.write(HEAD + bytes(4 * MIB))
                writers.append(writer)
        size = await settled(lambda: unread_bytes(servers, scope))
        read = await site.ask("/read", HOST, "POST", content=bytes(4 * MIB))
        for writer in writers[1:]:
            reset(writer)
        await until(lambda: unread_bytes(servers, scope) <= BODY_BYTES + PART_BYTES[version])
        await until(lambda: unread_bytes(servers, scope) > FULL_BYTES[version])
        reset(writers[0])
        await until(lambda: not unread_bytes(servers, scope))
        return size, read.text

    size, read = serve(unread, test)
    assert read == "read"
    assert limit < size <= limit + clients * PART_BYTES[version]


def reset(writer: asyncio.StreamWriter) -> None:
    """Reset a connection: its end would wait behind the bytes that the server does not read."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def unread_bytes(servers: Servers, scope: str) -> int:
    """Return the unread bytes of the addresses or of the projects."""
    counts = [each.unread._projects if scope == "project" else each.unread._addresses for each in servers]
    return sum(count.size for each in counts for count in each.values())
