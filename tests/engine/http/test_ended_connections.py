"""An ended connection releases what it received at once, not at a later garbage collection or timeout.

A client could fill the memory of the service otherwise: each connection is cheap for it.
"""

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest
from hyperframe.frame import DataFrame, HeadersFrame, SettingsFrame

from tests.engine.uploading import HOST, PATIENCE, answer, served

CONNECTIONS = 40
BYTES = 60_000
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SettingsFrame().serialize()
SETTINGS = SettingsFrame(settings=dict.fromkeys(range(0x5000, 0x5000 + 60), 1)).serialize()
SENT = {
    "head": b"GET / HTTP/1.1\r\nx-large: " + b"a" * 30_000,
    "pipeline": (b"GET / HTTP/1.1\r\n" + HOST + b"\r\n") * 200,
    "body": b"POST / HTTP/1.1\r\n" + HOST + b"content-length: 100000\r\n\r\n" + bytes(BYTES),
    "settings": PREFACE + SETTINGS * 200,
    "frame": PREFACE + HeadersFrame(1, bytes(16_000)).serialize()[:15_000],
    "data": PREFACE + DataFrame(1, bytes(16_000)).serialize() * 3,
}


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_nothing_is_left_of_what_was_received(sent: bytes) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, b"yes")

    async def converse(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        await writer.drain()
        writer.write_eof()
        await reader.read()
        writer.transport.abort()

    async def used() -> int:
        """Return the memory in use once the server has handled the end of the last connection."""
        for _ in range(100):
            await asyncio.sleep(0)
        return tracemalloc.get_traced_memory()[0]

    async def main() -> int:
        async with served(app) as (port, _):
            await converse(port)
            before = await used()
            for _ in range(CONNECTIONS):
                await converse(port)
            return await used() - before

    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        left = asyncio.run(asyncio.wait_for(main(), PATIENCE))
    finally:
        tracemalloc.stop()
        gc.enable()
    assert left < CONNECTIONS * 1000
