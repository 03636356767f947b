"""Protocol of a log that orders the changes of replicated data. The fleet implements it."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

CALL_SECONDS = 20.0
"""How long the answer of another node may take."""


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A stored message, and when that was (RFC 3339). Sequences of a log ascend, with gaps."""

    sequence: int
    content: bytes
    time: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSnapshot:
    """A stored file with the data of a log up to the message `sequence`.

    `schema` and `logged` belong to the writer: the schema version, and the size of the log up to there.
    """

    sequence: int
    schema: int
    logged: int
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class LogSnapshots:
    """The snapshots of a log, newest first. The log has all messages after `trimmed`."""

    stored: tuple[LogSnapshot, ...] = ()
    trimmed: int = 0


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

    def others(self) -> list[str]:
        """Return the other nodes that run, as far as this one observes."""

    async def leader(self) -> str:
        """Return the node beside the leader of the logs: its appends take the shortest way."""

    @property
    def lease(self) -> str:
        """This node's lease, `NODE.ID`; empty without one. A node that lost its lease gets another one."""

    def holds(self, lease: str) -> bool:
        """Return whether a lease is that of this node and cannot have ended. Call it on any thread."""

    async def is_over(self, lease: str) -> bool:
        """Return whether a lease has ended. Repeated calls end one that is not renewed meanwhile."""

    async def send(self, node: str, name: str, content: bytes, seconds: float = CALL_SECONDS) -> bytes | None:
        """Send a message to another node once and return its answer; None if that node does not run.

        Raises `SvcError` if no answer came in time: the node may have taken it.
        """

    def take_part(
        self, answer: Callable[[str, bytes], Awaitable[bytes]]
    ) -> AbstractAsyncContextManager[None]:
        """Acquire a lease, and answer the messages of other nodes within the context."""

    async def snapshots(self, name: str) -> LogSnapshots:
        """Return the snapshots of a log."""

    async def add_snapshot(self, name: str, snapshot: LogSnapshot, file: Path) -> None:
        """Store a file as the newest snapshot, and trim the log up to the one before.

        Does nothing if another node has stored a newer one. If it is interrupted, nothing is lost, and the
        next call completes it.
        """

    async def read_snapshot(self, name: str, snapshot: LogSnapshot, target: Path) -> bool:
        """Copy a snapshot to a new file. Return False if it is missing or corrupt. Raises OSError."""
