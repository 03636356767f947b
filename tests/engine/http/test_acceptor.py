import asyncio
import contextlib
import socket
import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from engine.files.reserve import fd_limit
from engine.http import acceptor, timeouts
from engine.http.asgi import asgi_handler
from engine.http.connection_limits import ConnectionLimiter
from engine.http.exchange import Exchange
from engine.http.server import serve
from engine.http.sockets import bind
from engine.http.tls import Certificate
from tests.engine.gateway.serving import Site, echo, with_site
from tests.engine.gateway.test_gateway import PUBLIC_API
from tests.support.certificates import self_signed

KEEP_ALIVE = b"GET / HTTP/1.1\r\nhost: api--shop.localhost\r\n\r\n"


async def unused(exchange: Exchange) -> None:
    raise AssertionError("no request was sent")


Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def ask(client: Client) -> bytes:
    """Return the status line of a response, or empty bytes if the connection was closed."""
    reader, writer = client
    try:
        writer.write(KEEP_ALIVE)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
        await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r")[0]))
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    return head.partition(b"\r\n")[0]


def test_acceptor_at_address_limit_closes_further_connections() -> None:
    async def test(site: Site) -> None:
        clients = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(4)]
        assert [await ask(client) for client in clients] == [b"HTTP/1.1 200 "] * 3 + [b""]
        for _, writer in clients[:1] + clients[3:]:
            writer.close()
        while not await ask(another := await asyncio.open_connection("127.0.0.1", site.port)):
            another[1].close()
        for _, writer in [*clients[1:3], another]:
            writer.close()

    with_site([PUBLIC_API], {"api": echo()}, test, limiter=ConnectionLimiter(3, local_is_free=False))


def test_acceptor_at_file_limit_accepts_waiting_connections_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "FD_SHARE", fd_limit() // 2)

    async def test(site: Site) -> None:
        clients = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(6)]
        first = [asyncio.create_task(ask(client)) for client in clients]
        for task, (_, writer) in zip(first, clients, strict=True):
            assert await task == b"HTTP/1.1 200 "
            writer.close()

    with_site([PUBLIC_API], {"api": echo()}, test)


def test_connection_canceled_before_its_set_up_began_is_closed() -> None:
    async def main() -> None:
        limiter = ConnectionLimiter(1, local_is_free=False)
        sockets = bind("127.0.0.1", 0)
        accepting = acceptor.Acceptor(sockets, lambda release: asyncio.Protocol(), tls=None, limiter=limiter)
        accepting.start()
        with socket.create_connection(sockets[0].getsockname(), 30) as client:
            while not accepting.tasks:  # noqa: ASYNC110
                await asyncio.sleep(0)
            tasks = [*accepting.tasks]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert client.recv(1) == b""
        assert limiter.acquire("127.0.0.1")
        accepting.stop()

    asyncio.run(main())


def test_unfinished_tls_handshake_is_counted_and_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "HEADER_SECONDS", 0.3)

    async def main() -> None:
        stop, sockets = asyncio.Event(), bind("127.0.0.1", 0)
        port = sockets[0].getsockname()[1]
        limiter = ConnectionLimiter(1, local_is_free=False)
        certificate = Certificate(*self_signed(tmp_path))
        server = asyncio.create_task(
            serve(unused, sockets, stop=stop, grace=0.2, tls=certificate.load().context(), limiter=limiter)
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x16\x03\x01")
        second = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(second[0].read(), 60) == b""
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        second[1].close()
        stop.set()
        await server

    asyncio.run(main())


def client_hello() -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    sent = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="a.example").do_handshake()
    return sent.read()


def test_stalled_tls_handshakes_time_out_and_delay_no_other_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handshakes that stop at each step, or continue byte by byte."""
    monkeypatch.setattr(timeouts, "HEADER_SECONDS", 2)
    hello = client_hello()
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE

    async def stall(port: int, beginning: bytes, rest: bytes) -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = time.monotonic()
        writer.write(beginning)
        reading = asyncio.ensure_future(reader.read(-1))
        for at in range(len(rest)):
            done, _ = await asyncio.wait([reading], timeout=0.05)
            if done:
                break
            writer.write(rest[at : at + 1])
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reading, 60)
        writer.close()
        return time.monotonic() - began

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def main() -> None:
        stop, sockets = asyncio.Event(), bind("127.0.0.1", 0)
        port = sockets[0].getsockname()[1]
        certificate = Certificate(*self_signed(tmp_path))
        server = asyncio.create_task(
            serve(asgi_handler(app), sockets, stop=stop, grace=0.2, tls=certificate.load().context())
        )
        # With the complete hello, the server has answered and waits for the client's last message.
        steps = [
            (b"", b""),
            (hello[:1], b""),
            (hello[:5], b""),
            (hello[: len(hello) // 2], b""),
            (hello, b""),
        ]
        stalled = asyncio.gather(*(stall(port, *step) for step in [*steps * 8, (b"", hello), (hello, hello)]))
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
        writer.write(KEEP_ALIVE)
        assert await asyncio.wait_for(reader.readexactly(12), 60) == b"HTTP/1.1 200"
        assert not stalled.done()
        writer.close()
        assert max(await stalled) < 20  # Byte by byte, a hello takes longer.
        stop.set()
        await server

    asyncio.run(main())


def test_unconfirmed_tls_shutdown_does_not_delay_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "CLOSE_SECONDS", 0.2)
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE

    def ask(port: int) -> ssl.SSLSocket:
        client = trust.wrap_socket(socket.create_connection(("127.0.0.1", port), 30))
        client.sendall(KEEP_ALIVE)
        assert client.recv(12) == b"HTTP/1.1 200"
        return client

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def main() -> list[dict[str, Any]]:
        faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
        stop, sockets = asyncio.Event(), bind("127.0.0.1", 0)
        port = sockets[0].getsockname()[1]
        certificate = Certificate(*self_signed(tmp_path))
        server = asyncio.create_task(
            serve(asgi_handler(app), sockets, stop=stop, grace=600, tls=certificate.load().context())
        )
        client = await asyncio.to_thread(ask, port)
        stop.set()
        await asyncio.wait_for(server, 60)
        client.close()
        return faults

    assert asyncio.run(main()) == []
