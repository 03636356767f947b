"""Recorder that writes a running project's timeline to its file, in batches of a tenth of a second.

A thread writes, so that neither a slow disk nor another process delays a request. The queue of unwritten
records is bounded. A batch of another node has the cursor after which it begins, so that this one notices
whether it lacks records before.
"""

import json
import threading
import time
import zlib
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from engine.errors import SvcError
from engine.files.sqlite_file import WrittenFile
from engine.measurement import MAX_SERIES, MeasurementBatch, Series, SeriesKey, SeriesTable
from engine.recurring import IDLE_SECONDS, Recurring
from engine.timeline.bus import TimelineBus
from engine.timeline.database import BOUNDS, FIELDS, NewerTimeline, TimelineDatabase, TimelineError
from engine.timeline.query import of_node, open_reader, text_bytes
from engine.timeline.record import (
    Origin,
    PlatformRecord,
    Record,
    RequestRecord,
    StructuredRecord,
    encode,
    encode_series,
)
from engine.timeline.recording import Recording, to_exchange
from engine.timeline.recording import encode as encode_exchange
from engine.trace import text_chars

Rows = Sequence[Sequence[Any]]
PAGE_RECORDS, PAGE_BYTES = 1000, 256 << 10
"""Maximum size of a page: to parse a larger one would hold the interpreter's lock for long."""
MESSAGE_RECORDS = 64
"""Maximum records of a published batch, of which the last one may exceed the size of a page."""
SERIES_FIELDS = 11
UNKNOWN = -1
"""Begin of a batch if the cursor before it is unknown. It exceeds no other."""


Publish = Callable[[int, Rows, Rows], None]
"""Sends to the other nodes, on any thread, rows of records after a cursor, and rows of series.

The row of a record has its cursor, the values of `FIELDS`, and the time at which it was written.
"""


@dataclass(frozen=True, slots=True)
class CopiedBatch:
    """A batch of another node.

    `on_written` is called from any thread, with the last copied cursor, or None if the batch was not written:
    it was dropped, or records before it are missing.
    """

    node: str
    content: bytes
    on_written: Callable[[int | None], None]


def encode_batch(after: int, rows: Rows, series: Rows) -> bytes:
    return zlib.compress(json.dumps([after, rows, series], ensure_ascii=False).encode(), 1)


def decode_batch(content: bytes) -> tuple[int, Rows, Rows]:
    """Return the begin, the records and the series of a batch, without those of another version of svc."""
    try:
        after, rows, series = json.loads(zlib.decompress(content))
    except (zlib.error, ValueError):
        return UNKNOWN, (), ()
    return (
        after,
        [row for row in rows if len(row) == len(FIELDS) + 2],
        [row for row in series if len(row) == SERIES_FIELDS],
    )


def messages(after: int, rows: Rows, series: Rows) -> Iterator[bytes]:
    """Yield batches of a bounded size."""
    part, size = list[Sequence[Any]](), 0
    for row in rows:
        part.append(row)
        size += text_bytes(row)
        if len(part) == MESSAGE_RECORDS or size > PAGE_BYTES:
            yield encode_batch(after, part, series)
            after, series, part, size = row[0], (), [], 0
    if part or series:
        yield encode_batch(after, part, series)


def read_page(path: Path, node: str, after: int) -> dict[str, Any]:
    """Return the next records of a node ("": this one) after its cursor, as JSON. Raises `TimelineError`.

    `content` is a batch in base64. At the `end` it has no records, but the series. `lost` says that records
    before it may have been removed. `copied` are the nodes with copies here.
    """
    rows, series, lost, copied = list[Sequence[Any]](), list[Sequence[Any]](), False, list[str]()
    if (reader := open_reader(path)) is not None:
        with closing(reader):
            rows, series, lost = reader.page_of(node, after, PAGE_RECORDS, PAGE_BYTES)
            copied = list(reader.copied())
    content = b64encode(encode_batch(after, rows, series)).decode()
    return {"content": content, "end": not rows, "lost": lost, "copied": copied}


_COLUMNS = ("cursor", "written_ms", *FIELDS, "node", "node_cursor", "node_ms")
_ROW = f"({', '.join('?' * len(_COLUMNS))})"
_ROWS_PER_INSERT = (128, 16, 4, 1)
"""Rows per statement. Other threads run while SQLite does, so few long statements delay them least."""
_INSERT = {
    rows: f"insert into record ({', '.join(_COLUMNS)}) values {', '.join([_ROW] * rows)}"
    for rows in _ROWS_PER_INSERT
}
_ROWS_PER_TRIM = 10_000
_MAX_TRIM_STEPS = 20
_EXCHANGE = "insert or replace into exchange values (?, ?, ?, ?, ?, ?)"
_METRIC = "insert or replace into metric values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DELETE_SERIES = """
delete from metric where time_ns / 1000000 < ? or (node, time_ns) in (
  select node, time_ns from (
    select node, time_ns, row_number() over (partition by node order by time_ns desc) as place from metric
  ) where place > ?
)
"""
_SAMPLES = 1000
_LARGEST = """
with recursive sample (cursor) as (select ?1 union all select cursor + ?3 from sample where cursor + ?3 <= ?2)
select node from sample join record using (cursor)
group by node order by sum(length(body) + coalesce(length(attributes), 0) + 500) desc limit 1
"""
"""The node with the largest share of evenly distributed records. The first record is one of them."""
_DELETE_OLDEST = """
delete from exchange where cursor <= (
  select cursor from (select cursor, sum(weight) over (order by cursor desc) as total from exchange)
  where total > ? order by cursor desc limit 1
)
"""


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of the timeline's file: its size, the age of records, and the size of recordings in it."""

    max_bytes: int = 256 << 20
    max_age_seconds: float = 7 * 24 * 3600.0
    max_recording_bytes: int = 64 << 20


