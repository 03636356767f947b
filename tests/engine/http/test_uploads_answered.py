"""Responses to HTTP/1.1 uploads: before, without and after reading the body."""

import asyncio
import contextlib
from typing import Any

import pytest

from engine.http.asgi import asgi_handler
from engine.http.exchange import BODY_BYTES, BodyInterrupted, Exchange
from tests.engine.uploading import MIB, PATIENCE, answer, answered, echo, handled, respond, served, upload


@pytest.mark.parametrize("after", [0, 1, 64 * MIB])
def test_response_before_body_is_delivered_and_closes_connection(after: int) -> None:
    """The client sends `after` bytes before it reads; the sent bytes must not discard the response."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, b"no")

    async def main() -> tuple[bytes, bytes]:
        async with served(app) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(upload(64 * MIB + 1))
            with contextlib.suppress(ConnectionError):
                for _ in range(0, after, 65536):
                    writer.write(bytes(min(after, 65536)))
                    await writer.drain()
            body = (await answered(reader))[1]
            rest = await asyncio.wait_for(reader.read(), PATIENCE)
            writer.close()
            return body, rest

    assert asyncio.run(main()) == (b"no", b"")


def test_response_with_unread_body_retains_connection() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, scope["raw_path"])

    async def main() -> list[bytes]:
        async with served(app) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            bodies = []
            for number in range(5):
                writer.write(upload(1000, b"/%d" % number) + bytes(1000))
                bodies.append((await answered(reader))[1])
            writer.close()
            return bodies

    assert asyncio.run(main()) == [b"/%d" % number for number in range(5)]


def test_body_can_be_read_after_response() -> None:
    async def main() -> int:
        received: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            size = 0
            if scope["raw_path"] == b"/first":
                message = await receive()
                while message["more_body"] and size < 1000:
                    size += len(message["body"])
                    message = await receive()
                await asyncio.sleep(0)
                await answer(send, b"first")
                size += len(message["body"])
                while message["more_body"]:
                    message = await receive()
                    size += len(message["body"])
                assert (await receive())["type"] == "http.disconnect"
                received.set_result(size)
            else:
                await answer(send, b"second")

        async with served(app) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(upload(50_000, b"/first") + bytes(50_000))
            assert (await answered(reader))[1] == b"first"
            writer.write(upload(5, b"/second") + b"hello")
            assert (await answered(reader))[1] == b"second"
            writer.close()
            return await asyncio.wait_for(received, PATIENCE)

    assert asyncio.run(main()) == 50_000


def test_unread_body_does_not_block_next_request() -> None:
    async def handler(exchange: Exchange) -> None:
        if exchange.request.path == "/echo":
            await asgi_handler(echo)(exchange)
            return
        while not exchange.body.complete:
            await asyncio.sleep(0.01)
            if exchange.body.size >= BODY_BYTES:
                await exchange.body.read()
        await respond(exchange, b"ignored")

    async def main() -> list[int]:
        async with handled(handler) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            sizes = []
            for path in (b"/ignore", b"/echo", b"/ignore", b"/echo"):
                writer.write(upload(MIB, path) + bytes(MIB))
                sizes.append(len((await answered(reader))[1]))
            writer.close()
            return sizes

    assert asyncio.run(main()) == [7, MIB + 13, 7, MIB + 13]


def test_shutdown_reads_rest_of_body_and_sends_connection_close() -> None:
    async def main() -> tuple[bytes, bytes]:
        started = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            started.set()
            await echo(scope, receive, send)

        async with served(app, grace=PATIENCE) as (port, stop):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(upload(10) + b"hello")
            await asyncio.wait_for(started.wait(), PATIENCE)
            stop.set()
            await asyncio.sleep(0)
            writer.write(b"world")
            head, body = await answered(reader)
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
            writer.close()
            return head, body

    head, body = asyncio.run(main())
    assert b"\r\nconnection: close\r\n" in head and body == b"POST / [helloworld]"


def test_application_can_send_connection_close() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, b"bye", (b"connection", b"close"))

    async def main() -> tuple[bytes, bytes]:
        async with served(app) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(upload(5) + b"hello")
            head, _ = await answered(reader)
            rest = await asyncio.wait_for(reader.read(), PATIENCE)
            writer.close()
            return head, rest

    head, rest = asyncio.run(main())
    assert head.count(b"connection: close\r\n") == 1 and rest == b""


@pytest.mark.parametrize("at_once", [1, 3, 10_000])
@pytest.mark.parametrize("sent", [5, 3 * BODY_BYTES])
def test_subscriber_receives_every_part_and_interruption(at_once: int, sent: int) -> None:
    """The body is never complete; the subscriber accepts `at_once` parts at a time."""
    parts: list[bytes | None] = []

    async def main() -> None:
        stop = asyncio.Event()

        async def handler(exchange: Exchange) -> None:
            loop = asyncio.get_running_loop()

            def on_body(part: bytes | None) -> bool:
                parts.append(part)
                if part is None:
                    stop.set()
                    return False
                if len(parts) % at_once == 0:
                    loop.call_soon(exchange.body.subscribe, on_body)
                    return False
                return True

            exchange.body.subscribe(on_body)
            await stop.wait()
            exchange.body.subscribe(None)
            with pytest.raises(BodyInterrupted):
                await exchange.body.read()

        async with handled(handler) as (port, _):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(upload(sent + 1) + bytes(sent))
            await writer.drain()
            writer.close()
            await asyncio.wait_for(stop.wait(), PATIENCE)

    asyncio.run(main())
    assert parts[-1] is None and None not in parts[:-1]
    assert sum(len(part or b"") for part in parts) == sent
