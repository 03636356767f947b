"""Writer of the timeline's file: appends records and removes the oldest ones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.measurement import MAX_SERIES, Series
from engine.timeline.database import BOUNDS, FIELDS, TimelineDatabase
from engine.timeline.record import Record
from engine.timeline.recording import Recording, to_exchange
from engine.timeline.recording import encode as encode_exchange
from engine.timeline.stored_record import encode, encode_series

_ROW = f"({', '.join('?' * (len(FIELDS) + 2))})"
_ROWS_PER_INSERT = (128, 16, 4, 1)
"""Rows per statement. Other threads run while SQLite does, so few long statements delay them least."""
_INSERT = {rows: f"insert into record values {', '.join([_ROW] * rows)}" for rows in _ROWS_PER_INSERT}
_ROWS_PER_TRIM = 10_000
_MAX_TRIM_STEPS = 20
_EXCHANGE = "insert or replace into exchange values (?, ?, ?, ?, ?, ?)"
_METRIC = "insert or replace into metric values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DELETE_SERIES = """
delete from metric where time_ns / 1000000 < ?
  or time_ns <= (select time_ns from metric order by time_ns desc limit 1 offset ?)
"""
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


class TimelineStore:
    """One open file. Use it from one thread at a time; every method raises `TimelineError`.

    Cursors have no gaps: every cursor between two others was written, and records are removed only from the
    old end.
    """

    def __init__(self, path: Path, retention: Retention | None = None) -> None:
        """Open the file; create it if it does not exist."""
        self._retention = retention or Retention()
        self._database = TimelineDatabase(path, write=True)
        self._page_bytes: int = self._database.run("pragma page_size")[0][0]

    def append(
        self, records: Sequence[Record | Recording], now_ns: int, series: Iterable[Series] = ()
    ) -> None:
        """Add records and recordings in order, and replace series, in one transaction."""
        rows = [encode(record) for record in records if not isinstance(record, Recording)]
        recordings = [record for record in records if isinstance(record, Recording)]
        exchanges = [(each, *encode_exchange(to_exchange(each))) for each in recordings]

        metrics = [encode_series(each) for each in series]

        def write() -> None:
            for values in metrics:
                self._database.run(_METRIC, values)
            if not rows and not exchanges:
                return
            last = self._insert(rows, now_ns // 1_000_000)
            for recording, head, request, response in exchanges:
                weight = recording.weight + len(head)
                self._database.run(_EXCHANGE, (recording.request_id, last, weight, head, request, response))

        self._database.change(write)

    def _insert(self, rows: list[tuple[object, ...]], now_ms: int) -> int:
        """Write rows; return the last cursor."""
        last = self._database.run("select cursor, written_ms from record order by cursor desc limit 1")
        if last:
            cursor, now_ms = last[0][0] + 1, max(last[0][1], now_ms)
        else:
            cursor = self._database.run("select cursor from origin")[0][0]
        at = 0
        for count in _ROWS_PER_INSERT:
            while len(rows) - at >= count:
                values: list[object] = []
                for row in rows[at : at + count]:
                    values += (cursor + at, now_ms, *row)
                    at += 1
                self._database.run(_INSERT[count], values)
        return int(cursor + len(rows) - 1)

    def trim(self, now_ns: int) -> None:
        """Remove the oldest records above the limits, in a bounded number of steps."""
        oldest_ms = (now_ns - int(self._retention.max_age_seconds * 1e9)) // 1_000_000
        for _ in range(_MAX_TRIM_STEPS):
            if not self._database.change(lambda: self._trim_step(oldest_ms)):
                break
        self._database.change(self._trim_exchanges)
        self._database.change(lambda: self._database.run(_DELETE_SERIES, (oldest_ms, MAX_SERIES)))

    def _trim_exchanges(self) -> None:
        """Remove recordings whose records were removed, and the oldest ones above the size limit."""
        first = self._database.run(BOUNDS)[0][0]
        if first is not None:
            self._database.run("delete from exchange where cursor < ?", (first,))
        ((weight,),) = self._database.run("select coalesce(sum(weight), 0) from exchange")
        if weight > self._retention.max_recording_bytes:
            self._database.run(_DELETE_OLDEST, (int(self._retention.max_recording_bytes * 0.95),))

    def _trim_step(self, oldest_ms: int) -> bool:
        """Remove a bounded number of records, never the last; return whether more may remain."""
        ((first, last),) = self._database.run(BOUNDS)
        if first is None or first == last:
            return False
        remove = "delete from record where cursor < ?"
        first_ms = self._database.run("select written_ms from record where cursor = ?", (first,))[0][0]
        if first_ms < oldest_ms:
            end = min(first + _ROWS_PER_TRIM, last)
            self._database.run(f"{remove} and written_ms < ?", (end, oldest_ms))
            return True
        used = self._used_bytes()
        if used <= self._retention.max_bytes:
            return False
        share = 1 - 0.95 * self._retention.max_bytes / used
        rows = min(_ROWS_PER_TRIM, int((last - first + 1) * share) + 1)
        self._database.run(remove, (min(first + rows, last),))
        return True

    def _used_bytes(self) -> int:
        ((pages,),) = self._database.run("pragma page_count")
        ((free,),) = self._database.run("pragma freelist_count")
        return int(pages - free) * self._page_bytes

    def replaced(self) -> bool:
        """Return whether the file was removed or replaced."""
        return self._database.replaced()

    def close(self) -> None:
        """Close the file."""
        self._database.close()