Appended = tuple[Rows, Rows, list[int | None]]
"""Records and series of this node that were written, as for `Publish`, and what each `CopiedBatch` gets."""


class TimelineStore(TimelineDatabase):
    """One open file. Use it from one thread at a time; every method raises `TimelineError`.

    Cursors have no gaps: every cursor between two others was written, and records are removed only from the
    old end. Only the records of a node of a fleet with the largest share are removed between those of others.
    """

    def __init__(
        self, path: Path, retention: Retention | None = None, origin: Origin | None = None, node: str = ""
    ) -> None:
        """Open the file; create it if it does not exist. New records get the `origin`, and are of `node`."""
        self._origin = origin or Origin()
        self._retention = retention or Retention()
        super().__init__(path)
        self._page_bytes: int = self.run("pragma page_size")[0][0]
        if node:
            self.run("update origin set node = ?1 where node <> ?1", (node,))

    def append(
        self, records: Sequence[Record | Recording | CopiedBatch], now_ns: int, series: Iterable[Series] = ()
    ) -> Appended:
        """Add records and recordings in order, then copies, and replace series, in one transaction."""
        rows = [
            encode(record, self._origin)
            for record in records
            if not isinstance(record, Recording | CopiedBatch)
        ]
        recordings = [record for record in records if isinstance(record, Recording)]
        exchanges = [(each, *encode_exchange(to_exchange(each))) for each in recordings]
        copies = [
            (each.node, *decode_batch(each.content)) for each in records if isinstance(each, CopiedBatch)
        ]
        now_ms = now_ns // 1_000_000
        metrics = [encode_series(each) for each in series]

        with self.change():
            for values in metrics:
                self.run(_METRIC, (*values, ""))
            last = written_ms = 0
            if rows or exchanges:
                last, written_ms = self._insert([(*row, "", None, None) for row in rows], now_ms)
            for recording, head, request, response in exchanges:
                weight = recording.weight + len(head)
                self.run(_EXCHANGE, (recording.request_id, last, weight, head, request, response))
            copied = [self._copy(*copy, now_ms) for copy in copies]
            first = last - len(rows) + 1
            own = [(first + at, *row, written_ms) for at, row in enumerate(rows)]
            return own, metrics, copied

    def _copy(self, node: str, after: int, rows: Rows, series: Rows, now_ms: int) -> int | None:
        """Write a batch of another node, unless it lacks records before; return what `CopiedBatch` gets."""
        for values in series:
            self.run(_METRIC, (*values, node))
        ((position,),) = self.run("select coalesce(max(cursor), 0) from peer where node = ?", (node,))
        new = [row for row in rows if row[0] > position]
        if not new:
            return int(position)
        if after == UNKNOWN or after > position:
            return None
        self._insert([(*row[1:-1], node, row[0], row[-1]) for row in new], now_ms)
        self.run("insert or replace into peer values (?, ?)", (node, new[-1][0]))
        return int(new[-1][0])

    def _insert(self, rows: Sequence[tuple[Any, ...]], now_ms: int) -> tuple[int, int]:
        """Write rows; return the last cursor, and the time of all."""
        last = self.run("select cursor, written_ms from record order by cursor desc limit 1")
        if last:
            cursor, now_ms = last[0][0] + 1, max(last[0][1], now_ms)
        else:
            cursor = self.run("select cursor from origin")[0][0]
        at = 0
        for count in _ROWS_PER_INSERT:
            while len(rows) - at >= count:
                values: list[object] = []
                for row in rows[at : at + count]:
                    values += (cursor + at, now_ms, *row)
                    at += 1
                self.run(_INSERT[count], values)
        return int(cursor + len(rows) - 1), now_ms

    def trim(self, now_ns: int) -> None:
        """Remove the oldest records above the limits, in a bounded number of steps."""
        oldest_ms = (now_ns - int(self._retention.max_age_seconds * 1e9)) // 1_000_000
        for _ in range(_MAX_TRIM_STEPS):
            with self.change():
                if not self._trim_step(oldest_ms):
                    break
        with self.change():  # Recordings whose records were removed, and the oldest above the size limit.
            first = self.run(BOUNDS)[0][0]
            if first is not None:
                self.run("delete from exchange where cursor < ?", (first,))
            ((weight,),) = self.run("select coalesce(sum(weight), 0) from exchange")
            if weight > self._retention.max_recording_bytes:
                self.run(_DELETE_OLDEST, (int(self._retention.max_recording_bytes * 0.95),))
        with self.change():
            self.run(_DELETE_SERIES, (oldest_ms, MAX_SERIES))

    def _trim_step(self, oldest_ms: int) -> bool:
        """Remove a bounded number of records, never the last; return whether more may remain."""
        ((first, last),) = self.run(BOUNDS)
        if first is None or first == last:
            return False
        remove = "delete from record where cursor < ?"
        first_ms = self.run("select written_ms from record where cursor = ?", (first,))[0][0]
        if first_ms < oldest_ms:
            end = min(first + _ROWS_PER_TRIM, last)
            self.run(f"{remove} and written_ms < ?", (end, oldest_ms))
            return True
        ((pages,),) = self.run("pragma page_count")
        ((free,),) = self.run("pragma freelist_count")
        used = int(pages - free) * self._page_bytes
        if used <= self._retention.max_bytes:
            return False
        share = 1 - 0.95 * self._retention.max_bytes / used
        rows = min(_ROWS_PER_TRIM, int((last - first + 1) * share) + 1)
        if not self.run("select 1 from peer limit 1"):
            self.run(remove, (min(first + rows, last),))
            return True
        # A flood of records of one node must not remove those of others.
        step = (last - first) // _SAMPLES + 1
        largest = self.run(_LARGEST, (first, last, step))[0][0]
        column, condition = of_node(largest)
        oldest = f"select cursor from record where {condition} and cursor < ? order by {column} limit ?"
        self.run(f"delete from record where cursor in ({oldest})", (largest, last, rows))
        return bool(self.run("select changes()")[0][0])


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
        publish: Publish | None = None,
        node: str = "",
        origin: Origin | None = None,
    ) -> None:
        """Write to the file at `path`, which is created with the first record. `publish` gets them, too.

        `warn` is called, on another thread, when the file becomes unusable and when it is moved aside.
        """
        open_ = partial(TimelineStore, path, retention, origin, node)
        self._file = WrittenFile(path, TimelineDatabase, open_, warn)
        self._warn = warn
        self._interval = interval
        self._retry = retry
        self._max_pending_bytes = max_pending_bytes
        self._now_ns = now_ns
        self._publish = publish
        self._last = UNKNOWN
        """Cursor of the last record of this node."""
        self._series = SeriesTable()
        self._omitted_warned = 0.0
        self._lock = threading.Lock()
        self._incoming: list[Entry | MeasurementBatch] = []
        # These are used by one run at a time.
        self._pending: deque[Entry] = deque()
        self._changed: dict[SeriesKey, Series] = {}
        self._bytes = 0  # of incoming and pending
        self._dropped = 0
        self._trimmed = 0.0
        self._written = 0.0
        self._runs = Recurring(self._work)
        self._following = (
            timeline.subscribe(self),
            timeline.recordings.subscribe(self),
            timeline.measurements.subscribe(self),
        )

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
            record.on_written(None)
            return
        if count in (1, BATCH) and not self._file.failing:
            self._runs.wake(self._interval if count == 1 else 0)

    def _unsubscribe(self) -> None:
        for end in self._following:
            end()

    def _work(self) -> float | None:
        """Write what is queued, and try again if that fails. Close the file if there is nothing to write."""
        before = self._written
        try:
            if not self._write():
                return self._retry
        except NewerTimeline as error:
            self._unsubscribe()
            self._incoming.clear()
            self._pending.clear()
            self._changed.clear()
            self._warn(error)
        if self._written == before:
            self._file.close()
        return None if self._file.current is None else IDLE_SECONDS

    def _write(self) -> bool:
        """Write all queued records in batches; return whether all were written."""
        while (batch := self._next_batch()) or self._changed:
            try:
                store = self._file.open()
                rows, series, copied = store.append(batch, self._now_ns(), self._changed.values())
            except NewerTimeline:
                raise
            except TimelineError as error:
                self._pending.extendleft(reversed(batch))
                if not self._file.recover(error):
                    return False
                continue
            with self._lock:
                self._bytes -= sum(map(size_of, batch))
            self._changed.clear()
            if self._publish is not None and (rows or series):
                self._publish(self._last, rows, series)
            if rows:
                self._last = rows[-1][0]
            copies = [each for each in batch if isinstance(each, CopiedBatch)]
            for copy, position in zip(copies, copied, strict=True):
                copy.on_written(position)
            self._warn_omitted()
            self._file.failing, self._written = False, time.monotonic()
            if len(batch) == BATCH or time.monotonic() - self._trimmed > TRIM_SECONDS:
                self._trimmed = time.monotonic()
                try:
                    store.trim(self._now_ns())
                except TimelineError as error:
                    self._file.recover(error)
        return True

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

    def close(self) -> None:
        """Write the remaining records and stop; call it after the last request. Later ones are dropped."""
        self._unsubscribe()
        self._runs.close()
        self._work()
        self._max_pending_bytes = -1
        self._file.close()


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
