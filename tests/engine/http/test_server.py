import asyncio
import contextlib
import socket
import time
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest

from engine.http import timeouts
from engine.http.sockets import PortInUse, bind
from engine.wasm.execution.run_state import GuestRequest, RunReport
from tests.engine.gateway.serving import Scripted, Site, echo, report, with_site
from tests.engine.gateway.test_gateway import PUBLIC_API

HELLO = b"GET / HTTP/1.1\r\nhost: api--shop.localhost\r\nconnection: close\r\n\r\n"
FIELDS = [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "api--shop.localhost")]
KEEP_ALIVE = b"GET / HTTP/1.1\r\nhost: api--shop.localhost\r\n\r\n"


def asking() -> h2.connection.H2Connection:
    """Return a connection that begins with a request."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.initiate_connection()
    connection.send_headers(1, FIELDS, end_stream=True)
    return connection


async def until_ended(port: int, beginning: bytes, *more: bytes) -> bytes:
    """Send the start of a request and then more bytes repeatedly; return the complete response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(beginning)

    async def drip() -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                for part in more:
                    await asyncio.sleep(0.05)
                    writer.write(part)
                    await writer.drain()

    dripping = asyncio.create_task(drip())
    answer = b""
    with contextlib.suppress(ConnectionError):
        while part := await asyncio.wait_for(reader.read(65536), 60):
            answer += part
    dripping.cancel()
    writer.transport.abort()
    return answer


def test_taken_port_raises_with_free_port_in_hint() -> None:
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        port = occupied.getsockname()[1]
        with pytest.raises(PortInUse) as exc_info:
            bind("localhost", port)
    assert str(port) in exc_info.value.message
    assert "--port" in exc_info.value.hint


def test_both_loopback_families_share_free_port() -> None:
    sockets = bind("localhost", 0)
    assert len({opened.getsockname()[1] for opened in sockets}) == 1
    for opened in sockets:
        opened.close()


@pytest.mark.parametrize(
    "bad",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: %s\r\n" % (i, b"y" * 100) for i in range(2000)) + b"\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)
def test_malformed_or_oversized_request_does_not_stop_server(bad: bytes) -> None:
    async def test(site: Site) -> None:
        answer = await site.raw(bad) if not bad.startswith(b"\x16") else b""
        assert answer == b"" or answer.split(b" ")[1].startswith(b"4")
        assert (await site.raw(HELLO)).startswith(b"HTTP/1.1 200")

    with_site([PUBLIC_API], {"api": echo()}, test)


def test_shutdown_ends_open_streams_within_grace_period() -> None:
    async def forever(request: GuestRequest) -> RunReport:
        await request.exchange.send_head(200, [])
        while True:
            await request.exchange.send_body(b"x", end=False)
            await asyncio.sleep(0.01)

    async def test(site: Site) -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(HELLO)
        await reader.readuntil(b"x")
        began = time.perf_counter()
        site.stop.set()
        with contextlib.suppress(ConnectionError):
            while await asyncio.wait_for(reader.read(65536), 60):
                pass
        writer.close()
        return time.perf_counter() - began

    assert with_site([PUBLIC_API], {"api": Scripted(forever)}, test, grace=0.3) < 10


def test_http2_failed_response_resets_stream() -> None:
    async def body(request: GuestRequest) -> RunReport:
        await request.exchange.send_head(200, [])
        await request.exchange.send_body(b"part", end=False)
        return report("guest-failed", 200, complete=False)

    async def test(site: Site) -> list[Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        connection = asking()
        writer.write(connection.data_to_send())
        events: list[Any] = []
        while not any(isinstance(e, h2.events.StreamReset | h2.events.StreamEnded) for e in events):
            data = await asyncio.wait_for(reader.read(65536), 60)
            assert data
            events += connection.receive_data(data)
        writer.close()
        return events

    events = with_site([PUBLIC_API], {"api": Scripted(body)}, test)
    assert any(isinstance(event, h2.events.DataReceived) and event.data == b"part" for event in events)
    assert any(isinstance(event, h2.events.StreamReset) for event in events)


@pytest.mark.parametrize("turns", range(8))
def test_shutdown_during_disconnects_is_clean(turns: int) -> None:
    async def test(site: Site) -> None:
        request = HELLO.replace(b"connection: close\r\n", b"")
        clients = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(20)]
        for reader, writer in clients:
            writer.write(request)
            await reader.readuntil(b"\r\n\r\n")
        for _, writer in clients:
            writer.close()
        for _ in range(turns):
            await asyncio.sleep(0)

    with_site([PUBLIC_API], {"api": echo()}, test)


