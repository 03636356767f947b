"""A log in memory, for tests of replication without a cluster."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from engine.errors import SvcError
from engine.replication import LogMessage


class MemoryLogs:
    """The stored logs, which several nodes share."""

    def __init__(self) -> None:
        self.messages: dict[str, list[LogMessage]] = {}
        self.listeners: list[tuple[str, Callable[[int], None]]] = []
        self.sequence = 0
        self.available = True

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
            messages.append(LogMessage(self._logs.sequence, content))
        for log, on_news in self._logs.listeners:
            if log == name:
                on_news(self._logs.sequence)
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

    def present(self, node: str) -> bool:
        return True
