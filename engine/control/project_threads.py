"""Threads for blocking calls of the control API.

Calls of one project leave threads to others, and the event loop's own threads serve files.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from engine.cancellation import finish
from engine.errors import SvcError
from engine.fair_threads import FairThreads, QueueFull

_THREADS = 16
PER_PROJECT = 4
MAX_WAITING = 64
"""Maximum calls of one project in progress, and of those that wait."""
_T = TypeVar("_T")


class ProjectThreads:
    """Runs blocking calls of projects in threads. Use it on one event loop."""

    def __init__(self, name: str, threads: int = _THREADS, max_waiting: int = MAX_WAITING) -> None:
        """`name` is the prefix of the threads' names, `threads` the maximum of calls in progress.

        `max_waiting` limits the waiting calls of one project.
        """
        pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._threads = FairThreads(threads, PER_PROJECT, max_waiting, pool)
        self._max_waiting = max_waiting

    async def run(self, project: str, work: Callable[[], _T]) -> _T:
        """Return the result of `work`. Raises its errors, and `SvcError` when too many calls wait.

        `project` is a name or a folder that identifies the project.
        """
        try:
            return await self._threads.run(project, work)
        except QueueFull as error:
            message = f"{self._max_waiting} requests to the data of the project are waiting"
            hint = "Wait for their responses, then try again."
            raise SvcError(message, hint, code="unavailable") from error

    def of(self, project: str) -> Callable[[Callable[[], _T]], Awaitable[_T]]:
        """Return a function that runs calls of a project. A canceled caller waits until its call ends."""

        async def run(work: Callable[[], _T]) -> _T:
            return await finish(asyncio.ensure_future(self.run(project, work)))

        return run
