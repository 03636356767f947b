"""A log in memory, for tests of replication without a cluster."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from engine.errors import SvcError
from engine.replication import LogMessage, LogSnapshot, LogSnapshots


class MemoryLogs:
    """The stored logs, which several nodes share."""

    def __init__(self) -> None:
        self.messages: dict[str, list[LogMessage]] = {}
        self.listeners: list[tuple[str, Callable[[int], None]]] = []
        self.snapshots: dict[str, LogSnapshots] = {}
        self.files: dict[str, bytes] = {}
        self.receivers: dict[str, Callable[[str, bytes], Awaitable[bytes]]] = {}
        self.leases: dict[str, str] = {}
        """The lease of each node that takes part."""
        self.leader = ""
        self.sequence = 0
        self.available = True
        self.loses_news = False
        self.repeats_news = False
        """Whether old news and news of a message to come follows each news."""
        self.loses_calls = False
        self.lost_calls = 0
        """The number of next calls that are lost without an answer."""
        self.loses_answers = False
        """Whether appends are stored and not acknowledged."""

    def node(self, name: str) -> "MemoryLog":
        """Return the logs as a node uses them."""
        return MemoryLog(self, name)


class MemoryLog:
    """Implements `engine.replication.ReplicatedLog`."""

    id = "memory"
    max_messages = 1000

    def __init__(self, logs: MemoryLogs, node: str) -> None:
        self._logs, self.node = logs, node

    def _check(self) -> None:
        if not self._logs.available:
            raise SvcError("no majority", code="bucket-unavailable")

    async def append(self, name: str, contents: Sequence[bytes], expected: int) -> int | None:
        await asyncio.sleep(0)
        self._check()
        messages = self._logs.messages.setdefault(name, [])
        if (messages[-1].sequence if messages else 0) != expected:
            return None
        for content in contents:
            self._logs.sequence += 1
            messages.append(LogMessage(self._logs.sequence, content, datetime.now(UTC).isoformat()))
        sequence = self._logs.sequence
        news = [] if self._logs.loses_news else [sequence]
        if self._logs.repeats_news:
            news += [sequence, sequence + 1, max(sequence - 2, 1)]
        for log, on_news in self._logs.listeners:
            for each in news if log == name else ():
                on_news(each)
        if self._logs.loses_answers:
            raise SvcError("the answer was lost", code="bucket-unavailable")
        return self._logs.sequence

    async def read(self, name: str, after: int) -> Sequence[LogMessage]:
        await asyncio.sleep(0)
        self._check()
        return [each for each in self._logs.messages.get(name, []) if each.sequence > after][:7]

    async def last(self, name: str) -> int:
        await asyncio.sleep(0)
        self._check()
        messages = self._logs.messages.get(name)
        return messages[-1].sequence if messages else 0

    def news(self, name: str, on_news: Callable[[int], None]) -> AbstractAsyncContextManager[None]:
        @asynccontextmanager
        async def listen() -> AsyncIterator[None]:
            self._logs.listeners.append((name, on_news))
            try:
                yield
            finally:
                self._logs.listeners.remove((name, on_news))

        return listen()

    def others(self) -> list[str]:
        return sorted(self._logs.receivers.keys() - {self.node})

    async def leader(self) -> str:
        await asyncio.sleep(0)
        self._check()
        return self._logs.leader

    @property
    def lease(self) -> str:
        return self._logs.leases.get(self.node, "")

    def holds(self, lease: str) -> bool:
        return self._logs.available and lease != "" and lease == self.lease

    async def is_over(self, lease: str) -> bool:
        await asyncio.sleep(0)
        self._check()
        return lease not in self._logs.leases.values()

    async def send(self, node: str, name: str, content: bytes, seconds: float = 20) -> bytes | None:
        if self._logs.lost_calls:
            self._logs.lost_calls -= 1
            await asyncio.sleep(seconds)
            raise SvcError("no answer", code="bucket-unavailable")
        answer = await self._logs.receivers[node](name, content) if node in self._logs.receivers else None
        if self._logs.loses_calls:
            raise SvcError("the answer was lost", code="bucket-unavailable")
        return answer

    @asynccontextmanager
    async def take_part(self, answer: Callable[[str, bytes], Awaitable[bytes]]) -> AsyncIterator[None]:
        self._logs.receivers[self.node] = answer
        self._logs.leases[self.node] = f"{self.node}.{len(self._logs.receivers)}{self._logs.sequence}"
        try:
            yield
        finally:
            del self._logs.receivers[self.node], self._logs.leases[self.node]

    async def snapshots(self, name: str) -> LogSnapshots:
        self._check()
        return self._logs.snapshots.get(name, LogSnapshots())

    async def add_snapshot(self, name: str, snapshot: LogSnapshot, file: Path) -> None:
        self._check()
        old = self._logs.snapshots.get(name, LogSnapshots())
        if old.stored and old.stored[0].sequence >= snapshot.sequence:
            return
        self._logs.files[snapshot.digest] = file.read_bytes()
        trimmed = old.stored[0].sequence if old.stored else 0
        self._logs.snapshots[name] = LogSnapshots((snapshot, *old.stored[:1]), trimmed)
        messages = self._logs.messages[name]
        self._logs.messages[name] = [each for each in messages if each.sequence > trimmed]

    async def read_snapshot(self, name: str, snapshot: LogSnapshot, target: Path) -> bool:
        self._check()
        if snapshot.digest in self._logs.files:
            target.write_bytes(self._logs.files[snapshot.digest])
        return snapshot.digest in self._logs.files
