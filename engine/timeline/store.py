"""Writer of the timeline's file: appends records of this node and of others, and removes the oldest ones.

A batch of another node has the cursor after which it begins, so that this one notices whether it lacks
records before.
"""

import json
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from engine.measurement import MAX_SERIES, Series
from engine.timeline.database import BOUNDS, FIELDS, TimelineDatabase
from engine.timeline.query import of_node, open_reader, text_bytes
from engine.timeline.record import Record, encode, encode_series
from engine.timeline.recording import Recording, to_exchange
from engine.timeline.recording import encode as encode_exchange

Rows = Sequence[Sequence[Any]]
PAGE_RECORDS, PAGE_BYTES = 1000, 256 << 10
"""Maximum size of a page: to parse a larger one would hold the interpreter's lock for long."""
MESSAGE_RECORDS = 64
"""Maximum records of a published batch, of which the last one may exceed the size of a page."""
SERIES_FIELDS = 11
UNKNOWN = -1
"""Begin of a batch if the cursor before it is unknown. It exceeds no other."""


class Publisher(Protocol):
    """Sends the records of a project to the other nodes. May be called from any thread."""

    @property
    def node(self) -> str:
        """The id of this node."""

    def publish(self, after: int, rows: Rows, series: Rows) -> None:
        """Send rows of records, which follow that at `after`, and rows of series.

        The row of a record has its cursor, the values of `FIELDS`, and the time at which it was written.
        """


@dataclass(frozen=True, slots=True)
class CopiedBatch:
    """A batch of another node.

    `on_written` is called from any thread, with the last copied cursor, or None if the batch was dropped, and
    with true if the batch was not written because it was dropped or records before it are missing.
    """

    node: str
    content: bytes
    on_written: Callable[[int | None, bool], None]


def encode_batch(after: int, rows: Rows, series: Rows) -> bytes:
    """Return the form that `decode_batch` reads."""
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


_ROW = f"({', '.join('?' * (len(FIELDS) + 5))})"
_ROWS_PER_INSERT = (128, 16, 4, 1)
"""Rows per statement. Other threads run while SQLite does, so few long statements delay them least."""
_INSERT = {rows: f"insert into record values {', '.join([_ROW] * rows)}" for rows in _ROWS_PER_INSERT}
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


@dataclass(frozen=True, slots=True)
class Appended:
    """Rows of this node that were written, as in a `Publisher`.

    `copied` has the last copied cursor of the node of each `CopiedBatch`, and whether records before it are
    missing, so that it was not written.
    """

    rows: list[tuple[Any, ...]]
    series: list[tuple[Any, ...]]
    copied: list[tuple[int, bool]]


class TimelineStore:
    """One open file. Use it from one thread at a time; every method raises `TimelineError`.

    Cursors have no gaps: every cursor between two others was written, and records are removed only from the
    old end. Only the records of a node of a fleet with the largest share are removed between those of others.
    """

    def __init__(self, path: Path, retention: Retention | None = None) -> None:
        """Open the file; create it if it does not exist."""
        self._retention = retention or Retention()
        self._database = TimelineDatabase(path, write=True)
        self._page_bytes: int = self._database.run("pragma page_size")[0][0]

    def append(
        self, records: Sequence[Record | Recording | CopiedBatch], now_ns: int, series: Iterable[Series] = ()
    ) -> Appended:
        """Add records and recordings in order, then copies, and replace series, in one transaction."""
        rows = [encode(record) for record in records if not isinstance(record, Recording | CopiedBatch)]
        recordings = [record for record in records if isinstance(record, Recording)]
        exchanges = [(each, *encode_exchange(to_exchange(each))) for each in recordings]
        copies = [
            (each.node, *decode_batch(each.content)) for each in records if isinstance(each, CopiedBatch)
        ]
        now_ms = now_ns // 1_000_000
        metrics = [encode_series(each) for each in series]

        def write() -> Appended:
            for values in metrics:
                self._database.run(_METRIC, (*values, ""))
            last = written_ms = 0
            if rows or exchanges:
                last, written_ms = self._insert([(*row, "", None, None) for row in rows], now_ms)
            for recording, head, request, response in exchanges:
                weight = recording.weight + len(head)
                self._database.run(_EXCHANGE, (recording.request_id, last, weight, head, request, response))
            copied = [self._copy(*copy, now_ms) for copy in copies]
            first = last - len(rows) + 1
            own = [(first + at, *row, written_ms) for at, row in enumerate(rows)]
            return Appended(own, metrics, copied)

        return self._database.change(write)

    def name(self, node: str) -> None:
        """Set the name of this node of a fleet."""
        self._database.run("update origin set node = ?1 where node <> ?1", (node,))

    def _copy(self, node: str, after: int, rows: Rows, series: Rows, now_ms: int) -> tuple[int, bool]:
        """Write a batch of another node, unless it lacks records before. See `Appended.copied`."""
        for values in series:
            self._database.run(_METRIC, (*values, node))
        ((position,),) = self._database.run(
            "select coalesce(max(cursor), 0) from peer where node = ?", (node,)
        )
        new = [row for row in rows if row[0] > position]
        if not new:
            return position, False
        if after == UNKNOWN or after > position:
            return position, True
        self._insert([(*row[1:-1], node, row[0], row[-1]) for row in new], now_ms)
        self._database.run("insert or replace into peer values (?, ?)", (node, new[-1][0]))
        return new[-1][0], False

    def _insert(self, rows: Sequence[tuple[Any, ...]], now_ms: int) -> tuple[int, int]:
        """Write rows; return the last cursor, and the time of all."""
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
        return int(cursor + len(rows) - 1), now_ms

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
        if not self._database.run("select 1 from peer limit 1"):
            self._database.run(remove, (min(first + rows, last),))
            return True
        # A flood of records of one node must not remove those of others.
        step = (last - first) // _SAMPLES + 1
        largest = self._database.run(_LARGEST, (first, last, step))[0][0]
        column, condition = of_node(largest)
        oldest = f"select cursor from record where {condition} and cursor < ? order by {column} limit ?"
        self._database.run(f"delete from record where cursor in ({oldest})", (largest, last, rows))
        return bool(self._database.run("select changes()")[0][0])

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
