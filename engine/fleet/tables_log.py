"""The logs of replicated tables, in one JetStream stream with a subject for each project.

Implements `engine.replication.ReplicatedLog`. Appending with the expected sequence is the commit.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from engine.fleet.connection import NatsConnection
from engine.fleet.node_calls import NodeCalls
from engine.fleet.stream import MAX_BATCH_MESSAGES, JetStream
from engine.fleet.subjects import key_of, token
from engine.fleet.tables_snapshots import TablesSnapshots
from engine.replication import LogMessage, LogSnapshot, LogSnapshots

STREAM = "svc-tables"
LAST_SECONDS = 10.0
"""How long a question for the last message is repeated: a read waits for it."""
CONFIRMED_SECONDS = 2.0
"""How long the leader of the stream is known to be the only one after it stored a message.

Two of three servers have the message then. Neither elects another leader within 4 seconds, the minimum of
nats-server, and the third one cannot be elected without the message. A leader that is cut off answers
questions for longer.
"""
CONFIRMATION = "=confirmation"
"""Subject of messages that only confirm the leader. The names of projects have no such token."""


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
        self._connection, self._present = connection, present
        self._calls = NodeCalls(connection, f"{namespace}.tables", node, self.present)
        self._confirmed = -math.inf, 0
        """When the last message that was stored was sent, and after how many reconnects."""
        self._confirming: asyncio.Task[None] | None = None

    async def create(self) -> None:
        """Create the streams, unless they exist. Raises `BucketError`."""
        await self._stream.create(discard="new", allow_atomic=True, allow_rollup_hdrs=True)
        await self._snapshots.create()

    async def names(self) -> list[str]:
        """Return the names of the logs. Raises `BucketError`."""
        subjects = await self._stream.subjects("*")
        return sorted(key_of(subject) for subject in subjects - {CONFIRMATION})

    async def clear(self) -> None:
        """Remove all messages and snapshots. Raises `BucketError`."""
        await self._snapshots.clear()
        await self._stream.purge(">")

    async def append(self, name: str, contents: Sequence[bytes], expected: int) -> int | None:
        """See the protocol."""
        sent = time.monotonic(), self._connection.reconnects
        sequence = await self._stream.publish_batch(token(name), contents, expected=expected)
        if sequence is not None:
            self._confirmed = max(self._confirmed, sent)
        return sequence

    async def read(self, name: str, after: int) -> Sequence[LogMessage]:
        """See the protocol."""
        page = await self._stream.page(token(name), after)
        return [LogMessage(message.sequence, message.content) for message in page]

    async def last(self, name: str) -> int:
        """See the protocol."""
        if self._confirmed_for() < CONFIRMED_SECONDS / 2:
            if self._confirming is None or self._confirming.done():
                self._confirming = asyncio.create_task(self._confirm())
                self._confirming.add_done_callback(_ignore)
            if self._confirmed_for() < 0:
                await asyncio.shield(self._confirming)
        message = await self._stream.last(token(name), LAST_SECONDS)
        return message.sequence if message is not None else 0

    def _confirmed_for(self) -> float:
        """Return for how many seconds the leader is known to be the only one."""
        sent, reconnects = self._confirmed
        if reconnects != self._connection.reconnects:  # The other server may be on another side of a cut.
            return -math.inf
        return sent + CONFIRMED_SECONDS - time.monotonic()

    async def _confirm(self) -> None:
        """Store a message, which replaces the one before."""
        sent = time.monotonic(), self._connection.reconnects
        await self._stream.publish(CONFIRMATION, headers={"Nats-Rollup": "sub"}, seconds=LAST_SECONDS)
        self._confirmed = max(self._confirmed, sent)

    def news(self, name: str, on_news: Callable[[int], None]) -> AbstractAsyncContextManager[None]:
        """See the protocol."""
        return self._stream.news(token(name), on_news)

    def present(self, node: str) -> bool:
        """See the protocol."""
        return node in self._present()

    async def send(self, node: str, name: str, content: bytes) -> bytes | None:
        """See the protocol."""
        return await self._calls.call(node, name, content)

    def receive(
        self, answer: Callable[[str, bytes], Awaitable[bytes | None]]
    ) -> AbstractAsyncContextManager[None]:
        """See the protocol."""
        return self._calls.serve(answer)

    async def snapshots(self, name: str) -> LogSnapshots:
        """See the protocol."""
        return await self._snapshots.find(name)

    async def add_snapshot(self, name: str, snapshot: LogSnapshot, file: Path) -> None:
        """See the protocol."""
        await self._snapshots.add(name, snapshot, file)

    async def read_snapshot(self, name: str, snapshot: LogSnapshot, target: Path) -> bool:
        """See the protocol."""
        return await self._snapshots.read(name, snapshot, target)


def _ignore(confirming: "asyncio.Task[None]") -> None:
    if not confirming.cancelled():
        confirming.exception()  # Otherwise asyncio logs it. The next question confirms again.
