"""Threads for blocking calls of the control API.

Calls of one project leave threads to others, and the event loop's own threads serve files.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from engine.errors import SvcError
from engine.fair_threads import FairThreads, QueueFull

_THREADS = 16
PER_PROJECT = 4
MAX_WAITING = 64
"""Maximum calls of one project in progress, and of those that wait."""
_T = TypeVar("_T")


class ProjectThreads:
    """Runs blocking calls of projects in threads. Use it on one event loop."""

    def __init__(self, name: str, threads: int = _THREADS) -> None:
        """`name` is the prefix of the threads' names, `threads` the maximum of calls in progress."""
        pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._threads = FairThreads(threads, PER_PROJECT, MAX_WAITING, pool)

    async def run(self, project: str, work: Callable[[], _T]) -> _T:
        """Return the result of `work`. Raises its errors, and `SvcError` when too many calls wait.

        `project` is a name or a folder that identifies the project.
        """
        try:
            return await self._threads.run(project, work)
        except QueueFull as error:
            raise SvcError(
                f"{MAX_WAITING} requests to the data of the project are waiting",
                "Wait for their responses, then try again.",
                code="unavailable",
            ) from error