def test_shutdown_answers_every_request_of_keep_alive_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "SHUTDOWN_NOTICE_SECONDS", 30)

    async def talk(port: int, answered: asyncio.Semaphore) -> bool:
        """Send requests without a pause until a response has `connection: close`."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = b""
        while b"connection: close" not in head:
            writer.write(KEEP_ALIVE)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
            await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r")[0]))
            answered.release()
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        return True

    async def test(site: Site) -> None:
        answered = asyncio.Semaphore(0)
        talks = [asyncio.create_task(talk(site.port, answered)) for _ in range(10)]
        for _ in range(100):
            await answered.acquire()
        site.stop.set()
        assert all(await asyncio.gather(*talks))

    with_site([PUBLIC_API], {"api": echo()}, test, grace=30)


def test_http2_shutdown_sends_goaway_before_requests_end() -> None:
    announced = asyncio.Event()

    async def body(request: GuestRequest) -> RunReport:
        await request.exchange.send_head(200, [])
        await announced.wait()
        await request.exchange.send_body(b"whole", end=True)
        return report(status=200)

    async def test(site: Site) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        connection = asking()
        writer.write(connection.data_to_send())
        events: list[Any] = []
        raw = b""
        while not any(isinstance(event, h2.events.ResponseReceived) for event in events):
            events += connection.receive_data(await asyncio.wait_for(reader.read(65536), 60))
        site.stop.set()
        while GOAWAY not in raw:
            raw += await asyncio.wait_for(reader.readexactly(1), 60)
        announced.set()
        while b"whole" not in raw:
            raw += await asyncio.wait_for(reader.readexactly(1), 60)
        writer.close()

    with_site([PUBLIC_API], {"api": Scripted(body)}, test, grace=30)


@pytest.mark.parametrize("beginning", [b"GET / HTTP/1.1\r\n", KEEP_ALIVE + b"GET / HTTP/1.1\r\n"])
def test_slow_head_closes_connection(beginning: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "HEADER_SECONDS", 1)

    async def test(site: Site) -> None:
        answer = await until_ended(site.port, beginning, b"x: y\r\n")
        assert answer.count(b"HTTP/1.1 200") == beginning.count(b"host:")

    with_site([PUBLIC_API], {"api": echo()}, test)


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
GOAWAY = b"\0\0\x08\7\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0"  # All streams are answered, no error.
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
BLOCK = b"\0\0\1\1\0\0\0\0\1\x82"  # HEADERS of stream 1, one field, no END_HEADERS.
MORE = b"\0\0\1\x09\0\0\0\0\1\x84"  # CONTINUATION, one field, no END_HEADERS.
PING = b"\0\0\x08\6\0\0\0\0\0--------"


@pytest.mark.parametrize(
    ("beginning", "drop"),
    [
        (PREFACE[:-2], b""),
        (PREFACE + SETTINGS[:4], b""),
        (PREFACE + SETTINGS + BLOCK, MORE),
        (PREFACE + SETTINGS + BLOCK[:-1], b""),
    ],
    ids=["preface", "frame", "block", "part of a block"],
)
def test_http2_unfinished_frames_close_connection(
    beginning: bytes, drop: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "HEADER_SECONDS", 1)

    async def test(site: Site) -> None:
        await until_ended(site.port, beginning, drop)

    with_site([PUBLIC_API], {"api": echo()}, test)


def test_http2_frames_without_requests_do_not_extend_idle_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "IDLE_SECONDS", 0.5)

    async def test(site: Site) -> None:
        await until_ended(site.port, PREFACE + SETTINGS, PING[:5], PING[5:])

    with_site([PUBLIC_API], {"api": echo()}, test)


def test_http2_idle_connection_may_exceed_head_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "HEADER_SECONDS", 1)

    async def test(site: Site) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(PREFACE[:9])
        await asyncio.sleep(0)
        writer.write(PREFACE[9:] + SETTINGS)
        await asyncio.sleep(1.2)
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        connection.initiate_connection()
        connection.data_to_send()
        connection.send_headers(1, FIELDS, end_stream=True)
        writer.write(connection.data_to_send())
        events: list[Any] = []
        while not any(isinstance(event, h2.events.StreamEnded) for event in events):
            data = await asyncio.wait_for(reader.read(65536), 60)
            assert data
            events += connection.receive_data(data)
        writer.transport.abort()

    with_site([PUBLIC_API], {"api": echo()}, test)


def test_body_slower_than_head_timeout_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "HEADER_SECONDS", 1)

    async def test(site: Site) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(b"POST / HTTP/1.1\r\nhost: api--shop.localhost\r\ncontent-length: 4\r\n\r\n")
        for byte in (b"a", b"b", b"c", b"d"):
            await asyncio.sleep(0.4)
            writer.write(byte)
        assert (await asyncio.wait_for(reader.readline(), 60)).startswith(b"HTTP/1.1 200")
        writer.transport.abort()

    with_site([PUBLIC_API], {"api": echo()}, test)
