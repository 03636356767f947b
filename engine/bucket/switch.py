"""A bucket whose content can move to another backend while a service uses it.

Changes of values wait during the last part of a move; everything else continues. A blob that is uploaded
during that part may be missing afterwards: a deploy then reports it, and repeating the deploy uploads it.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from engine.bucket.protocols import BlobInfo, Bucket, Digest, StaleRevision, VersionedValue


class SwitchableBucket:
    """Implements `engine.bucket.protocols.Bucket` by another one."""

    def __init__(self, bucket: Bucket) -> None:
        self.current = bucket
        self.blobs = _SwitchedBlobs(self)
        self.kv = _SwitchedKeyValue(self)
        self._changing = 0
        self._unchanged = asyncio.Event()
        self._thawed = asyncio.Event()
        self._unchanged.set()
        self._thawed.set()

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        """Count a change of a value; wait while the bucket is frozen."""
        while not self._thawed.is_set():
            await self._thawed.wait()
        self._changing += 1
        self._unchanged.clear()
        try:
            yield
        finally:
            self._changing -= 1
            if not self._changing:
                self._unchanged.set()

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Delay changes of values within the context; those in progress end first."""
        self._thawed.clear()
        try:
            await self._unchanged.wait()
            yield
        finally:
            self._thawed.set()

    async def aclose(self) -> None:
        """See the protocol."""
        await self.current.aclose()


class _SwitchedKeyValue:
    """Implements `engine.bucket.protocols.KeyValue`."""

    def __init__(self, switch: SwitchableBucket) -> None:
        self._switch = switch

    async def get(self, key: str) -> VersionedValue | None:
        """See the protocol."""
        return await self._switch.current.kv.get(key)

    async def cas(self, key: str, value: bytes | None, revision: int | None) -> int | StaleRevision:
        """See the protocol."""
        async with self._switch.changing():
            return await self._switch.current.kv.cas(key, value, revision)

    async def list(self, prefix: str) -> list[VersionedValue]:
        """See the protocol."""
        return await self._switch.current.kv.list(prefix)


class _SwitchedBlobs:
    """Implements `engine.bucket.protocols.Blobs`."""

    def __init__(self, switch: SwitchableBucket) -> None:
        self._switch = switch

    async def get(self, digest: Digest) -> bytes:
        """See the protocol."""
        return await self._switch.current.blobs.get(digest)

    def read(self, digest: Digest) -> AsyncGenerator[bytes, None]:
        """See the protocol."""
        return self._switch.current.blobs.read(digest)

    async def copy_to(self, digest: Digest, target: Path) -> None:
        """See the protocol."""
        await self._switch.current.blobs.copy_to(digest, target)

    async def touch(self, digest: Digest) -> bool:
        """See the protocol."""
        return await self._switch.current.blobs.touch(digest)

    def list(self) -> AsyncGenerator[BlobInfo, None]:
        """See the protocol."""
        return self._switch.current.blobs.list()

    async def delete(self, digest: Digest, before_ns: int) -> bool:
        """See the protocol."""
        return await self._switch.current.blobs.delete(digest, before_ns)

    async def received(self, digest: Digest) -> int:
        """See the protocol."""
        return await self._switch.current.blobs.received(digest)

    async def upload(
        self, digest: Digest, size: int, offset: int, chunks: AsyncIterable[bytes]
    ) -> int | StaleRevision:
        """See the protocol."""
        return await self._switch.current.blobs.upload(digest, size, offset, chunks)

    async def delete_uploads(self, before_ns: int, *, count_only: bool = False) -> int:
        """See the protocol."""
        return await self._switch.current.blobs.delete_uploads(before_ns, count_only=count_only)
