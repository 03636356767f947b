"""The budget for HTTP/2 frames that need no stream: floods close their connection, ordinary use does not."""

import asyncio
import contextlib
import random
import struct
import time
from bisect import bisect_left
from collections import Counter

import h2.events
import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from engine.http.asgi import asgi_handler
from engine.http.connection_limits import ConnectionLimiter
from engine.http.frame_budget import (
    BLOCK_BYTES,
    FRAMES_PER_SECOND,
    FRAMES_PER_TURN,
    MAX_FRAMES,
    SENT_BYTES_PER_FRAME,
    FrameBudget,
    FrameFlood,
)
from engine.http.server import Server
from engine.wasm.execution.run_state import GuestRequest, RunReport
from tests.engine.gateway.serving import Scripted, Site, echo, reply, with_site
from tests.engine.gateway.test_gateway import PUBLIC_API
from tests.engine.http.test_server import asking

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CHARGED = {
    "PING": PingFrame(0, opaque_data=b"12345678"),
    "SETTINGS": SettingsFrame(0),
    "reset": RstStreamFrame(1),
    "PRIORITY": PriorityFrame(1, depends_on=3),
    "window": WindowUpdateFrame(0, window_increment=1),
    "empty DATA": DataFrame(1),
    "padding": DataFrame(1, flags=["PADDED"], pad_length=255),
    "empty HEADERS": HeadersFrame(1),
    "CONTINUATION": ContinuationFrame(1, data=b"x"),
}
FREE = {
    "DATA": DataFrame(1, data=b"x"),
    "padded DATA": DataFrame(1, data=bytes(300), flags=["PADDED"], pad_length=9),
    "end": DataFrame(1, flags=["END_STREAM"]),
    "HEADERS": HeadersFrame(1, data=b"x", flags=["END_HEADERS"]),
}


def pieces(data: bytes, seed: int) -> list[bytes]:
    """Return the bytes in pieces of random sizes."""
    chance, result = random.Random(seed), []
    while data:
        size = chance.choice((1, 3, 8, 9, 10, 100, 5000))
        result.append(data[:size])
        data = data[size:]
    return result


def accepts(budget: FrameBudget, data: bytes, now: float) -> bool:
    """Return whether the budget suffices for bytes; assert that it yields all of them."""
    try:
        assert b"".join(part for part, _ in budget.receive(data, now)) == data
    except FrameFlood:
        return False
    return True


@pytest.mark.parametrize("frame", CHARGED.values(), ids=CHARGED)
@pytest.mark.parametrize("seed", range(3))
def test_budget_charges_frames_in_any_segments(frame: Frame, seed: int) -> None:
    mixed = b"".join(each.serialize() for each in FREE.values()) + frame.serialize()
    budget, now = FrameBudget(0), 0.0
    for part in pieces(PREFACE + mixed * MAX_FRAMES, seed):
        assert accepts(budget, part, now)
    assert not accepts(budget, frame.serialize(), now)


def test_budget_grows_with_time_and_with_sent_bytes() -> None:
    budget, ping = FrameBudget(0), CHARGED["PING"].serialize()
    assert accepts(budget, PREFACE + ping * MAX_FRAMES, 0)
    assert accepts(budget, ping * FRAMES_PER_SECOND, 1)
    budget.sent(100 * SENT_BYTES_PER_FRAME)
    assert accepts(budget, ping * 100, 1)
    assert not accepts(budget, ping, 1)
    assert not accepts(FrameBudget(0), PREFACE + ping * (MAX_FRAMES + 1), 3600)


def settings_frame(count: int, first: int = 100) -> bytes:
    """Return a SETTINGS frame with `count` settings of different ids."""
    payload = b"".join(struct.pack(">HI", first + number, 1) for number in range(count))
    return len(payload).to_bytes(3) + b"\4\0\0\0\0\0" + payload


