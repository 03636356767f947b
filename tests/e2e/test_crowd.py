"""Many people on one page: streams cost no thread, and nobody waits for another's."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.e2e.dev_server import DevServer

pytestmark = [pytest.mark.slow, pytest.mark.alone]
CLIENTS = 200


async def first_event(port: int) -> tuple[float, asyncio.StreamWriter]:
    """Open the stream; return the seconds until its first event, and the connection."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /api/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n")
    await reader.readuntil(b"data: ")
    return time.perf_counter() - began, writer


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def test_two_hundred_streams_all_hear_within_a_second_and_share_the_threads(pulse: DevServer) -> None:
    async def crowd() -> tuple[list[float], int]:
        heard = await asyncio.gather(*(first_event(pulse.port) for _ in range(CLIENTS)))
        while_open = threads(pulse.process.pid)
        for _, writer in heard:
            writer.close()
        return [seconds for seconds, _ in heard], while_open

    assert pulse.get("/api/now").status_code == 200
    before = threads(pulse.process.pid)
    slowest = []
    # Other work on the machine can slow one crowd down; three in a row would be our own doing.
    while not slowest or (slowest[-1] >= 1.0 and len(slowest) < 3):
        seconds, while_open = asyncio.run(crowd())
        slowest.append(max(seconds))
        assert while_open - before < 16
    assert slowest[-1] < 1.0, slowest
    assert pulse.get("/api/now").status_code == 200
