"""The logs of replicated tables, in a JetStream stream with a subject for each project, and their snapshots.

Implements `engine.replication.ReplicatedLog`. Appending with the expected sequence is the commit.

Snapshots are blobs of their own, and a record for each project names two of them. The record is the truth,
and each step leaves it so: the file is stored before the record names it, the log is trimmed after the record
says so, and to the older snapshot, so that one corrupt file loses nothing. What an interrupted step leaves is
removed after the next snapshot.

A node stores its lease below its own subject and renews it, expecting its former message to be the last one.
Another node ends the lease by storing a message there, expecting a renewal that it saw LEASE_SECONDS before.
So no renewal was stored after that one. Both use their own monotonic clocks: the holder counts from before it
sent a renewal, the other node from after it saw it, so the lease is over for its holder first.
"""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from engine.bucket.protocols import BlobCorrupt, BlobMissing, BucketError, Digest
from engine.cancellation import cancel
from engine.fleet.bucket import MAX_BATCH_MESSAGES, JetStream, StreamContents, StreamKeyValue, key_of, token
from engine.fleet.connection import NatsConnection
from engine.fleet.members import Questions
from engine.replication import LogMessage, LogSnapshot, LogSnapshots

STREAM, SNAPSHOTS, RECORDS = "svc-tables", "svc-snapshots", "svc-records"
"""Streams: the logs, the contents of snapshots, and records about them."""
LAST_SECONDS = 10.0
"""How long a question for the last message is repeated: a read waits for it."""
UNUSED_NS = 3600 * 10**9
"""Files without a record are removed after this time, which an upload may need."""
LEASE_SECONDS = 2.0
MARGIN_SECONDS = 0.2
"""For its holder the lease ends this much before others may end it: clocks run at different speeds."""
RENEW_SECONDS = 0.5
SUBJECT = "=lease."
_REPLACE = {"Nats-Rollup": "sub"}
"""Header: the message replaces the one before."""
_log = logging.getLogger("svc.fleet")


class NodeLease:
    """The lease of this node, and what it observes of other leases."""

    def __init__(self, stream: JetStream, node: str) -> None:
        self._stream, self.node = stream, node
        self._id = ""
        self._sequence = 0
        """Sequence of the last message of this node's subject."""
        self._until = 0.0
        self._observed: dict[str, tuple[int, float]] = {}
        """The last message that was seen of each node, and when (monotonic seconds)."""

    @property
    def lease(self) -> str:
        return f"{self.node}.{self._id}" if self._id else ""

    def holds(self, lease: str) -> bool:
        return lease != "" and lease == self.lease and time.monotonic() < self._until

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None, None]:
        """Acquire the lease, and renew it within the context."""
        renewing = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            await cancel([renewing])
            self._until = 0.0
            with suppress(BucketError):
                await self._store(b"")
            self._id = ""

    async def _renew(self) -> None:
        while True:
            try:
                sent, id_ = time.monotonic(), self._id or secrets.token_hex(6)
                if await self._store(id_.encode()):
                    self._id, self._until = id_, sent + LEASE_SECONDS - MARGIN_SECONDS
                else:
                    # A renewal whose answer was lost was stored, or the end of the lease.
                    message = await self._stream.last(SUBJECT + self.node, LEASE_SECONDS)
                    self._sequence = message.sequence if message is not None else 0
                    if self._id and (message is None or message.content != self._id.encode()):
                        _log.warning("another node has ended the lease of this node, which did not answer")
                        self._id = ""
                    continue
            except BucketError as error:
                _log.debug("the lease was not renewed: %s", error)
            except Exception:
                _log.exception("the lease was not renewed")
            await asyncio.sleep(RENEW_SECONDS)

    async def _store(self, content: bytes) -> bool:
        sequence = await self._stream.publish(
            SUBJECT + self.node, content, expected=self._sequence, headers=_REPLACE, seconds=LEASE_SECONDS
        )
        self._sequence = sequence or self._sequence
        return sequence is not None

    async def is_over(self, lease: str) -> bool:
        node, _, id_ = lease.partition(".")
        if node == self.node:
            return lease != self.lease
        message = await self._stream.last(SUBJECT + node, LEASE_SECONDS)
        if message is None or message.content != id_.encode():
            return True
        sequence, since = self._observed.get(node, (0, 0.0))
        if sequence != message.sequence:
            self._observed[node] = message.sequence, time.monotonic()
            return False
        if time.monotonic() - since < LEASE_SECONDS:
            return False
        end = await self._stream.publish(
            SUBJECT + node, expected=sequence, headers=_REPLACE, seconds=LEASE_SECONDS
        )
        return end is not None


