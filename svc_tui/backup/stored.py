"""The bucket in a backup, as far as copies and checks of buckets read one."""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

from engine.bucket.protocols import BlobCorrupt, BlobInfo, BlobMissing, Digest, VersionedValue
from svc_tui.backup.names import BLOBS, blob_name, parse_blobs
from svc_tui.backup.store import BackupDamaged, BackupStore


def read_values(store: BackupStore, name: str) -> dict[str, bytes]:
    """Return the values of an object. Raises `BackupError`."""
    return {key: b64decode(value) for key, value in json.loads(store.get(name)).items()}


@dataclass(frozen=True, slots=True)
class StoredValues:
    """Values of a backup."""

    values: Mapping[str, bytes]

    async def get(self, key: str) -> VersionedValue | None:
        return VersionedValue(key, self.values[key], 1) if key in self.values else None

    async def list(self, prefix: str) -> list[VersionedValue]:
        return [
            VersionedValue(*each, 1) for each in sorted(self.values.items()) if each[0].startswith(prefix)
        ]


class StoredBlobs:
    """The blobs of a backup, with their sizes. Those that were found damaged are no longer listed."""

    def __init__(self, store: BackupStore, sizes: Mapping[str, int]) -> None:
        self._store, self._sizes = store, dict(sizes)

    async def list(self) -> AsyncGenerator[BlobInfo, None]:
        for digest, size in list(self._sizes.items()):
            yield BlobInfo(Digest(digest), size, 0)

    async def read(self, digest: Digest) -> AsyncGenerator[bytes, None]:
        """See `Blobs`. Raises `BlobCorrupt` and `BlobMissing`."""
        if digest not in self._sizes:
            raise BlobMissing(digest)
        pieces = self._store.read(blob_name(digest, self._sizes[digest]))
        try:
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                yield piece
        except BackupDamaged as error:
            del self._sizes[digest]
            raise BlobCorrupt(digest) from error


class StoredBucket:
    """The bucket in a backup, with the values of one time or of several ones."""

    def __init__(self, store: BackupStore, values: Mapping[str, bytes], blobs: Mapping[str, int]) -> None:
        """`blobs` are digests and sizes."""
        self.kv = StoredValues(values)
        self.blobs = StoredBlobs(store, blobs)


def stored_blobs(store: BackupStore) -> dict[str, int]:
    """Return digests and sizes of the blobs of a backup. Raises `BackupError`."""
    return parse_blobs(each.name for each in store.list(BLOBS))
