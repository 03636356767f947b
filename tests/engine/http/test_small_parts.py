"""Bodies in parts of one byte leave turns of the event loop to others, and are read whole."""

import asyncio
import contextlib
import socket
import threading
import time
from typing import Any

import pytest
from hyperframe.frame import DataFrame, HeadersFrame, SettingsFrame

from engine.http.exchange import SMALL_BYTES, RequestBody
from engine.http.messages import MAX_CHUNKS_PER_TURN, ChunkedDecoder
from tests.engine.uploading import HOST, answer, served

COUNT = 100_000
MAX_TURN_SECONDS = 0.06
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# HPACK: indexed POST, http, /; the authority as a literal.
HEAD = HeadersFrame(1, data=b"\x83\x86\x84\x01\x01a", flags=["END_HEADERS"])
CHUNKED = (
    b"POST / HTTP/1.1\r\n"
    + HOST
    + b"transfer-encoding: chunked\r\n\r\n"
    + b"1\r\nx\r\n" * COUNT
    + b"0\r\n\r\n"
)
FRAMES = (
    PREFACE
    + SettingsFrame(0).serialize()
    + HEAD.serialize()
    + DataFrame(1, data=b"x").serialize() * (COUNT // 5)
    + DataFrame(1, flags=["END_STREAM"]).serialize()
)


@pytest.mark.parametrize(("data", "size"), [(CHUNKED, COUNT), (FRAMES, COUNT // 5)], ids=["chunks", "frames"])
def test_small_parts_of_bodies_leave_turns_to_others(data: bytes, size: int) -> None:
    sizes: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.2)
        total, more = 0, True
        while more:
            message = await receive()
            total, more = total + len(message["body"]), message["more_body"]
        sizes.append(total)
        await answer(send, b"%d" % total)

    async def main() -> float:
        async with served(app) as (port, _):
            client = threading.Thread(target=send_all, args=(port, data, sizes))
            client.start()
            longest = await longest_turn(lambda: bool(sizes))
            await asyncio.to_thread(client.join)
            return longest

    assert asyncio.run(main()) < MAX_TURN_SECONDS
    assert sizes == [size]


def send_all(port: int, data: bytes, sizes: list[int]) -> None:
    with socket.create_connection(("127.0.0.1", port), 60) as client, contextlib.suppress(OSError):
        client.sendall(data)
        while not sizes and client.recv(1000):
            pass


async def longest_turn(ended: Any) -> float:
    """Return the longest CPU time (seconds) of a turn of the event loop until `ended` returns true."""
    longest, deadline = 0.0, time.monotonic() + 60
    while not ended():
        assert time.monotonic() < deadline
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    return longest


def test_decoder_leaves_chunks_to_the_next_turn() -> None:
    body, decoder, turns = RequestBody(), ChunkedDecoder(), 1
    rest = decoder.decode(b"1\r\nx\r\n" * (2 * MAX_CHUNKS_PER_TURN + 10) + b"0\r\n\r\nGET", body)
    while decoder.unfinished:
        assert rest is None and body.size == turns * MAX_CHUNKS_PER_TURN
        turns, rest = turns + 1, decoder.decode(b"", body)
    assert (turns, rest, body.complete, body.size) == (3, b"GET", True, 2 * MAX_CHUNKS_PER_TURN + 10)


def test_small_parts_are_joined_while_they_wait() -> None:
    async def read() -> list[bytes]:
        body = RequestBody()
        for number in range(10_000):
            body.feed(b"%d" % (number % 10))
        body.feed(bytes(SMALL_BYTES))
        body.finish()
        return [part async for part in parts(body)]

    result = asyncio.run(read())
    assert [len(part) for part in result] == [SMALL_BYTES, SMALL_BYTES, 10_000 - 2 * SMALL_BYTES, SMALL_BYTES]
    assert b"".join(result)[:10_000] == b"0123456789" * 1000


async def parts(body: RequestBody) -> Any:
    while part := await body.read():
        yield part
