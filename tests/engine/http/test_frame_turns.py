"""Floods of HTTP/2 frames are handled in small parts, one in an iteration of the event loop, or refused."""

import asyncio
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived
from h2.settings import SettingCodes
from hpack.hpack import Decoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from engine.http.exchange import Exchange
from engine.http.frame_budget import FRAMES_PER_TURN, REQUEST_FRAMES
from engine.http.h2 import Http2Connection
from tests.engine.uploading import PATIENCE, handled, respond

START = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SettingsFrame(0).serialize()
# HPACK: indexed GET, http, /; the authority as a literal.
REQUEST = b"\x82\x86\x84\x01\x01x"


def head(stream: int, block: bytes, *, end: bool = True) -> bytes:
    flags = ["END_HEADERS", *["END_STREAM"][: int(end)]]
    return HeadersFrame(stream, data=block, flags=flags).serialize()


def heads(block: bytes, count: int, first: int = 1) -> bytes:
    return b"".join(head(first + 2 * number, block) for number in range(count))


def literal(name: bytes, value: bytes, kind: bytes = b"\0") -> bytes:
    """Return a literal field; `kind` 0x40 puts it into the dynamic table."""
    size = len(value) - 127
    length = bytes([127, size % 128 | 128, size // 128]) if size >= 128 else bytes([len(value)])
    return kind + bytes([len(name)]) + name + length + value


# A field of 4,000 bytes in the dynamic table: seven of it are a request head of 28 kB, in seven bytes.
LARGE = head(1, REQUEST + literal(b"x", b"a" * 4000, b"\x40"))
EXPANDING = REQUEST + b"\xbe" * 7
HUFFMAN = REQUEST + b"\0\1x" + b"\xff\x80\x7e" + b"\x18\xc6\x31\x8c\x63" * 3251
"""A field of 26,008 letters `a`, in Huffman code of 16,255 bytes."""


async def answered(exchange: Exchange) -> None:
    await respond(exchange, b"")


class Work:
    """Counts what each iteration of the event loop handles, by a wrapper of `Http2Connection.receive`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.iteration = 0
        self.frames = Counter[int]()
        self.blocks = Counter[int]()
        self.decoded = Counter[int]()
        receive, decode = Http2Connection.receive, Decoder.decode

        def counted(connection: Http2Connection, part: bytes) -> None:
            data, at = part.removeprefix(START[:24]), 0
            while at < len(data):
                self.frames[self.iteration] += 1
                at += 9 + int.from_bytes(data[at : at + 3])
            receive(connection, part)

        def measured(decoder: Decoder, data: bytes, raw: bool = False) -> Any:
            self.blocks[self.iteration] += 1
            fields = list(decode(decoder, data, raw))
            self.decoded[self.iteration] += sum(len(name) + len(value) for name, value in fields)
            return fields

        monkeypatch.setattr(Http2Connection, "receive", counted)
        monkeypatch.setattr(Decoder, "decode", measured)

    async def count(self) -> None:
        while True:
            self.iteration += 1
            await asyncio.sleep(0)


def flood(
    data: bytes,
    work: Work,
    handler: Callable[[Exchange], Awaitable[None]] = answered,
    *,
    connections: int = 1,
) -> list[bytes]:
    """Send bytes and then a PING on connections; return what each received up to its response, or the end."""
    last = PingFrame(0, opaque_data=b"the last")

    async def client(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(START + data + last.serialize())
        received = b""
        try:
            while last.opaque_data not in received and (part := await reader.read(1 << 16)):
                received += part
        except ConnectionError:
            pass
        writer.transport.abort()
        return received

    async def main() -> list[bytes]:
        async with handled(handler) as (port, _), asyncio.timeout(PATIENCE):
            counting = asyncio.create_task(work.count())
            results = await asyncio.gather(*[client(port) for _ in range(connections)])
            counting.cancel()
        return results

    return asyncio.run(main())


@pytest.mark.parametrize(
    "data",
    [
        PingFrame(0).serialize() * 1900,
        SettingsFrame(0, settings={4: 65535}).serialize() * 900,
        WindowUpdateFrame(0, window_increment=1).serialize() * 1900,
        b"".join(PriorityFrame(2 * n % 1800 + 1, depends_on=0).serialize() for n in range(1900)),
        head(1, b"\x83" + REQUEST[1:], end=False) + DataFrame(1, data=b"x").serialize() * 5000,
        heads(REQUEST, 500),
    ],
    ids=["PING", "SETTINGS", "WINDOW_UPDATE", "PRIORITY", "DATA", "HEADERS"],
)
def test_many_frames_are_handled_in_turns(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    assert b"the last" in flood(data, work)[0]
    assert max(work.frames.values()) <= FRAMES_PER_TURN
    assert max(work.blocks.values(), default=0) <= FRAMES_PER_TURN // REQUEST_FRAMES


@pytest.mark.parametrize("block", [EXPANDING, HUFFMAN], ids=["table", "Huffman"])
def test_large_heads_are_decoded_one_by_one(block: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    work, connections = Work(monkeypatch), 3
    results = flood(LARGE + heads(block, 60, 3), work, connections=connections)
    assert all(b"the last" in result for result in results)
    assert sum(work.blocks.values()) == 61 * connections
    large = [size for size in work.decoded.values() if size > 20_000]
    assert len(large) >= 60 * connections - 2 * connections  # Of all connections one in an iteration,
    assert sorted(large)[-2 * connections - 1] < 40_000  # except for the first ones.


CHEAP_FOR_CLIENTS = {
    "settings": (len(p := struct.pack(">HI", 100, 1) * 2730)).to_bytes(3) + b"\4\0\0\0\0\0" + p,
    "updates of the table": head(1, b"\x20" * 16000 + REQUEST),
    "block": HeadersFrame(1, data=REQUEST).serialize()
    + ContinuationFrame(1, data=b"\0" * 16000).serialize() * 2,
    "fields": head(1, REQUEST + b"\x90" * 1200),
}


@pytest.mark.parametrize("data", CHEAP_FOR_CLIENTS.values(), ids=CHEAP_FOR_CLIENTS)
def test_frames_that_cost_too_much_close_their_connection(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (received,) = flood(data, Work(monkeypatch))
    assert b"the last" not in received and b"\0\0\x08\7\0" in received  # GOAWAY


def test_unknown_settings_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, create = [], Http2Connection.__init__

    def created(self: Http2Connection, *args: Any) -> None:
        create(self, *args)
        settings.append(self.protocol.remote_settings)

    monkeypatch.setattr(Http2Connection, "__init__", created)
    frames = [SettingsFrame(0, settings={n: 1, 4: 7}).serialize() for n in range(100, 200)]
    assert b"the last" in flood(b"".join(frames), Work(monkeypatch))[0]
    assert len(settings[0]) < 10 and settings[0].initial_window_size == 7


def test_frames_of_a_client_that_left_are_not_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    work, total = Work(monkeypatch), 1500

    async def main() -> None:
        begun = asyncio.Event()

        async def handler(exchange: Exchange) -> None:
            begun.set()
            await exchange.disconnected.wait()

        async with handled(handler) as (port, _), asyncio.timeout(PATIENCE):
            counting = asyncio.create_task(work.count())
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(START + head(1, REQUEST) + PingFrame(0).serialize() * total)
            await begun.wait()
            writer.transport.abort()
        counting.cancel()

    asyncio.run(main())
    assert 0 < sum(work.frames.values()) < total


def test_streams_send_in_turn_whatever_their_priorities() -> None:
    async def handler(exchange: Exchange) -> None:
        await respond(exchange, bytes(10 * 16384))

    async def main() -> list[int]:
        order: list[int] = []
        async with handled(handler) as (port, _), asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            client = H2Connection(H2Configuration(client_side=True))
            client.initiate_connection()
            client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
            client.increment_flow_control_window(1 << 20)
            fields = [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "x")]
            for stream, weight in ((1, 1), (3, 256)):
                client.send_headers(stream, fields, end_stream=True, priority_weight=weight)
            writer.write(client.data_to_send())
            while len(order) < 20:
                for event in client.receive_data(await reader.read(65536)):
                    order += [event.stream_id] if isinstance(event, DataReceived) and event.data else []
            writer.transport.abort()
        return order

    assert asyncio.run(main())[:16] == [1, 3] * 8
