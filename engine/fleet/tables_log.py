"""The logs of replicated tables, in a JetStream stream with a subject for each project, and their snapshots.

Implements `engine.replication.ReplicatedLog`. Appending with the expected sequence is the commit.

Snapshots are blobs of their own, and a record for each project names two of them. The record is the truth,
and each step leaves it so: the file is stored before the record names it, the log is trimmed after the record
says so, and to the older snapshot, so that one corrupt file loses nothing. What an interrupted step leaves is
removed after the next snapshot.
"""

import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from pathlib import Path

from engine.bucket.protocols import BlobCorrupt, BlobMissing, Digest
from engine.fleet.blobs import StreamContents
from engine.fleet.connection import NatsConnection
from engine.fleet.kv import StreamKeyValue, key_of, token
from engine.fleet.lease import NodeLease
from engine.fleet.questions import NodeCalls
from engine.fleet.stream import MAX_BATCH_MESSAGES, JetStream
from engine.replication import LogMessage, LogSnapshot, LogSnapshots

STREAM, SNAPSHOTS, RECORDS = "svc-tables", "svc-snapshots", "svc-records"
"""Streams: the logs, the contents of snapshots, and records about them."""
LAST_SECONDS = 10.0
"""How long a question for the last message is repeated: a read waits for it."""
UNUSED_NS = 3600 * 10**9
"""Files without a record are removed after this time, which an upload may need."""


class TablesLog:
    """See `engine.replication.ReplicatedLog`."""

    max_messages = MAX_BATCH_MESSAGES

    def __init__(
        self,
        connection: NatsConnection,
        namespace: str,
        fleet: str,
        node: str,
        present: Callable[[], set[str]],
    ) -> None:
        """Use streams that exist (`create`). `present` returns the nodes that are present."""
        self.id, self.node = fleet, node
        self._connection, self._namespace, self._present = connection, namespace, present
        self._stream = JetStream(connection, STREAM, namespace)
        self._contents = JetStream(connection, SNAPSHOTS, namespace)
        self._records = JetStream(connection, RECORDS, f"{namespace}.snapshots")
        self._files = JetStream(connection, RECORDS, f"{namespace}.snapshot-files")
        self._kv = StreamKeyValue(self._records)
        self._lease = NodeLease(self._stream, node)
        self.holds, self.is_over = self._lease.holds, self._lease.is_over
        self._calls = NodeCalls(connection, f"{namespace}.tables", node, present)
        self.send = self._calls.call

    async def create(self) -> None:
        """Create the streams, unless they exist. Raises `BucketError`."""
        await self._stream.create(discard="new", allow_atomic=True, allow_rollup_hdrs=True)
        await self._contents.create(discard="new", compression="s2")

    async def names(self) -> list[str]:
        """Return the names of the logs. Raises `BucketError`."""
        subjects = await self._stream.subjects("*")
        return sorted(key_of(subject) for subject in subjects)

    async def clear(self) -> None:
        """Remove all messages and snapshots. Raises `BucketError`."""
        for stream in (self._records, self._files, self._contents, self._stream):
            await stream.purge(">")

    async def append(self, name: str, contents: Sequence[bytes], expected: int) -> int | None:
        """See the protocol."""
        return await self._stream.publish_batch(token(name), contents, expected=expected)

    async def read(self, name: str, after: int) -> Sequence[LogMessage]:
        """See the protocol."""
        page = await self._stream.page(token(name), after)
        return [LogMessage(message.sequence, message.content, message.time) for message in page]

    async def last(self, name: str) -> int:
        """See the protocol."""
        message = await self._stream.last(token(name), LAST_SECONDS)
        return message.sequence if message is not None else 0

    def news(self, name: str, on_news: Callable[[int], None]) -> AbstractAsyncContextManager[None]:
        """See the protocol."""
        return self._stream.news(token(name), on_news)

    def others(self) -> list[str]:
        """See the protocol."""
        return sorted(self._present() - {self.node})

    async def leads(self) -> bool:
        """See the protocol. The server of a node has its name."""
        return await self._stream.leader() == self.node

    @property
    def lease(self) -> str:
        """See the protocol."""
        return self._lease.name

    @asynccontextmanager
    async def take_part(self, answer: Callable[[str, bytes], Awaitable[bytes]]) -> AsyncGenerator[None, None]:
        """See the protocol."""
        async with self._calls.serve(answer), self._lease.held():
            yield

    # -- snapshots ---------------------------------------------------------------------------------------

    def _blobs(self, name: str) -> StreamContents:
        subject = token(name)
        records = JetStream(self._connection, RECORDS, f"{self._namespace}.snapshot-files.{subject}")
        contents = JetStream(self._connection, SNAPSHOTS, f"{self._namespace}.{subject}")
        return StreamContents(contents, StreamKeyValue(records))

    async def snapshots(self, name: str) -> LogSnapshots:
        """See the protocol."""
        return (await self._find(name))[0]

    async def _find(self, name: str) -> tuple[LogSnapshots, int | None]:
        value = await self._kv.get(name)
        if value is None:
            return LogSnapshots(), None
        document = json.loads(value.value)
        stored = tuple(LogSnapshot(**each) for each in document["stored"])
        return LogSnapshots(stored, document["trimmed"]), value.revision

    async def add_snapshot(self, name: str, snapshot: LogSnapshot, file: Path) -> None:
        """See the protocol."""
        blobs, digest = self._blobs(name), Digest(snapshot.digest)
        await blobs.store(file, digest)
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

    async def _clean(self, name: str, blobs: StreamContents, replaced: set[str]) -> None:
        """Trim the log as its record says, and remove files that it does not name."""
        current = await self.snapshots(name)
        if current.trimmed:
            await self._stream.purge(token(name), current.trimmed)
        named = {each.digest for each in current.stored}
        now = time.time_ns()
        async for blob in blobs.list():
            if blob.digest not in named:
                await blobs.delete(blob.digest, now + 1 if blob.digest in replaced else now - UNUSED_NS)
        await blobs.purge_orphans(now - UNUSED_NS)

    async def read_snapshot(self, name: str, snapshot: LogSnapshot, target: Path) -> bool:
        """See the protocol."""
        try:
            await self._blobs(name).copy_to(Digest(snapshot.digest), target)
        except (BlobMissing, BlobCorrupt):
            return False
        return True
