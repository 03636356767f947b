"""Bodies of a known length over HTTP/1.1, for every split of the bytes."""

import asyncio
import contextlib
import re
import socket
import struct
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.http.exchange import BODY_BYTES, BodyInterrupted, Exchange
from engine.http.messages import MalformedRequest, RequestHead
from tests.engine.uploading import (
    HOST,
    MIB,
    PATIENCE,
    answer,
    answered,
    converse,
    handled,
    respond,
    served,
    upload,
)
from tests.support.examples import examples

Conversation = list[tuple[bytes, int]]
BYTES = bytes(range(256)) * 1024
METHODS = st.sampled_from([b"GET", b"HEAD", b"POST", b"PUT", b"DELETE"])
CONVERSATIONS = st.lists(
    st.tuples(METHODS, st.integers(0, 50) | st.integers(0, 200_000)), min_size=1, max_size=4
)
CUTS = st.lists(st.floats(0, 1), max_size=6)


def received(requests: Conversation, cuts: list[float], unsent: int) -> tuple[list[Any], bytes]:
    """Send requests in parts; return the messages of the applications and the response of the client."""
    data = b"".join(
        b"%b /%d HTTP/1.1\r\n%bcontent-length: %d\r\n\r\n%b" % (method, n, HOST, size, BYTES[:size])
        for n, (method, size) in enumerate(requests)
    )
    data = data[: len(data) - min(unsent, requests[-1][1])]
    places = [0, *sorted(int(cut * len(data)) for cut in cuts), len(data)]
    messages: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, ended = b"", False
        while not ended and (message := await receive())["type"] == "http.request":
            body += message["body"]
            ended = not message["more_body"]
        messages.append((scope["method"], scope["path"], len(body), hash(body), ended))
        await answer(send, b"%d" % len(body))
        assert (await receive())["type"] == "http.disconnect"

    async def main() -> bytes:
        async with served(app) as (port, _):
            parts = [data[begin:end] for begin, end in pairwise(places)]
            return await converse(port, parts)

    response = asyncio.run(main())
    return messages, re.sub(rb"(?im)^(date|connection): .*\r\n", b"", response)


@settings(max_examples=examples(60), deadline=None)
@given(CONVERSATIONS, CUTS, st.sampled_from([0, 0, 1, 20, 90_000]))
@example([(b"GET", 10), (b"POST", 65_428)], [], 0)
def test_body_is_equal_for_any_segments(requests: Conversation, cuts: list[float], unsent: int) -> None:
    messages, response = received(requests, cuts, unsent)
    assert (messages, response) == received(requests, [], unsent)
    *complete, last = [(method.decode(), f"/{n}", size) for n, (method, size) in enumerate(requests)]
    assert [message[:3] for message in messages[: len(complete)]] == complete
    missing = min(unsent, last[2])
    assert messages[-1][2] == last[2] - missing and messages[-1][4] == (not missing)


def test_content_length_is_parsed() -> None:
    head = RequestHead(upload(5, b"/a"))
    assert (head.method, head.length, head.keep_alive) == ("POST", 5, True)


@pytest.mark.parametrize(
    "fields",
    [
        b"content-length: 5\r\ncontent-length: 5\r\n",
        b"content-length: 5, 5\r\n",
        b"content-length: \r\n",
        b"content-length: +5\r\n",
        b"content-length: -5\r\n",
        b"content-length: 0x5\r\n",
        b"content-length: 5 5\r\n",
        b"content-length: " + b"9" * 19 + b"\r\n",
        b"content-length: 5\r\ntransfer-encoding: chunked\r\n",
    ],
)
def test_ambiguous_content_length_raises(fields: bytes) -> None:
    with pytest.raises(MalformedRequest):
        RequestHead(b"POST / HTTP/1.1\r\n" + HOST + fields + b"\r\n")


def test_slow_application_applies_backpressure() -> None:
    size = 64 * MIB

    async def main() -> tuple[int, int]:
        may_read, count = asyncio.Event(), 0

        async def app(scope: Any, receive: Any, send: Any) -> None:
            nonlocal count
            await may_read.wait()
            more = True
            while more:
                message = await receive()
                assert message["type"] == "http.request"
                count, more = count + len(message["body"]), message["more_body"]
            await answer(send, b"thanks")

        async with served(app) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.transport.set_write_buffer_limits(0)
            writer.write(upload(size))
            sent = 0
            with contextlib.suppress(TimeoutError):
                while sent < size:
                    writer.write(bytes(65536))
                    sent += 65536
                    await asyncio.wait_for(writer.drain(), 1)
            held_at = sent
            may_read.set()
            while sent < size:
                writer.write(bytes(65536))
                sent += 65536
                await writer.drain()
            assert (await answered(reader))[1] == b"thanks"
            writer.close()
        return held_at, count

    held_at, count = asyncio.run(main())
    assert held_at < 32 * MIB and count == size


@pytest.mark.parametrize("size", [2 * BODY_BYTES, 64 * MIB])
def test_unread_body_is_bounded(size: int) -> None:
    """The limit applies to the bytes in the request, not to those in the system's buffers."""
    waiting: list[int] = []

    async def handler(exchange: Exchange) -> None:
        while True:
            await asyncio.sleep(0)
            waiting.append(exchange.body.size)
            if not await exchange.body.read():
                break
        await respond(exchange, b"thanks")

    async def main() -> None:
        async with handled(handler) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(upload(size) + bytes(size))
            await answered(reader)
            writer.close()

    asyncio.run(main())
    assert max(waiting) < 3 * BODY_BYTES


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("sent", [1000, BODY_BYTES + 65536])
@pytest.mark.parametrize("reset", [True, False])
def test_client_disconnect_during_body_reaches_application(taken: bool, sent: int, reset: bool) -> None:
    """An application that does not read depends on the server, which has to query the socket."""

    async def main() -> None:
        begun, received = asyncio.Event(), asyncio.Event()

        async def handler(exchange: Exchange) -> None:
            begun.set()
            if taken:
                with contextlib.suppress(BodyInterrupted):
                    while await exchange.body.read():
                        pass
            await exchange.disconnected.wait()
            received.set()

        async with handled(handler) as (port, _):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.transport.set_write_buffer_limits(0)
            writer.write(upload(64 * MIB) + bytes(sent))
            await writer.drain()
            await asyncio.wait_for(begun.wait(), PATIENCE)
            opened = writer.get_extra_info("socket")
            if reset:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            await asyncio.wait_for(received.wait(), PATIENCE)

    asyncio.run(main())


def test_connection_with_unread_body_closes_after_disconnect() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.disconnected.wait()

    async def main() -> None:
        async with handled(handler, grace=2 * PATIENCE) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(upload(64 * MIB) + bytes(2 * BODY_BYTES + 65536))
            writer.write_eof()
            await asyncio.wait_for(reader.read(), PATIENCE)
            writer.close()

    asyncio.run(main())


def test_received_parts_precede_disconnect() -> None:
    parts: list[bytes] = []

    async def main() -> None:
        stop = asyncio.Event()

        async def handler(exchange: Exchange) -> None:
            await exchange.disconnected.wait()
            with pytest.raises(BodyInterrupted):
                while True:
                    parts.append(await exchange.body.read())
            stop.set()

        async with handled(handler) as (port, _):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(upload(10) + b"hello")
            writer.close()
            await asyncio.wait_for(stop.wait(), PATIENCE)

    asyncio.run(main())
    assert b"".join(parts) == b"hello" and all(parts)
