"""Connections of HTTP/1.1 as a client sees them: black-box tests over sockets."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest

from tests.engine.uploading import HOST, MIB, PATIENCE, answer, answered, echo, served, upload

GET = b"GET /%b HTTP/1.1\r\n" + HOST + b"\r\n"
Client = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]


def converse(app: Any, client: Client, *, grace: float = 0.2) -> Any:
    """Serve an application and run a client on a connection to it."""

    async def main() -> Any:
        async with served(app, grace=grace) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                return await asyncio.wait_for(client(reader, writer), PATIENCE)
            finally:
                writer.transport.abort()

    return asyncio.run(main())


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    """Answer without reading the body."""
    await answer(send, b"no")


def test_early_response_reaches_client_that_is_still_sending() -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(upload(8 * MIB) + bytes(4 * MIB))
        await writer.drain()
        head, body = await answered(reader)
        assert await reader.read() == b""
        return head + body

    reply = converse(refuse, client)
    assert b"\r\nconnection: close\r\n" in reply or reply.endswith(b"no")


def test_bytes_after_early_response_are_not_a_second_request() -> None:
    smuggled = GET % b"smuggled"

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(upload(8 * MIB))
        head, body = await answered(reader)
        writer.write(smuggled)
        return head + body + await reader.read()

    assert converse(refuse, client).count(b"HTTP/1.1 ") == 1


def test_expect_header_returns_100_continue() -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(upload(5, b"/", b"expect: 100-continue"))
        interim = await reader.readuntil(b"\r\n\r\n")
        assert interim.startswith(b"HTTP/1.1 100 ")
        writer.write(b"hello")
        return (await answered(reader))[1]

    assert converse(echo, client) == b"POST / [hello]"


def test_expect_header_of_a_body_that_is_not_wanted_returns_the_response() -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(upload(5, b"/", b"expect: 100-continue"))
        return await reader.read()

    reply = converse(refuse, client)
    assert reply.startswith(b"HTTP/1.1 200 ") and reply.count(b"HTTP/1.1 ") == 1


def test_half_closed_client_receives_response() -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(upload(5) + b"hello")
        writer.write_eof()
        reply = (await answered(reader))[1]
        assert await reader.read() == b""
        return reply

    assert converse(echo, client) == b"POST / [hello]"


def test_pipelined_uploads_are_answered_in_order() -> None:
    chunked = b"POST /%d HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
        writer.write(b"".join((chunked % n) if n % 2 else upload(3, b"/%d" % n) + b"abc" for n in range(6)))
        return [(await answered(reader))[1] for _ in range(6)]

    assert converse(echo, client) == [b"POST /%d [abc]" % n for n in range(6)]


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_chunked_body_is_equal_for_any_segments(step: int) -> None:
    sent = (
        b"POST / HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n"
        b"5\r\nhello\r\n1;a=b\r\n \r\nA\r\n0123456789\r\n0\r\nx-trailer: y\r\n\r\n" + GET % b"next"
    )

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
        for start in range(0, len(sent), step):
            writer.write(sent[start : start + step])
            await writer.drain()
            await asyncio.sleep(0)
        return [(await answered(reader))[1] for _ in range(2)]

    assert converse(echo, client) == [b"POST / [hello 0123456789]", b"GET /next []"]


def test_http10_response_ends_with_connection() -> None:
    async def stream(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two", "more_body": False})

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        return await reader.read()

    head, _, body = converse(stream, client).partition(b"\r\n\r\n")
    assert body == b"onetwo" and b"chunked" not in head


@pytest.mark.parametrize("token", [b"close", b"Close", b"te, close"])
def test_connection_close_ends_after_one_response(token: bytes) -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        request = b"GET / HTTP/1.1\r\n" + HOST + b"connection: " + token + b"\r\n\r\n"
        writer.write(request * 2)
        return await reader.read()

    reply = converse(echo, client)
    assert reply.count(b"HTTP/1.1 200") == 1 and b"\r\nconnection: close\r\n" in reply


def test_unusual_methods_reach_application() -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
        methods = [b"QUERY", b"PURGE", b"X-OWN_METHOD"]
        writer.write(b"".join(method + b" / HTTP/1.1\r\n" + HOST + b"\r\n" for method in methods))
        return [(await answered(reader))[1] for _ in methods]

    assert converse(echo, client) == [b"QUERY / []", b"PURGE / []", b"X-OWN_METHOD / []"]


def test_shutdown_answers_current_request_with_connection_close() -> None:
    async def main() -> tuple[bytes, bytes]:
        started, release = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            started.set()
            await release.wait()
            await answer(send, b"done")

        async with served(app, grace=PATIENCE) as (port, stop):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            idle, idle_writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET % b"")
            await asyncio.wait_for(started.wait(), PATIENCE)
            stop.set()
            assert await asyncio.wait_for(idle.read(), PATIENCE) == b""
            release.set()
            head, body = await answered(reader)
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
            writer.close()
            idle_writer.close()
            return head, body

    head, body = asyncio.run(main())
    assert b"\r\nconnection: close\r\n" in head and body == b"done"


def test_client_disconnect_ends_wait_for_body() -> None:
    async def main() -> str:
        disconnected: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            message = await receive()
            while message["type"] == "http.request" and message["more_body"]:
                message = await receive()
            disconnected.set_result(message["type"])

        async with served(app) as (port, _):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            head = b"POST / HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n5\r\nhel"
            writer.write(head)
            await writer.drain()
            writer.close()
            return await asyncio.wait_for(disconnected, PATIENCE)

    assert asyncio.run(main()) == "http.disconnect"


def test_oversized_head_returns_431() -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"x: " + b"y" * 70_000)
        return await reader.read()

    assert converse(echo, client).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("encoding", [b"gzip", b"gzip, chunked", b"chunked, chunked", b"identity"])
def test_unknown_transfer_coding_returns_501(encoding: bytes) -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"POST / HTTP/1.1\r\n" + HOST + b"transfer-encoding: " + encoding + b"\r\n\r\n0\r\n\r\n")
        return await reader.read()

    reply = converse(echo, client)
    assert reply.startswith(b"HTTP/1.1 501 ") and reply.count(b"HTTP/1.1 ") == 1


async def answered_http2(
    connection: h2.connection.H2Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[int, bytes]:
    """Send what the connection has; return status and body of the response on its stream."""
    status, body = 0, b""
    while True:
        writer.write(connection.data_to_send())
        received = await reader.read(65536)
        assert received, "the connection ended"
        for event in connection.receive_data(received):
            if isinstance(event, h2.events.ResponseReceived):
                status = int(dict(event.headers)[b":status"])
            if isinstance(event, h2.events.DataReceived):
                body += event.data
            if isinstance(event, h2.events.StreamEnded):
                return status, body


def http2_client() -> h2.connection.H2Connection:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.initiate_connection()
    return connection


FIELDS = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "x")]


def test_prior_knowledge_http2_is_served() -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, bytes]:
        connection = http2_client()
        connection.send_headers(1, FIELDS)
        connection.send_data(1, b"hello", end_stream=True)
        data = connection.data_to_send()
        writer.write(data[:5])
        await asyncio.sleep(0.01)
        writer.write(data[5:])
        return await answered_http2(connection, reader, writer)

    assert converse(echo, client) == (200, b"POST / [hello]")


OVERSIZED = {"bytes": [("x", "y" * 4000)] * 9, "fields": [("x", "")] * 260}


@pytest.mark.parametrize("fields", OVERSIZED.values(), ids=OVERSIZED)
def test_oversized_head_in_http2_returns_431_and_leaves_the_connection(fields: list[Any]) -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[tuple[int, bytes]]:
        connection, answers = http2_client(), []
        for stream, added in ((1, fields), (3, [])):
            connection.send_headers(stream, [*FIELDS, *added], end_stream=True)
            answers.append(await answered_http2(connection, reader, writer))
        return answers

    assert converse(echo, client) == [(431, b""), (200, b"POST / []")]
