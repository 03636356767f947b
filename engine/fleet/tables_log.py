"""The logs of replicated tables, in one JetStream stream with a subject for each project.

Implements `engine.replication.ReplicatedLog`. Appending with the expected sequence is the commit.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from engine.fleet.connection import NatsConnection
from engine.fleet.lease import NodeLease
from engine.fleet.node_calls import NodeCalls
from engine.fleet.stream import MAX_BATCH_MESSAGES, JetStream
from engine.fleet.subjects import key_of, token
from engine.fleet.tables_snapshots import TablesSnapshots
from engine.replication import LogMessage, LogSnapshot, LogSnapshots

STREAM = "svc-tables"
LAST_SECONDS = 10.0
"""How long a question for the last message is repeated: a read waits for it."""


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
        self._stream = JetStream(connection, STREAM, namespace)
        self._snapshots = TablesSnapshots(connection, namespace, self._stream)
        self._lease = NodeLease(self._stream, node)
        self._present = present
        self._calls = NodeCalls(connection, f"{namespace}.tables", node, present)

    async def create(self) -> None:
        """Create the streams, unless they exist. Raises `BucketError`."""
        await self._stream.create(discard="new", allow_atomic=True, allow_rollup_hdrs=True)
        await self._snapshots.create()

    async def names(self) -> list[str]:
        """Return the names of the logs. Raises `BucketError`."""
        subjects = await self._stream.subjects("*")
        return sorted(key_of(subject) for subject in subjects)

    async def clear(self) -> None:
        """Remove all messages and snapshots. Raises `BucketError`."""
        await self._snapshots.clear()
        await self._stream.purge(">")

    async def append(self, name: str, contents: Sequence[bytes], expected: int) -> int | None:
        """See the protocol."""
        return await self._stream.publish_batch(token(name), contents, expected=expected)

    async def read(self, name: str, after: int) -> Sequence[LogMessage]:
        """See the protocol."""
        page = await self._stream.page(token(name), after)
        return [LogMessage(message.sequence, message.content) for message in page]

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

    @property
    def lease(self) -> str:
        """See the protocol."""
        return self._lease.name

    def holds(self, lease: str) -> bool:
        """See the protocol."""
        return self._lease.holds(lease)

    async def is_over(self, lease: str) -> bool:
        """See the protocol."""
        return await self._lease.is_over(lease)

    async def send(self, node: str, name: str, content: bytes) -> bytes | None:
        """See the protocol."""
        return await self._calls.call(node, name, content)

    @asynccontextmanager
    async def take_part(self, answer: Callable[[str, bytes], Awaitable[bytes]]) -> AsyncGenerator[None, None]:
        """See the protocol."""
        async with self._calls.serve(answer), self._lease.held():
            yield

    async def snapshots(self, name: str) -> LogSnapshots:
        """See the protocol."""
        return await self._snapshots.find(name)

    async def add_snapshot(self, name: str, snapshot: LogSnapshot, file: Path) -> None:
        """See the protocol."""
        await self._snapshots.add(name, snapshot, file)

    async def read_snapshot(self, name: str, snapshot: LogSnapshot, target: Path) -> bool:
        """See the protocol."""
        return await self._snapshots.read(name, snapshot, target)
