"""Recorder that writes a running project's usage to its file about once a second.

A thread writes, so that neither a slow disk nor another process delays a request.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine.errors import SvcError
from engine.files.quarantine import quarantine_database
from engine.timeline.bus import TimelineBus
from engine.usage.store import (
    MINUTE_NS,
    Aggregator,
    CorruptUsage,
    Key,
    UsageCopy,
    UsageCount,
    UsageError,
    UsageRow,
    UsageStore,
)

INTERVAL_SECONDS = 1.0
RETENTION_MINUTES = 31 * 24 * 60
DELETE_EVERY_MINUTES = 60
MAX_UNWRITTEN = 20_000
"""Maximum number of unwritten sums (one per minute and resource)."""


class UsageRecorder:
    """Follows a timeline from creation until `close`."""

    def __init__(
        self,
        path: Path,
        timeline: TimelineBus,
        warn: Callable[[SvcError], None],
        *,
        interval: float = INTERVAL_SECONDS,
        now_ns: Callable[[], int] = time.time_ns,
        publish: Callable[[Sequence[UsageRow]], None] | None = None,
    ) -> None:
        """Write to the file at `path`, which is created with the first sums. `publish` gets changed sums.

        `warn` is called, on another thread, when writing starts to fail and when a corrupt file is moved
        aside.
        """
        self._path = path
        self._warn = warn
        self._interval = interval
        self._now_ns = now_ns
        self._publish = publish
        self._copies: deque[UsageCopy] = deque()
        self._aggregator = Aggregator()
        self._store: UsageStore | None = None
        self._deleted_at = 0
        self._failing = False
        self._unsubscribe = timeline.subscribe(self._aggregator)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="usage", daemon=True)
        self._thread.start()

    def copy(self, node: str, rows: Sequence[UsageRow]) -> None:
        """Queue sums of another node."""
        self._copies.extend((node, row) for row in rows)

    @property
    def full(self) -> bool:
        """True while no further sums should be queued."""
        return len(self._copies) > MAX_UNWRITTEN

    def _work(self) -> None:
        while not self._stop.wait(self._interval):
            self._write()
        self._write()
        self._close_file()

    def _write(self) -> None:
        counts = self._aggregator.take()
        copies = [self._copies.popleft() for _ in range(len(self._copies))]
        if not counts and not copies:
            return
        try:
            store, sums = self._add(counts, copies)
        except SvcError as error:
            self._copies.extendleft(reversed(copies))
            self._aggregator.restore(counts, MAX_UNWRITTEN)
            if not self._failing:
                self._warn(error)
            self._failing = True
            return
        self._failing = False
        if sums and self._publish is not None:
            self._publish(sums)
        self._delete_old(store)

    def _add(
        self, counts: Mapping[Key, UsageCount], copies: Sequence[UsageCopy]
    ) -> tuple[UsageStore, list[UsageRow]]:
        """Add to the file, or to a new one that replaces a corrupt one; return the file and changed sums."""
        try:
            store = self._open()
            return store, store.add(counts, copies)
        except CorruptUsage as error:
            self._close_file()
            quarantined = quarantine_database(self._path, "usage", UsageStore.is_corrupt)
            if quarantined is None:
                raise
            self._warn(
                UsageError(f"{error.message}; a new file was created", f"Find the old file at {quarantined}.")
            )
            store = self._open()
            return store, store.add(counts, copies)

    def _open(self) -> UsageStore:
        if self._store is not None and self._store.replaced():
            self._close_file()
        if self._store is None:
            self._store = UsageStore(self._path)
        return self._store

    def _close_file(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = None

    def _delete_old(self, store: UsageStore) -> None:
        minute = self._now_ns() // MINUTE_NS
        if minute - self._deleted_at < DELETE_EVERY_MINUTES:
            return
        try:
            store.delete_before(minute - RETENTION_MINUTES)
        except SvcError as error:
            self._warn(error)
        self._deleted_at = minute

    def close(self) -> None:
        """Write the remaining sums and stop; call it after the last request."""
        self._unsubscribe()
        self._stop.set()
        self._thread.join()
