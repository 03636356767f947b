"""Malformed requests of HTTP/2 (RFC 9113 8.1.1) are refused, and their connection continues."""

import asyncio
from typing import Any

import h2.events
import pytest
from hyperframe.frame import HeadersFrame

from engine.http.exchange import BodyInterrupted, Exchange
from tests.engine.http.test_connections import answered_http2, converse, http2_client
from tests.engine.uploading import PATIENCE, echo, handled

FIELDS = {b":method": b"POST", b":path": b"/a", b":scheme": b"http", b":authority": b"x"}
VALID = [{}, {b":scheme": b"https"}, {b":path": b"*", b":method": b"OPTIONS"}, {b"content-length": b"000"}]
MALFORMED = [
    {b":method": b"PO ST"},
    {b":method": b"POST\x7f"},
    {b":path": b"/a b"},
    {b":path": b"/\xff"},
    {b":path": b"/a HTTP/1.1"},
    {b":scheme": b"ftp"},
    {b":scheme": b"http://y"},
    {b":scheme": b"HTTP"},
    {b"x(y": b"z"},
    {b"x": b"a\x01b"},
    {b"x": b"a\x7fb"},
    {b"content-length": b"4"},
]


def request(connection: Any, stream: int, fields: dict[bytes, bytes]) -> bytes:
    """Return the frame of a request without a body, whose fields the client does not check."""
    connection.send_headers(stream, [(":method", "GET"), (":path", "/"), (":scheme", "http"), ("host", "x")])
    connection.clear_outbound_data_buffer()
    frame = HeadersFrame(stream, flags=["END_HEADERS", "END_STREAM"])
    for name, value in (FIELDS | fields).items():  # Literals without indexing.
        frame.data += b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
    return frame.serialize()


@pytest.mark.parametrize(
    ("fields", "status"),
    [*((fields, 200) for fields in VALID), *((fields, 400) for fields in MALFORMED)],
    ids=str,
)
def test_malformed_request_returns_400_and_leaves_the_connection(
    fields: dict[bytes, bytes], status: int
) -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[int]:
        connection, statuses = http2_client(), []
        writer.write(connection.data_to_send())
        for stream, added in ((1, fields), (3, {})):
            writer.write(request(connection, stream, added))
            statuses.append((await answered_http2(connection, reader, writer))[0])
        return statuses

    assert converse(echo, client) == [status, 200]


def test_extended_connect_is_not_announced_and_refused() -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, int]:
        connection = http2_client()
        writer.write(connection.data_to_send())
        writer.write(request(connection, 1, {b":method": b"CONNECT", b":protocol": b"websocket"}))
        status, _ = await answered_http2(connection, reader, writer)
        return status, connection.remote_settings.enable_connect_protocol

    assert converse(echo, client) == (400, 0)


@pytest.mark.parametrize("at_once", [True, False])
def test_trailers_before_the_announced_length_reset_the_stream(at_once: bool) -> None:
    bodies: list[bytes | None] = []

    async def handler(exchange: Exchange) -> None:
        body = b""
        try:
            while part := await exchange.body.read():
                body += part
        except BodyInterrupted:
            bodies.append(None)
            return
        bodies.append(body)
        await exchange.send_head(200, [])
        await exchange.send_body(b"", end=True)

    async def main() -> list[Any]:
        ends: list[Any] = []
        async with handled(handler) as (port, _), asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            connection = http2_client()
            for stream, data in ((1, b"hel"), (3, b"hello")):
                connection.send_headers(stream, [*FIELDS.items(), (b"content-length", b"5")])
                connection.send_data(stream, data)
                if not at_once:
                    writer.write(connection.data_to_send())
                    await asyncio.sleep(0)
                connection.send_headers(stream, [(b"x", b"y")], end_stream=True)
                writer.write(connection.data_to_send())
            while len(ends) < 2:
                ends += [
                    (event.stream_id, getattr(event, "error_code", None))
                    for event in connection.receive_data(await reader.read(65536))
                    if isinstance(event, h2.events.StreamReset | h2.events.StreamEnded)
                ]
            writer.transport.abort()
        return sorted(ends)

    assert asyncio.run(main()) == [(1, 1), (3, None)]
    assert sorted(bodies, key=str) == [None, b"hello"]
