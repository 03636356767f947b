"""The logs of replicated tables, in one JetStream stream with a subject for each project.

Implements `engine.replication.ReplicatedLog`. Appending with the expected sequence is the commit.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from engine.fleet.connection import NatsConnection
from engine.fleet.stream import MAX_BATCH_MESSAGES, JetStream
from engine.fleet.subjects import token
from engine.replication import LogMessage

STREAM = "svc-tables"
LAST_SECONDS = 5.0
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
        """Use a stream that exists (`create`). `present` returns the nodes that are present."""
        self.id, self.node = fleet, node
        self._stream = JetStream(connection, STREAM, namespace)
        self._present = present

    async def create(self) -> None:
        """Create the stream, unless it exists. Raises `BucketError`."""
        await self._stream.create(discard="new", allow_atomic=True)

    async def clear(self) -> None:
        """Remove all messages. Raises `BucketError`."""
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

    def present(self, node: str) -> bool:
        """See the protocol."""
        return node in self._present()
