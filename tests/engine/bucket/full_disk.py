"""Fills the disk of a bucket, frees space again, and fails if the bucket lost an acknowledged write.

The disk is a small file system; with a second argument, it is a limit on file size.
"""

import asyncio
import os
import resource
import sys
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import BucketError, Digest
from engine.files import reserve

MANY = 20_000
NO_LIMIT = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


class Acknowledged:
    """The writes that the bucket acknowledged."""

    def __init__(self, bucket: FolderBucket) -> None:
        self.bucket = bucket
        self.blobs: dict[Digest, bytes] = {}
        self.cells: dict[str, bytes] = {}

    async def fill(self, size: int) -> set[str]:
        """Write until each of the two fails; return the hints."""
        hints = set()
        for write in (self.upload, self.cas):
            for number in range(MANY):
                try:
                    await write(os.urandom(size), number)
                except BucketError as error:
                    hints.add(error.hint)
                    break
            else:
                raise AssertionError("the disk takes everything")
        return hints

    async def upload(self, content: bytes, number: int) -> None:
        data = content * 64
        digest = Digest(sha256(data).hexdigest())

        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(data), len(content)):
                yield data[start : start + len(content)]

        assert await self.bucket.blobs.upload(digest, len(data), 0, chunks()) == len(data)
        self.blobs[digest] = data

    async def cas(self, content: bytes, number: int) -> None:
        key = f"cell {len(self.cells)}"
        assert isinstance(await self.bucket.kv.cas(key, content, None), int)
        self.cells[key] = content

    async def check(self) -> None:
        blobs = self.bucket.blobs
        assert {info.digest async for info in blobs.list()} == self.blobs.keys()
        assert all([await blobs.get(digest) == content for digest, content in self.blobs.items()])
        assert {cell.key: cell.value for cell in await self.bucket.kv.list("")} == self.cells
        assert os.listdir(self.bucket.root / "uploads") == []  # noqa: PTH208


async def main(root: Path, *, limited: bool) -> None:
    reserve.RESERVE_SHARE = 0.0
    stored = Acknowledged(FolderBucket(root))
    await stored.upload(b"before", 0)
    await stored.cas(b"before", 0)
    if limited:
        resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, resource.RLIM_INFINITY))
    hints = await stored.fill(10_000)
    assert all("space" in hint.lower() for hint in hints), hints
    await stored.check()
    resource.setrlimit(resource.RLIMIT_FSIZE, NO_LIMIT)
    for digest in list(stored.blobs)[1:]:
        del stored.blobs[digest]
        assert await stored.bucket.blobs.delete(digest, 1 << 62)
    for write in (stored.upload, stored.cas):
        await write(b"after", 0)
    await stored.check()
    await stored.bucket.aclose()
    stored.bucket = FolderBucket(root)
    await stored.check()
    await stored.bucket.aclose()
    print(f"whole, with {len(stored.cells)} cells")


asyncio.run(main(Path(sys.argv[1]), limited=len(sys.argv) > 2))
