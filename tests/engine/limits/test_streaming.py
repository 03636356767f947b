"""Streaming in both directions, with backpressure."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import h2.events
import pytest

from tests.engine.limits.hosted import HOST, PATIENCE, Hosted, Http2, connected, hosted, until

pytestmark = pytest.mark.slow
both = pytest.mark.parametrize("version", ["1.1", "2"])
HOUR_MS = 3_600_000
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Return this process' memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


async def part(client: object) -> bytes:
    """Read the next part of a body, over either version; the head is skipped."""
    if not isinstance(client, Http2):
        return await client.part()  # type: ignore[attr-defined, no-any-return]
    data = b""
    while not data:
        for event in await client.events():
            assert event is not None
            if isinstance(event, h2.events.DataReceived):
                client.connection.acknowledge_received_data(event.flow_controlled_length, client.stream)
                data += event.data
        client.flush()
    return data


@both
def test_written_data_is_sent_at_once(cache: Path, version: str) -> None:
    """The guest writes a line, then sleeps for an hour; the client receives the line."""

    async def test(site: Hosted) -> bytes:
        async with asyncio.timeout(PATIENCE), connected(version, site.port) as client:
            await client.send(f"/k{HOUR_MS}")
            if version == "1.1":
                await client.head()  # type: ignore[union-attr]
            return await part(client)

    assert hosted(cache, test) == b"hello\n"


@both
def test_request_and_response_bodies_are_streamed_concurrently(cache: Path, version: str) -> None:
    """The client sends the next part after it has received the last one."""

    async def test(site: Hosted) -> list[bytes]:
        turn: asyncio.Queue[bytes] = asyncio.Queue()
        turn.put_nowait(b"part 0")

        async def parts() -> AsyncIterator[bytes]:
            while data := await turn.get():
                yield data

        back = []
        async with asyncio.timeout(PATIENCE), connected(version, site.port) as client:
            upload = await client.send("/e", parts())
            if version == "1.1":
                await client.head()  # type: ignore[union-attr]
            for number in range(1, 6):
                back.append(await part(client))
                turn.put_nowait(b"part %d" % number if number < 5 else b"")
            assert upload is not None
            await upload
        return back

    assert hosted(cache, test) == [b"part %d" % number for number in range(5)]


@pytest.mark.parametrize("size", [0, 1, 100_000, 4_000_000])
def test_upload_of_known_length_round_trips(cache: Path, size: int) -> None:
    """The guest echoes the body; the largest one exceeds the buffers of server and run."""
    sent = os.urandom(size)

    async def test(site: Hosted) -> tuple[list[bytes], int]:
        back = []
        async with asyncio.timeout(PATIENCE), connected("1.1", site.port) as client:
            for _ in range(2):
                head = f"POST /e HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: {size}\r\n\r\n"
                client.writer.write(head.encode() + sent)
                back.append(bytes((await client.answer()).body))  # type: ignore[union-attr]
        return back, (await site.recorded(2)).bytes_in

    assert hosted(cache, test, max_body=size or 1) == ([sent, sent], size)


@both
def test_slow_client_applies_backpressure(cache: Path, version: str) -> None:
    """The guest sends 64 MiB: memory does not grow by them, and all arrive when the client reads."""

    async def test(site: Hosted) -> tuple[int, int]:
        async with asyncio.timeout(120), connected(version, site.port) as client:
            await client.send("/h")
            await client.answer()
            before = resident()
            await client.send("/w16384")
            await until(lambda: bool(site.runner.runs))
            await asyncio.sleep(1)
            most, size = resident() - before, 0
            if version == "1.1":
                await client.head()  # type: ignore[union-attr]
            while size < 64 << 20 and (data := await part(client)):
                size += len(data)
                most = max(most, resident() - before)
        return most, size

    most, size = hosted(cache, test, run_limit_secs=120)
    assert size == 64 << 20
    assert most < 32 << 20


@both
def test_half_closed_client_counts_as_disconnected(cache: Path, version: str) -> None:
    async def test(site: Hosted) -> str:
        async with connected(version, site.port) as client:
            await client.send("/k10")
            await until(lambda: bool(site.runner.runs))
            client.writer.write_eof()
            return (await site.recorded()).code

    assert hosted(cache, test) == "client-gone"


@both
def test_response_end_is_not_a_disconnect(cache: Path, version: str) -> None:
    """The end of the response does not count as a disconnect, even while the guest waits for one."""

    async def upload() -> AsyncIterator[bytes]:
        yield b"a part"

    async def test(site: Hosted) -> list[str]:
        async with connected(version, site.port) as client:
            for body in (None, upload()):
                assert bytes((await client.ask("/s20", body)).body) == b"hello\n"
        return [(await site.recorded(number)).code for number in (1, 2)]

    assert hosted(cache, test) == ["", ""]


def test_stalled_upload_ends_after_response(cache: Path) -> None:
    """The upload stops before its declared length; the run ends after the response."""

    async def test(site: Hosted) -> str:
        async with connected("1.1", site.port) as client:
            client.writer.write(f"POST /q HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: 9\r\n\r\nhalf".encode())
            assert bytes((await client.answer()).body).endswith(b"hello\n")
            return (await site.recorded()).code

    assert hosted(cache, test) == ""
