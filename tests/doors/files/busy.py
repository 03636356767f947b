"""Stores, copies, removes and collects files of a folder at random, beside other processes."""

import asyncio
import random
import time
from pathlib import Path

from engine.deploy.gc import GRACE_NS, remove_unused
from engine.errors import SvcError
from tests.doors.files.files_door import Files

CONTENTS = [random.Random(each).randbytes(1000 + each * 100) for each in range(100)]
KEYS = [f"key-{each}" for each in range(60)]
FAR_MS = 10**15


async def collect(files: Files, since_ms: int, before_ns: int) -> tuple[int, int]:
    """Remove the blobs that no file has, nor one that was removed since a time."""
    needed = await files.door.store.referenced(since_ms)
    return await remove_unused(files.blobs, needed, before_ns)


async def use(files: Files, chance: random.Random) -> None:
    """Send a request that writes."""
    key = chance.choice(KEYS)
    match chance.randrange(6):
        case 0:
            answer = await files.ask("DELETE", f"/v1/files/{key}")
            assert answer.status == 204 or answer.code == "busy", answer.document
        case 1:
            try:
                await files.door.store.copy(key, chance.choice(KEYS), lambda _: None, "")
            except SvcError as error:
                assert error.code in ("not-found", "busy")
        case _:
            answer = await files.put(key, chance.choice(CONTENTS))
            assert answer.status == 201 or answer.code == "busy", answer.document


def main(folder: Path, seed: int, requests: int) -> None:
    """Send requests, four at once, and collect garbage all the time."""

    async def run() -> None:
        files, chance = Files(folder), random.Random(seed)

        async def client() -> None:
            for _ in range(requests):
                await use(files, chance)

        clients = asyncio.gather(*(client() for _ in range(4)))
        while not clients.done():
            await collect(files, FAR_MS, time.time_ns() - GRACE_NS)
            await asyncio.sleep(0)
        await clients

    asyncio.run(run())
