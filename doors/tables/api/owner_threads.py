"""Threads for SQL of a project's users, which may take minutes, and is interrupted with its caller."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TypeVar

from doors.tables.sqlite.errors import Connection
from engine.control.project_threads import ProjectThreads

_INTERRUPT_SECONDS = 0.05
_T = TypeVar("_T")
_threads = ProjectThreads("tables-owner", threads=64)


async def run_with_connection(
    data: Path, opened: AbstractContextManager[Connection], work: Callable[[Connection], _T]
) -> _T:
    """Return the result of `work` on an opened connection, in a thread of the project with this data folder.

    A canceled caller waits until the statement in progress has been interrupted. Raises `SvcError` when too
    many calls wait.
    """
    running = _Running()
    try:
        return await _threads.run(str(data), lambda: running.run(opened, work))
    except asyncio.CancelledError:
        while running.cancel():
            with suppress(TimeoutError):
                await asyncio.wait_for(running.ended.wait(), _INTERRUPT_SECONDS)
        raise


class _Running:
    """Work on a connection, which another thread can cancel."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        """Set when the work has ended."""
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._active = self._canceled = False
        self._lock = threading.Lock()
        """Guards against the interrupt of a closed connection."""

    def run(self, opened: AbstractContextManager[Connection], work: Callable[[Connection], _T]) -> _T:
        with self._lock:
            if self._canceled:
                raise InterruptedError
            self._active = True
        try:
            with opened as connection:
                with self._lock:
                    self._connection = connection
                try:
                    return work(connection)
                finally:
                    with self._lock:
                        self._connection = None
        finally:
            self._active = False
            self._loop.call_soon_threadsafe(self.ended.set)

    def cancel(self) -> bool:
        """Interrupt the statement that runs now. Return whether the work is still in progress."""
        with self._lock:
            self._canceled = True
            if self._connection is not None:
                self._connection.interrupt()
            return self._active
