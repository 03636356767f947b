"""Recorder that writes a running project's timeline to its file, in batches of a tenth of a second.

A thread writes, so that neither a slow disk nor another process delays a request. The queue of unwritten
records is bounded.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from engine.errors import SvcError
from engine.files.quarantine import quarantine_database
from engine.measurement import MAX_SERIES, MeasurementBatch, Series, SeriesKey, SeriesTable
from engine.timeline.bus import TimelineBus
from engine.timeline.database import CorruptTimeline, NewerTimeline, TimelineDatabase, TimelineError
from engine.timeline.record import PlatformRecord, Record, RequestRecord, StructuredRecord
from engine.timeline.recording import Recording
from engine.timeline.store import UNKNOWN, Appended, CopiedBatch, Publisher, Retention, TimelineStore
from engine.trace import text_chars

INTERVAL_SECONDS = 0.1
BATCH = 500
COPY_WEIGHT = 64
"""A batch of copies counts as so many records."""
RETRY_SECONDS = 1.0
TRIM_SECONDS = 1.0
OMITTED_SECONDS = 60.0
"""Minimum time between two warnings about too many series."""
MAX_PENDING_BYTES = 64 << 20
"""Maximum size of unwritten records; further records are dropped and counted."""

_RECORD_OVERHEAD = 512
"""Approximate size of a record besides its text."""
_CALL_OVERHEAD = 300


Entry = Record | Recording | CopiedBatch


class TimelineRecorder:
    """Follows a timeline from creation until `close`; may be called from any thread."""

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
        publisher: Publisher | None = None,
    ) -> None:
        """Write to the file at `path`, which is created with the first record. `publisher` gets them, too.

        `warn` is called, on another thread, when the file becomes unusable and when it is moved aside.
        """
        self._path = path
        self._warn = warn
        self._retention = retention
        self._interval = interval
        self._retry = retry
        self._max_pending_bytes = max_pending_bytes
        self._now_ns = now_ns
        self._publisher = publisher
        self._last = UNKNOWN
        """Cursor of the last record of this node."""
        self._store: TimelineStore | None = None
        self._series = SeriesTable()
        self._omitted_warned = 0.0
        self._lock = threading.Lock()
        self._incoming: list[Entry | MeasurementBatch] = []
        # These are used by the writing thread only.
        self._pending: deque[Entry] = deque()
        self._changed: dict[SeriesKey, Series] = {}
        self._bytes = 0  # of incoming and pending
        self._dropped = 0
        self._trimmed = 0.0
        self._failing = False
        self._stopping = False
        self._wakeup = threading.Event()
        self._batch_full = threading.Event()
        self._following = (
            timeline.subscribe(self),
            timeline.recordings.subscribe(self),
            timeline.measurements.subscribe(self),
        )
        self._thread = threading.Thread(target=self._work, name="timeline", daemon=True)
        self._thread.start()

    def __call__(self, record: Entry | MeasurementBatch) -> None:
        """Queue a record, a recording after the record of its request, measurements or copies.

        It does not block. Copies that are dropped are not counted: they can be read again.
        """
        size = size_of(record)
        with self._lock:
            full = self._bytes + size > self._max_pending_bytes
            if full and not isinstance(record, CopiedBatch):
                self._dropped += 1
                return
            if not full:
                self._bytes += size
                self._incoming.append(record)
            count = len(self._incoming)
        if full and isinstance(record, CopiedBatch):
            record.on_written(None, True)
            return
        if count == 1:
            self._wakeup.set()
        elif count == BATCH:
            self._batch_full.set()

    def _unsubscribe(self) -> None:
        for end in self._following:
            end()

    def _work(self) -> None:
        pause, stopping = self._interval, False
        while not stopping:
            self._wakeup.wait()
            self._wakeup.clear()
            self._batch_full.wait(pause)
            stopping = self._stopping  # Read before the records are: `close` comes after the last.
            if not stopping:
                self._batch_full.clear()
            try:
                complete = self._write()
            except NewerTimeline as error:
                self._unsubscribe()
                self._warn(error)
                break
            pause = self._interval if complete else self._retry
            if not complete:
                self._wakeup.set()
        if self._store is not None:
            self._store.close()

    def _write(self) -> bool:
        """Write all queued records in batches; return whether all were written."""
        while (batch := self._next_batch()) or self._changed:
            try:
                store = self._open()
                written = store.append(batch, self._now_ns(), self._changed.values())
            except NewerTimeline:
                raise
            except TimelineError as error:
                self._pending.extendleft(reversed(batch))
                if not self._recover(error):
                    return False
                continue
            with self._lock:
                self._bytes -= sum(map(size_of, batch))
            self._changed.clear()
            self._publish(batch, written)
            self._warn_omitted()
            self._failing = False
            if len(batch) == BATCH or time.monotonic() - self._trimmed > TRIM_SECONDS:
                self._trim(store)
        return True

    def _publish(self, batch: list[Entry], written: Appended) -> None:
        """Send what was written to other nodes, and report copies."""
        if self._publisher is not None and (written.rows or written.series):
            self._publisher.publish(self._last, written.rows, written.series)
        if written.rows:
            self._last = written.rows[-1][0]
        copies = [each for each in batch if isinstance(each, CopiedBatch)]
        for copy, (position, gap) in zip(copies, written.copied, strict=True):
            copy.on_written(position, gap)

    def _trim(self, store: TimelineStore) -> None:
        self._trimmed = time.monotonic()
        try:
            store.trim(self._now_ns())
        except TimelineError as error:
            self._recover(error)

    def _next_batch(self) -> list[Entry]:
        """Aggregate measurements; return the next records, with a record about dropped ones after them."""
        with self._lock:
            for each in self._incoming:
                if isinstance(each, MeasurementBatch):
                    self._bytes -= size_of(each)
                    self._changed |= self._series.add(each)
                else:
                    self._pending.append(each)
            self._incoming = []
            dropped, self._dropped = self._dropped, 0
            if dropped:
                lost = "1 record was lost" if dropped == 1 else f"{dropped} records were lost"
                text = f"{lost}: records arrived faster than they could be written"
                warning = PlatformRecord(self._now_ns(), "", "WARN", text)
                self._bytes += size_of(warning)
                self._pending.append(warning)
        batch, room = list[Entry](), BATCH
        while self._pending and room > 0:
            batch.append(self._pending.popleft())
            room -= COPY_WEIGHT if isinstance(batch[-1], CopiedBatch) else 1
        return batch

    def _open(self) -> TimelineStore:
        if self._store is not None and self._store.replaced():
            self._close_file()
        if self._store is None:
            self._store = TimelineStore(self._path, self._retention)
            if self._publisher is not None:
                self._store.name(self._publisher.node)
        return self._store

    def _warn_omitted(self) -> None:
        """Record that measurements were omitted, at most once in `OMITTED_SECONDS`."""
        omitted, now = self._series.omitted, time.monotonic()
        if not omitted or now < self._omitted_warned:
            return
        self._series.omitted, self._omitted_warned = 0, now + OMITTED_SECONDS
        text = (
            f"{omitted} measurements were dropped: the project has the maximum of {MAX_SERIES:,} series. "
            "Use attributes with fewer values"
        )
        self(PlatformRecord(self._now_ns(), "", "WARN", text))

    def _close_file(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = None

    def _recover(self, error: SvcError) -> bool:
        """Handle an unusable file; return whether a new one replaces it at once."""
        self._close_file()
        if isinstance(error, CorruptTimeline):
            try:
                quarantined = quarantine_database(self._path, "timeline", TimelineDatabase.is_corrupt)
            except SvcError as worse:
                error = worse
            else:
                if quarantined is not None:
                    self._warn(
                        TimelineError(
                            f"{error.message}; a new file was created", f"Find the old file at {quarantined}."
                        )
                    )
                    return True
        if not self._failing:
            self._warn(error)
        self._failing = True
        return False

    def close(self) -> None:
        """Write the remaining records and stop; call it after the last request."""
        self._unsubscribe()
        self._stopping = True
        self._wakeup.set()
        self._batch_full.set()
        self._thread.join()


def size_of(record: Entry | MeasurementBatch) -> int:
    """Return the approximate size of a record in memory, in bytes."""
    if isinstance(record, CopiedBatch):
        return _RECORD_OVERHEAD + len(record.content)
    if isinstance(record, (Recording, MeasurementBatch)):
        return _RECORD_OVERHEAD + record.weight
    if isinstance(record, RequestRecord):
        size = _RECORD_OVERHEAD + len(record.target)
        return size + text_chars(record.calls) + _CALL_OVERHEAD * len(record.calls) if record.calls else size
    if isinstance(record, StructuredRecord):
        return (
            _RECORD_OVERHEAD + len(record.body) + sum(len(k) + len(v) for k, v in record.attributes.items())
        )
    return _RECORD_OVERHEAD + len(record.text)
