"""Keeps the usage of a running Project: what its timeline tells, written about once a second.

Owns the thread that writes, so that neither a slow disk nor another process makes a request wait.
"""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from engine.errors import SvcError
from engine.files.quarantine import quarantine_database
from engine.timeline.bus import Timeline
from engine.usage.aggregate import MINUTE_NS, Count, Counter, Key
from engine.usage.store import DamagedUsage, UsageError, UsageStore, damaged

EVERY_SECONDS = 1.0
KEPT_MINUTES = 31 * 24 * 60
TIDY_MINUTES = 60
UNWRITTEN = 20_000
"""How many sums (a minute of a Resource each) wait at most for a file that can not be written."""


class Recorder:
    """Follows a timeline from its making until `close`."""

    def __init__(
        self,
        path: Path,
        timeline: Timeline,
        warn: Callable[[SvcError], None],
        *,
        every: float = EVERY_SECONDS,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Write to the file at `path`; it is made when there is something to write.

        `warn` is called, on another thread, when usage begins to be lost to a fault, and when a damaged file
        is put aside.
        """
        self._path = path
        self._warn = warn
        self._every = every
        self._now_ns = now_ns
        self._counter = Counter()
        self._store: UsageStore | None = None
        self._tidied = 0
        self._failing = False
        self._unsubscribe = timeline.subscribe(self._counter)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="usage", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._stop.wait(self._every):
            self._write()
        self._write()
        self._let_go()

    def _write(self) -> None:
        counts = self._counter.take()
        if not counts:
            return
        try:
            store = self._added(counts)
        except SvcError as error:
            self._counter.give_back(counts, UNWRITTEN)
            if not self._failing:
                self._warn(error)
            self._failing = True
            return
        self._failing = False
        self._tidy(store)

    def _added(self, counts: Mapping[Key, Count]) -> UsageStore:
        """Add to the file, or to a new one in the place of one that is damaged; return the file."""
        try:
            store = self._opened()
            store.add(counts)
        except DamagedUsage as error:
            self._let_go()
            aside = quarantine_database(self._path, "usage", damaged)
            if aside is None:
                raise
            self._warn(UsageError(f"{error.message}; a new one is begun", f"The old one is {aside}"))
            store = self._opened()
            store.add(counts)
        return store

    def _opened(self) -> UsageStore:
        if self._store is not None and self._store.replaced():
            self._let_go()
        if self._store is None:
            self._store = UsageStore(self._path)
        return self._store

    def _let_go(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = None

    def _tidy(self, store: UsageStore) -> None:
        minute = self._now_ns() // MINUTE_NS
        if minute - self._tidied < TIDY_MINUTES:
            return
        try:
            store.forget(minute - KEPT_MINUTES)
        except SvcError as error:
            self._warn(error)
        self._tidied = minute

    def close(self) -> None:
        """Write what is left and end; call when all requests are over."""
        self._unsubscribe()
        self._stop.set()
        self._thread.join()
