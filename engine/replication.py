"""Protocol of a log that orders the changes of replicated data. The fleet implements it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A stored message. Sequences of a log ascend, with gaps."""

    sequence: int
    content: bytes


class ReplicatedLog(Protocol):
    """One log for each name. Use it on the event loop that opened it.

    Operations raise `SvcError` when the fleet does not answer. An append may then be stored or not.
    """

    id: str
    """Identifies the logs. Positions in other logs are meaningless."""
    node: str
    """Identifies this node among those that use the logs."""
    max_messages: int
    """The number of messages that can be appended together."""

    async def append(self, name: str, contents: Sequence[bytes], expected: int) -> int | None:
        """Store messages, all or none, and return the sequence of the last one.

        `expected` is the sequence of the last message of the log, 0 for none. Returns `None` if it is another
        one: the messages are not stored, now or later.
        """

    async def read(self, name: str, after: int) -> Sequence[LogMessage]:
        """Return the next messages after a sequence, in order; empty if there are no more."""

    async def last(self, name: str) -> int:
        """Return the sequence of the last message that was stored before this call, 0 for none."""

    def news(self, name: str, on_news: Callable[[int], None]) -> AbstractAsyncContextManager[None]:
        """Call a function with the sequence of each new message. News may be lost."""

    def present(self, node: str) -> bool:
        """Return whether a node is running, as far as this one observes."""