def test_each_setting_counts_as_a_frame_and_a_frame_has_few() -> None:
    budget, most = FrameBudget(0), FRAMES_PER_TURN - 1
    assert accepts(budget, PREFACE + settings_frame(most) * (MAX_FRAMES // FRAMES_PER_TURN), 0)
    assert not accepts(budget, settings_frame(most), 0)
    assert not accepts(FrameBudget(0), PREFACE + settings_frame(most + 1), 0)


@pytest.mark.parametrize("parts", [1, 3])
def test_header_block_above_its_limit_is_a_flood(parts: int) -> None:
    def block(size: int) -> bytes:
        data = [bytes(size - (parts - 1) * 5000), *[bytes(5000)] * (parts - 1)]
        rest = [ContinuationFrame(1, data=part) for part in data[1:]]
        return b"".join(frame.serialize() for frame in (HeadersFrame(1, data=data[0]), *rest))

    budget = FrameBudget(0)
    assert accepts(budget, PREFACE + block(BLOCK_BYTES) * 2, 0)
    assert not accepts(budget, block(BLOCK_BYTES + 1), 0)


@pytest.mark.parametrize("seed", range(5))
def test_parts_have_the_cost_of_a_turn_at_most_and_one_header_block(seed: int) -> None:
    chance = random.Random(seed)
    frames = [*CHARGED.values(), *FREE.values(), HeadersFrame(1, data=bytes(9000), flags=["END_HEADERS"])]
    data = PREFACE + b"".join(chance.choice(frames).serialize() for _ in range(1500))
    budget, whole, ends = FrameBudget(0), 0, list[int]()
    for piece in pieces(data, seed):
        for part, cost in budget.receive(piece, 0):
            assert cost <= FRAMES_PER_TURN or len(part) < 9010
            whole += len(part)
            ends.append(whole)
    assert whole == len(data)
    at, completed = len(PREFACE), Counter[int]()
    while at < whole:
        end = at + 9 + int.from_bytes(data[at : at + 3])
        completed[bisect_left(ends, end)] += data[at + 3] in (1, 9)  # HEADERS and CONTINUATION
        at = end
    assert max(completed.values()) == 1


async def flooded(port: int, data: bytes) -> bytes:
    """Send bytes until the connection closes; return what was received."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def send() -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(PREFACE + SettingsFrame(0).serialize())
            for start in range(0, len(data), 1 << 16):
                writer.write(data[start : start + (1 << 16)])
                await writer.drain()

    sending, received = asyncio.create_task(send()), b""
    with contextlib.suppress(ConnectionError):
        while part := await asyncio.wait_for(reader.read(1 << 16), 60):
            received += part
    sending.cancel()
    writer.transport.abort()
    return received


@pytest.mark.parametrize("kind", ["PING", "SETTINGS", "PRIORITY", "window"])
def test_flood_closes_its_connection(kind: str) -> None:
    flood = CHARGED[kind].serialize() * 100_000

    async def test(site: Site) -> tuple[bytes, float]:
        attack = asyncio.create_task(flooded(site.port, flood))
        slowest = 0.0
        while not attack.done():
            began = time.thread_time()
            assert (await site.ask("/", "api--shop.localhost")).status_code == 200
            slowest = max(slowest, time.thread_time() - began)
        return attack.result(), slowest

    received, slowest = with_site([PUBLIC_API], {"api": echo()}, test)
    assert len(received) < 20 * 2 * MAX_FRAMES  # It answers only what the budget permits.
    assert slowest < 1  # seconds of CPU time


def test_download_with_a_window_update_per_frame_is_not_a_flood() -> None:
    size = 3 * MAX_FRAMES * 8192

    async def body(request: GuestRequest) -> RunReport:
        return await reply(request, bytes(size))

    async def test(site: Site) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        connection, received = asking(), 0
        ended = False
        while not ended:
            writer.write(connection.data_to_send())
            data = await asyncio.wait_for(reader.read(1 << 16), 60)
            assert data
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
                    received += len(event.data)
                    for stream in (None, 1) if received < size else (None,):
                        connection.increment_flow_control_window(event.flow_controlled_length, stream)
                ended = ended or isinstance(event, h2.events.StreamEnded)
        writer.transport.abort()
        return received

    assert with_site([PUBLIC_API], {"api": Scripted(body)}, test) == size


def test_connections_with_many_frames_take_turns_in_different_iterations() -> None:
    async def main() -> list[int]:
        server = Server(asgi_handler(None), ConnectionLimiter())
        iteration, order = 0, list[tuple[int, str]]()

        async def count() -> None:
            nonlocal iteration
            while True:
                iteration += 1
                await asyncio.sleep(0)

        async def connection(name: str) -> None:
            for _ in range(3):
                await server.frame_turn()
                order.append((iteration, name))

        counting = asyncio.create_task(count())
        closed = asyncio.create_task(connection("gone"))
        connections = [asyncio.create_task(connection(name)) for name in "abc"]
        await asyncio.sleep(0)
        closed.cancel()
        await asyncio.gather(*connections)
        counting.cancel()
        assert {name for _, name in order[-9:-6]} == {"a", "b", "c"}
        return [number for number, _ in order]

    numbers = asyncio.run(main())
    assert len(set(numbers)) == len(numbers)
