"""Writes to the bucket of the first argument endlessly from many tasks; prints each acknowledged write.

A line is `<kind> <number>`; what was written follows from the number (`content`). Numbers of a kind begin at
the second argument.
"""

import asyncio
import os
import sys
from pathlib import Path

from engine.bucket.folder import FolderBucket
from tests.support.blobs import put

TASKS = 6


def content(number: int) -> bytes:
    return b"content %d " % number * (1 + number * 7919 % 5000)


async def main(root: Path, first: int) -> None:
    bucket = FolderBucket(root)
    numbers = {kind: iter(range(first, 1 << 60)) for kind in ("blob", "cell")}

    async def write(kind: str) -> None:
        for number in numbers[kind]:
            if kind == "blob":
                await put(bucket.blobs, content(number))
            else:
                assert isinstance(await bucket.kv.cas(f"cell {number}", content(number), None), int)
            os.write(1, f"{kind} {number}\n".encode())

    await asyncio.gather(*(write(kind) for kind in numbers for _ in range(TASKS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