class TablesLog(NodeLease):
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
        super().__init__(JetStream(connection, STREAM, namespace), node)
        self.id = fleet
        self._connection, self._namespace, self._present = connection, namespace, present
        self._contents = JetStream(connection, SNAPSHOTS, namespace)
        self._records = JetStream(connection, RECORDS, f"{namespace}.snapshots")
        self._files = JetStream(connection, RECORDS, f"{namespace}.snapshot-files")
        self._kv = StreamKeyValue(self._records)
        self._calls = Questions(connection, f"{namespace}.tables", node, present)
        self.send = self._calls.call
        self.leader = self._stream.leader  # The server of a node has its name.

    async def create(self) -> None:
        """Create the streams, unless they exist."""
        await self._stream.create(discard="new", allow_atomic=True, allow_rollup_hdrs=True)
        await self._contents.create(discard="new", compression="s2")

    async def names(self) -> list[str]:
        subjects = await self._stream.subjects("*")
        return sorted(key_of(subject) for subject in subjects)

    async def clear(self) -> None:
        """Remove all messages and snapshots. Raises `BucketError`."""
        for stream in (self._records, self._files, self._contents, self._stream):
            await stream.purge(">")

    async def remove(self, name: str, up_to: int) -> None:
        """Remove a log up to a sequence, and its snapshots. Raises `BucketError`."""
        subject = token(name)
        await self._stream.purge(subject, up_to)
        await self._records.purge(subject)
        for stream in (self._files, self._contents):
            await stream.purge(f"{subject}.>")

    async def append(self, name: str, contents: Sequence[bytes], expected: int) -> int | None:
        return await self._stream.publish_batch(token(name), contents, expected=expected)

    async def read(self, name: str, after: int) -> Sequence[LogMessage]:
        return await self._stream.page(token(name), after)

    async def last(self, name: str) -> int:
        message = await self._stream.last(token(name), LAST_SECONDS)
        return message.sequence if message is not None else 0

    def news(self, name: str, on_news: Callable[[int], None]) -> AbstractAsyncContextManager[None]:
        return self._stream.news(token(name), on_news)

    def others(self) -> list[str]:
        return sorted(self._present() - {self.node})

    @asynccontextmanager
    async def take_part(self, answer: Callable[[str, bytes], Awaitable[bytes]]) -> AsyncGenerator[None, None]:
        async with self._calls.serve(answer), self.held():
            yield

    # -- snapshots ---------------------------------------------------------------------------------------

    def _blobs(self, name: str) -> StreamContents:
        subject = token(name)
        records = JetStream(self._connection, RECORDS, f"{self._namespace}.snapshot-files.{subject}")
        contents = JetStream(self._connection, SNAPSHOTS, f"{self._namespace}.{subject}")
        return StreamContents(contents, StreamKeyValue(records))

    async def snapshots(self, name: str) -> LogSnapshots:
        return (await self._find(name))[0]

    async def _find(self, name: str) -> tuple[LogSnapshots, int | None]:
        value = await self._kv.get(name)
        if value is None:
            return LogSnapshots(), None
        document = json.loads(value.value)
        stored = tuple(LogSnapshot(**each) for each in document["stored"])
        return LogSnapshots(stored, document["trimmed"]), value.revision

    async def add_snapshot(self, name: str, snapshot: LogSnapshot, file: Path) -> None:
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
        # Trim the log as its record says, and remove files that it does not name.
        current, now = await self.snapshots(name), time.time_ns()
        if current.trimmed:
            await self._stream.purge(token(name), current.trimmed)
        named = {each.digest for each in current.stored}
        async for blob in blobs.list():
            if blob.digest not in named:
                await blobs.delete(blob.digest, now + 1 if blob.digest in replaced else now - UNUSED_NS)
        await blobs.purge_orphans(now - UNUSED_NS)

    async def read_snapshot(self, name: str, snapshot: LogSnapshot, target: Path) -> bool:
        try:
            await self._blobs(name).copy_to(Digest(snapshot.digest), target)
        except (BlobMissing, BlobCorrupt):
            return False
        return True
