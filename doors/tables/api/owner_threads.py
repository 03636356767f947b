"""Threads for SQL of a project's users, which may take minutes, apart from the threads of other work.

A project has a few of them. SQL whose caller is canceled, as by a disconnect, is interrupted.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from doors.tables.sqlite.errors import Connection

MAX_THREADS = 64
MAX_PER_PROJECT = 4
_INTERRUPT_SECONDS = 0.05
_T = TypeVar("_T")
_threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="tables-owner")
_slots: WeakValueDictionary[Path, asyncio.Semaphore] = WeakValueDictionary()


async def run_with_connection(
    data: Path, opened: AbstractContextManager[Connection], work: Callable[[Connection], _T]
) -> _T:
    """Return the result of `work` on an opened connection, in a thread of the project with this data folder.

    A canceled caller waits until the statement in progress has been interrupted.
    """
    async with _slots.setdefault(data, asyncio.Semaphore(MAX_PER_PROJECT)):
        running = _Running()
        job = asyncio.get_running_loop().run_in_executor(_threads, running.run, opened, work)
        try:
            return await asyncio.shield(job)
        finally:
            while not job.done():
                running.interrupt()
                await asyncio.wait({job}, timeout=_INTERRUPT_SECONDS)
            job.exception()


class _Running:
    """Work on a connection, which another thread can interrupt."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        """Guards against the interrupt of a closed connection."""

    def run(self, opened: AbstractContextManager[Connection], work: Callable[[Connection], _T]) -> _T:
        with opened as connection:
            with self._lock:
                self._connection = connection
            try:
                return work(connection)
            finally:
                with self._lock:
                    self._connection = None

    def interrupt(self) -> None:
        """Interrupt the statement that runs now, if one does."""
        with self._lock:
            if self._connection is not None:
                self._connection.interrupt()
