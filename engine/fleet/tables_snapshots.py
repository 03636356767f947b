"""Snapshots of replicated tables: blobs of their own, and a record for each project that names two of them.

The record is the truth, and each step leaves it so: the file is stored before the record names it, the log is
trimmed after the record says so, and to the older snapshot, so that one corrupt file loses nothing. What an
interrupted step leaves is removed after the next snapshot.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from engine.bucket.copy import upload_blob
from engine.bucket.errors import BlobCorrupt, BlobMissing
from engine.bucket.protocols import Digest
from engine.fleet.blobs import MESSAGE_BYTES, StreamBlobs
from engine.fleet.connection import NatsConnection
from engine.fleet.kv import StreamKeyValue
from engine.fleet.stream import JetStream
from engine.fleet.subjects import token
from engine.replication import LogSnapshot, LogSnapshots

STREAM = "svc-snapshots"
RECORDS = "svc-records"
UNUSED_NS = 3600 * 10**9
"""Files without a record are removed after this time, which an upload may need."""


class TablesSnapshots:
    """The snapshots of all logs of a stream."""

    def __init__(self, connection: NatsConnection, namespace: str, log: JetStream) -> None:
        """`log` has a subject for each project, which is trimmed."""
        self._connection, self._namespace, self._log = connection, namespace, log
        self._contents = JetStream(connection, STREAM, namespace)
        self._records = JetStream(connection, RECORDS, f"{namespace}.snapshots")
        self._files = JetStream(connection, RECORDS, f"{namespace}.snapshot-files")
        self._kv = StreamKeyValue(self._records)

    async def create(self) -> None:
        """Create the stream, unless it exists. Raises `BucketError`."""
        await self._contents.create(discard="new", compression="s2")

    async def clear(self) -> None:
        """Remove all snapshots. Raises `BucketError`."""
        for stream in (self._records, self._files, self._contents):
            await stream.purge(">")

    def _blobs(self, name: str) -> StreamBlobs:
        subject = token(name)
        records = JetStream(self._connection, RECORDS, f"{self._namespace}.snapshot-files.{subject}")
        contents = JetStream(self._connection, STREAM, f"{self._namespace}.{subject}")
        return StreamBlobs(contents, StreamKeyValue(records))

    async def find(self, name: str) -> LogSnapshots:
        """See `ReplicatedLog.snapshots`."""
        return (await self._find(name))[0]

    async def _find(self, name: str) -> tuple[LogSnapshots, int | None]:
        value = await self._kv.get(name)
        if value is None:
            return LogSnapshots(), None
        document = json.loads(value.value)
        stored = tuple(LogSnapshot(**each) for each in document["stored"])
        return LogSnapshots(stored, document["trimmed"]), value.revision

    async def add(self, name: str, snapshot: LogSnapshot, file: Path) -> None:
        """See `ReplicatedLog.add_snapshot`."""
        blobs, digest = self._blobs(name), Digest(snapshot.digest)
        await upload_blob(blobs, digest, snapshot.size, partial(_chunks, file))
        replaced = {snapshot.digest}
        while True:
            old, revision = await self._find(name)
            if old.stored and old.stored[0].sequence >= snapshot.sequence:
                break
            # A snapshot that is lost must not be the one to which the log is trimmed.
            older = tuple([each for each in old.stored[:1] if await blobs.touch(Digest(each.digest))])
            new = LogSnapshots((snapshot, *older), max([old.trimmed, *(each.sequence for each in older)]))
            content = json.dumps(asdict(new)).encode()
            if isinstance(await self._kv.cas(name, content, revision), int):
                replaced |= {each.digest for each in old.stored}
                break
        await self._clean(name, blobs, replaced)

    async def _clean(self, name: str, blobs: StreamBlobs, replaced: set[str]) -> None:
        """Trim the log as its record says, and remove files that it does not name."""
        current = await self.find(name)
        if current.trimmed:
            await self._log.purge(token(name), current.trimmed)
        named = {each.digest for each in current.stored}
        now = time.time_ns()
        async for blob in blobs.list():
            if blob.digest not in named:
                await blobs.delete(blob.digest, now + 1 if blob.digest in replaced else now - UNUSED_NS)
        await blobs.delete_uploads(now - UNUSED_NS)

    async def read(self, name: str, snapshot: LogSnapshot, target: Path) -> bool:
        """See `ReplicatedLog.read_snapshot`."""
        try:
            await self._blobs(name).copy_to(Digest(snapshot.digest), target)
        except (BlobMissing, BlobCorrupt):
            return False
        return True


async def _chunks(file: Path, begin: int) -> AsyncGenerator[bytes, None]:
    with file.open("rb") as source:
        source.seek(begin)
        while chunk := await asyncio.to_thread(source.read, MESSAGE_BYTES):
            yield chunk
