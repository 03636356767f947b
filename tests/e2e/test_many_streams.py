"""Many concurrent event streams: they use no threads and do not delay each other."""

import asyncio
from pathlib import Path

import pytest

from tests.support.dev_server import DevServer

pytestmark = pytest.mark.slow
CLIENTS = 200


async def first_event(port: int) -> asyncio.StreamWriter:
    """Open the stream, read its first event and return the open connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /api/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n")
    await reader.readuntil(b"data: ")
    return writer


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def test_two_hundred_open_streams_receive_events_and_share_threads(pulse: DevServer) -> None:
    async def crowd() -> int:
        writers = await asyncio.gather(*(first_event(pulse.port) for _ in range(CLIENTS)))
        while_open = threads(pulse.process.pid)
        late = await first_event(pulse.port)
        for writer in (*writers, late):
            writer.close()
        return while_open

    assert pulse.get("/api/now").status_code == 200
    before = threads(pulse.process.pid)
    assert asyncio.run(crowd()) - before < 16
    assert pulse.get("/api/now").status_code == 200
