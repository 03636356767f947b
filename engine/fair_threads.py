"""Fair admission of the work of projects, and blocking work in a bounded number of threads."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import TypeVar

Answer = TypeVar("Answer")


class QueueFull(Exception):
    """Too much work of a project is waiting."""


class FairTurns:
    """Admits work of projects. Use it on one event loop.

    At most `most` pieces of work run at once, and `per_project` of one project. The next one is the oldest of
    the project with the fewest running; equal projects take turns.
    """

    def __init__(self, most: int, per_project: int, max_waiting: int) -> None:
        """`max_waiting` limits the waiting work of one project."""
        self._most = most
        self._per_project = per_project
        self._max_waiting = max_waiting
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Projects with waiting work, the one granted longest ago first."""

    @asynccontextmanager
    async def turn(self, project: str) -> AsyncIterator[None]:
        """Wait for the project's turn, and hold it. Raises QueueFull."""
        await self._enter(project)
        try:
            yield
        finally:
            self._leave(project)

    async def _enter(self, project: str) -> None:
        queue = self._waiting.get(project)
        if queue is None and self._free(project):
            self._running[project] += 1
            return
        if queue is None:
            queue = self._waiting[project] = deque()
        if len(queue) >= self._max_waiting:
            raise QueueFull
        ticket: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(ticket)
        try:
            await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled():
                self._leave(project)
            else:
                queue = self._waiting.get(project, deque())
                if ticket in queue:
                    queue.remove(ticket)
                    if not queue:
                        del self._waiting[project]
            raise

    def _free(self, project: str) -> bool:
        return self._running.total() < self._most and self._running[project] < self._per_project

    def _leave(self, project: str) -> None:
        self._running[project] -= 1
        if not self._running[project]:
            del self._running[project]
        while ready := [each for each in self._waiting if self._free(each)]:
            following = min(ready, key=lambda each: self._running[each])
            queue = self._waiting.pop(following)
            queue.popleft().set_result(None)
            self._running[following] += 1
            if queue:
                self._waiting[following] = queue


class FairThreads(FairTurns):
    """Runs blocking work of projects in threads, by turns."""

    def __init__(
        self, threads: int, per_project: int, max_waiting: int, pool: Executor | None = None
    ) -> None:
        """`max_waiting` limits the waiting calls of one project. `pool` is by default that of the loop."""
        super().__init__(threads, per_project, max_waiting)
        self._pool = pool

    async def run(self, project: str, work: Callable[[], Answer]) -> Answer:
        """Return the result of `work`, which runs in a thread. Raises QueueFull.

        A canceled caller leaves the queue. Work that has started runs to its end and occupies its thread
        until then.
        """
        return await asyncio.shield(await self.start(project, work))

    async def start(self, project: str, work: Callable[[], Answer]) -> "asyncio.Future[Answer]":
        """Wait for a thread, and return the result of `work` in it. Raises QueueFull."""
        await self._enter(project)

        def end(done: "asyncio.Future[Answer]") -> None:
            self._leave(project)
            if not done.cancelled():
                done.exception()  # A canceled caller does not retrieve it.

        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        future.add_done_callback(end)
        return future
