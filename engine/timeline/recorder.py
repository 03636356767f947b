"""Keeps the timeline of a running Project in its file, a tenth of a second's worth at a time.

Owns the thread that writes, so that neither a slow disk nor another process makes a request wait, and the
bounds of what waits for it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from engine.errors import SvcError
from engine.files.quarantine import quarantine_database
from engine.timeline.bus import TimelineBus
from engine.timeline.database import CorruptTimeline, NewerTimeline, TimelineError, is_corrupt
from engine.timeline.record import PlatformRecord, Record, RequestRecord, StructuredRecord
from engine.timeline.recording import Recording
from engine.timeline.store import Retention, TimelineStore

INTERVAL_SECONDS = 0.1
BATCH = 500
RETRY_SECONDS = 1.0
TRIM_SECONDS = 1.0
MAX_PENDING_BYTES = 64 << 20
"""How much waits at most for a file that can not be written, or not fast enough; what comes then is lost."""

_RECORD_OVERHEAD = 512
"""What a record takes beside its text."""


class TimelineRecorder:
    """Follows a timeline from its making until `close`; its calls may come from any thread."""

    def __init__(
        self,
        path: Path,
        timeline: TimelineBus,
        warn: Callable[[SvcError], None],
        *,
        retention: Retention | None = None,
        interval: float = INTERVAL_SECONDS,
        retry: float = RETRY_SECONDS,
        max_pending_bytes: int = MAX_PENDING_BYTES,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Write to the file at `path`; it is made when there is something to write.

        `warn` is called, on another thread, when the file begins to be out of use, and when it is put aside.
        """
        self._path = path
        self._warn = warn
        self._retention = retention
        self._interval = interval
        self._retry = retry
        self._max_pending_bytes = max_pending_bytes
        self._now_ns = now_ns
        self._store: TimelineStore | None = None
        self._lock = threading.Lock()
        self._incoming: list[Record | Recording] = []
        self._pending: deque[Record | Recording] = deque()  # the writing thread's own
        self._bytes = 0  # of both
        self._lost = 0
        self._trimmed = 0.0
        self._failing = False
        self._stopping = False
        self._wakeup = threading.Event()
        self._batch_full = threading.Event()
        self._following = timeline.subscribe(self), timeline.on_recording(self)
        self._thread = threading.Thread(target=self._work, name="timeline", daemon=True)
        self._thread.start()

    def __call__(self, record: Record | Recording) -> None:
        """Take a record, or a recording after the record of its request; never waits."""
        size = _size(record)
        with self._lock:
            if self._bytes + size > self._max_pending_bytes:
                self._lost += 1
                return
            self._bytes += size
            self._incoming.append(record)
            count = len(self._incoming)
        if count == 1:
            self._wakeup.set()
        elif count == BATCH:
            self._batch_full.set()

    def _unsubscribe(self) -> None:
        for end in self._following:
            end()

    def _work(self) -> None:
        pause = self._interval
        while not self._stopping:
            self._wakeup.wait()
            self._wakeup.clear()
            self._batch_full.wait(pause)
            if not self._stopping:
                self._batch_full.clear()
            try:
                written = self._write()
            except NewerTimeline as error:
                self._unsubscribe()
                self._warn(error)
                break
            pause = self._interval if written else self._retry
            if not written:
                self._wakeup.set()
        if self._store is not None:
            self._store.close()

    def _write(self) -> bool:
        """Write what waits, in batches; return whether all of it is written."""
        while batch := self._next_batch():
            try:
                store = self._open()
                store.append(batch, self._now_ns())
            except NewerTimeline:
                raise
            except TimelineError as error:
                self._pending.extendleft(reversed(batch))
                if not self._recover(error):
                    return False
                continue
            with self._lock:
                self._bytes -= sum(map(_size, batch))
            self._failing = False
            if len(batch) == BATCH or time.monotonic() - self._trimmed > TRIM_SECONDS:
                self._trim(store)
        return True

    def _trim(self, store: TimelineStore) -> None:
        self._trimmed = time.monotonic()
        try:
            store.trim(self._now_ns())
        except TimelineError as error:
            self._recover(error)

    def _next_batch(self) -> list[Record | Recording]:
        """Take the next records, with a word about those that were lost after them."""
        with self._lock:
            self._pending.extend(self._incoming)
            self._incoming = []
            lost, self._lost = self._lost, 0
            if lost:
                text = f"{lost} records are lost: they could not be written as fast as they came"
                told = PlatformRecord(self._now_ns(), "", "WARN", text)
                self._bytes += _size(told)
                self._pending.append(told)
        return [self._pending.popleft() for _ in range(min(BATCH, len(self._pending)))]

    def _open(self) -> TimelineStore:
        if self._store is not None and self._store.replaced():
            self._close_file()
        if self._store is None:
            self._store = TimelineStore(self._path, self._retention)
        return self._store

    def _close_file(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = None

    def _recover(self, error: SvcError) -> bool:
        """Deal with a file that takes no records; return whether another is in its place at once."""
        self._close_file()
        if isinstance(error, CorruptTimeline):
            try:
                aside = quarantine_database(self._path, "timeline", is_corrupt)
            except SvcError as worse:
                error = worse
            else:
                if aside is not None:
                    self._warn(
                        TimelineError(f"{error.message}; a new one is begun", f"The old one is {aside}")
                    )
                    return True
        if not self._failing:
            self._warn(error)
        self._failing = True
        return False

    def close(self) -> None:
        """Write what is left and end; call when all requests are over."""
        self._unsubscribe()
        self._stopping = True
        self._wakeup.set()
        self._batch_full.set()
        self._thread.join()


def _size(record: Record | Recording) -> int:
    """Return about what a record takes in memory, in bytes."""
    if isinstance(record, Recording):
        return _RECORD_OVERHEAD + record.weight
    if isinstance(record, RequestRecord):
        return _RECORD_OVERHEAD + len(record.target)
    if isinstance(record, StructuredRecord):
        return (
            _RECORD_OVERHEAD + len(record.body) + sum(len(k) + len(v) for k, v in record.attributes.items())
        )
    return _RECORD_OVERHEAD + len(record.text)
