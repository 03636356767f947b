"""Queries on the timeline's file: filters, pages, ranges of cursors, selections of records and followers."""

import json
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine.door import Severity
from engine.files.database_files import database_stamps
from engine.timeline.database import BOUNDS, FIELDS, TimelineDatabase
from engine.timeline.record import SEVERITY_NUMBERS, Document, document, searchable
from engine.timeline.recording import RecordedExchange
from engine.timeline.recording import decode as decode_exchange

_WILD = re.compile(r"[%_\\]")
_SEARCHABLE_SQL = (
    "case kind when 'request' then method || ' ' || target || ' ' || status || ' ' || code || ' ' || body"
    " when 'structured' then body || ' ' || replace(replace(attributes, '\", \"', ' '), '\": \"', '=')"
    " else body end"
)
"""SQL for approximately the result of `searchable`."""
_HEAD_SQL = (
    "not (kind = 'stderr' and substr(body, 1, 1) in (' ', char(9)) and 'stderr' is "
    "(select kind from record as head where request_id <> '' and request_id = record.request_id "
    "and cursor < record.cursor order by cursor desc limit 1))"
)
_RECORDED_SQL = "coalesce(node_ms, written_ms)"
"""SQL for the Unix time in ms at which a record was written at its own node."""


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions on records; a record must meet all that are set.

    `min_level` is the lowest level, `pattern` is searched in the result of `searchable`. `text` is searched
    there by SQLite, case-insensitively for a-z; quotes and line ends in attributes appear as in JSON.
    `statuses` are the lowest and highest status of a request. `roots` selects, of the spans of a request,
    only the one that the client's request started. `heads` omits indented lines of stderr that follow a line
    in the same request, such as the frames of a stack. `since_ns` and `until_ns` (exclusive) are Unix times.
    """

    resource: str | None = None
    request_id: str | None = None
    _: KW_ONLY
    min_level: Severity | None = None
    pattern: re.Pattern[str] | None = None
    text: str | None = None
    statuses: tuple[int, int] | None = None
    roots: bool = False
    heads: bool = False
    since_ns: int | None = None
    until_ns: int | None = None

    def condition(self) -> tuple[str, list[str | int]]:
        """Return the part that SQL evaluates, as an expression and its values."""
        level = SEVERITY_NUMBERS[self.min_level] if self.min_level is not None else None
        text = "%" + _WILD.sub(r"\\\g<0>", self.text) + "%" if self.text is not None else None
        low, high = self.statuses or (None, None)
        since, until = (ns if ns is None else ns // 1_000_000 for ns in (self.since_ns, self.until_ns))
        conditions: dict[str, str | int | None] = {
            "resource = ?": self.resource,
            "request_id <> '' and request_id = ?": self.request_id,
            "level >= ?": level,
            f"{_SEARCHABLE_SQL} like ? escape '\\'": text,
            "status >= ?": low,
            "status <= ?": high,
            f"{_RECORDED_SQL} >= ?": since,
            f"{_RECORDED_SQL} < ?": until,
        }
        values = {sql: value for sql, value in conditions.items() if value is not None}
        parts = ["true", *values]
        parts += ["(root = 1 or kind <> 'request')"] if self.roots else []
        parts += [_HEAD_SQL] if self.heads else []
        return " and ".join(parts), list(values.values())

    def matches(self, row: Sequence[Any]) -> bool:
        """Return whether the remaining part holds, given the values of `FIELDS`."""
        return self.pattern is None or self.pattern.search(searchable(row)) is not None


PAGE_RECORDS = 1000
PAGE_BYTES = 8 << 20
"""Approximate maximum size of the texts of a page, and of a window below."""
WINDOW_BYTES = 32 << 20
READ_SECONDS = 30.0
"""Time limit of each method of a reader."""
_CHUNK_RECORDS = 64
"""Number of records that are read at once where their texts are needed: at most 8 MiB."""
_COLUMNS = f"cursor, {', '.join(FIELDS)}, coalesce(nullif(node, ''), (select node from origin))"
_BODY, _ATTRIBUTES = 1 + FIELDS.index("body"), 1 + FIELDS.index("attributes")
_ROOT_REQUEST_SQL = "case when kind = 'request' and root = 1 then request_id else '' end"
_COUNTED_SQL = (
    "(kind <> 'request' or root = 1 or not exists (select 1 from record as whole "
    "where whole.request_id <> '' and whole.request_id = record.request_id and whole.root = 1))"
)
"""SQL for records other than the inner spans of finished requests."""
_AT = "cursor in (select value from json_each(?))"
_OF_REQUESTS = "request_id <> '' and request_id in (select value from json_each(?))"
_NEXT = "select cursor, written_ms from record where cursor >= ? order by cursor limit 1"


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Records in order; `position` is the last cursor examined, matching or not.

    `dropped` counts the records, matching or not, removed between the requested cursor and the first existing
    one; it is 0 for the cursor 0. `more` means that further records may follow at once: the page has as many
    records, or as many bytes, as it may have.
    """

    entries: list[Document]
    position: int
    dropped: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class CursorPage:
    """Which records above `after` and up to `position` match: their distances from `after`, as JSON.

    SQLite writes the text, so other threads run meanwhile. `dropped` is as in a `RecordPage`.
    """

    after: int
    position: int
    offsets: str
    dropped: int


class TimelineReader(TimelineDatabase):
    """One open file, read-only. Use it from one thread at a time; every method raises `TimelineError`.

    `calls` are part of the documents of requests.
    """

    def __init__(self, path: Path, *, calls: bool = True) -> None:
        super().__init__(path, write=False)
        self._calls = calls

    def _document(self, row: Sequence[Any]) -> Document:
        return document(row[0], row[1:-1], row[-1], calls=self._calls)

    def bounds(self) -> tuple[int, int]:
        """Return the first and last cursor; the last is below the first if the file has no records."""
        with self.view():
            ((first, last),) = self.run(BOUNDS)
            origin = self.origin()
        return (origin, origin - 1) if first is None else (first, last)

    def origin(self) -> int:
        return int(self.run("select cursor from origin")[0][0])

    def after(
        self, cursor: int, record_filter: RecordFilter, limit: int = PAGE_RECORDS, max_bytes: int = PAGE_BYTES
    ) -> RecordPage:
        """Return up to `limit` matching records after a cursor, oldest first, with `max_bytes` of text."""
        self.limit_time(READ_SECONDS)
        with self.view():
            first, last = self.bounds()
            condition, values = record_filter.condition()
            sql = f"select {_COLUMNS} from record where cursor > ? and {condition} order by cursor limit ?"
            records: list[Document] = []
            position, read, size, more = cursor, 0, 0, limit > 0
            while more and read < limit and size < max_bytes:
                chunk = min(limit - read, _CHUNK_RECORDS)
                rows = self.run(sql, (position, *values, chunk))
                more = len(rows) == chunk
                for row in rows:
                    position, read, size = row[0], read + 1, size + text_bytes(row)
                    if record_filter.matches(row[1:-1]):
                        records.append(self._document(row))
                    if size >= max_bytes:
                        more = True
                        break
            if not more:
                position = max(cursor, last)
            return RecordPage(records, position, self._count_dropped(cursor, first), more)

    def _count_dropped(self, cursor: int, first: int) -> int:
        return max(0, first - max(cursor + 1, self.origin())) if cursor else 0

    def tail(
        self,
        count: int,
        record_filter: RecordFilter,
        *,
        after: int = 0,
        last: int | None = None,
        max_bytes: int = WINDOW_BYTES,
    ) -> list[Document]:
        """Return the last `count` matching records up to the cursor `last`, oldest first.

        Of more than `max_bytes` of text, only the last ones are returned.
        """
        cursors = self.tail_cursors(count, record_filter, after=after, last=last)
        return self.by_cursors(cursors, max_bytes, newest=True)

    def tail_cursors(
        self,
        count: int,
        record_filter: RecordFilter,
        *,
        after: int = 0,
        last: int | None = None,
        whole_requests: bool = False,
    ) -> list[int]:
        """Return the cursors of the last `count` matching records up to the cursor `last`, in order.

        With `whole_requests` and without conditions on single spans, a request counts once, and all its spans
        are included.
        """
        self.limit_time(READ_SECONDS)
        if last is None:
            last = self.bounds()[1]
        requests = whole_requests and (
            record_filter.resource is None and record_filter.pattern is None and not record_filter.roots
        )
        cursors: list[int] = []
        roots: set[str] = set()
        for cursor, root in self._backwards(record_filter, after, last, _COUNTED_SQL if requests else "true"):
            if len(cursors) >= count:
                break
            cursors.append(cursor)
            roots.add(root)
        if requests:
            condition, values = record_filter.condition()
            inner = (
                f"select cursor from record where {_OF_REQUESTS} and kind = 'request' and root = 0 "
                f"and cursor > ? and cursor <= ? and {condition}"
            )
            rows = self.run(inner, (json.dumps(sorted(roots)), after, last, *values))
            cursors += [cursor for (cursor,) in rows]
        return sorted(cursors)

    def page_of(
        self, node: str, after: int, limit: int, max_bytes: int
    ) -> tuple[list[Sequence[Any]], list[Sequence[Any]], bool]:
        """Return the next records of a node ("": this one), as for `engine.timeline.recorder.Publish`.

        There is at least one, if any. Otherwise return the series of its metrics. The last value is true if
        records between may have been removed.
        """
        self.limit_time(READ_SECONDS)
        cursor, condition = of_node(node)
        found = self.run(
            f"select {cursor}, {', '.join(FIELDS)}, coalesce(node_ms, written_ms) from record"
            f" where {condition} and {cursor} > ? order by {cursor} limit ?",
            (node, after, limit),
        )
        if rows := list(_within(max_bytes, found)):
            known = f"select 1 from record where {condition} and {cursor} = ?"
            return rows, [], after > 0 and not self.run(known, (node, after))
        series = self.run("select * from metric where node = ?", (node,))
        return [], [row[:-1] for row in series], False

    def copied(self) -> dict[str, int]:
        """Return the last copied cursor of each other node."""
        return dict(self.run("select * from peer"))

    def _backwards(
        self, record_filter: RecordFilter, after: int, last: int, counted: str
    ) -> Iterator[tuple[int, str]]:
        """Yield matching cursors, newest first, and the request id of each that is a root span."""
        condition, values = record_filter.condition()
        texts = record_filter.pattern is not None
        sql = (
            f"select {_COLUMNS if texts else 'cursor'}, {_ROOT_REQUEST_SQL} from record "
            f"where cursor > ? and cursor <= ? and {condition} and {counted} order by cursor desc limit ?"
        )
        chunk = _CHUNK_RECORDS if texts else PAGE_RECORDS
        while rows := self.run(sql, (after, last, *values, chunk)):
            for row in rows:
                if not texts or record_filter.matches(row[1:-2]):
                    yield row[0], row[-1]
            last = rows[-1][0] - 1

    def cursor_before(self, time_ns: int) -> int:
        """Return the cursor after which all records were written at or after a time (Unix epoch)."""
        time_ms = time_ns // 1_000_000
        with self.view():
            low, high = self.bounds()
            while low <= high:
                middle = (low + high) // 2
                ((cursor, written_ms),) = self.run(_NEXT, (middle,))
                if written_ms < time_ms:
                    low = cursor + 1
                else:
                    high = middle - 1
            return low - 1

    def time_range(self, record_filter: RecordFilter) -> tuple[int, int]:
        """Return the cursors that have all records of its times: the first exclusive, the last inclusive.

        Copies from other nodes can be written long after their times.
        """
        since, until = record_filter.since_ns, record_filter.until_ns
        after = self.cursor_before(since) if since is not None else 0
        last = self.bounds()[1] if until is None or self.copied() else self.cursor_before(until)
        return after, last

    def scan_cursors(self, cursor: int, record_filter: RecordFilter, limit: int) -> CursorPage:
        """Match the next `limit` records after a cursor; a filter's `pattern` is ignored."""
        self.limit_time(READ_SECONDS)
        with self.view():
            first, last = self.bounds()
            after = max(cursor, first - 1)
            position = max(after, min(after + limit, last))
            condition, values = record_filter.condition()
            matching = (
                f"select cursor from record where cursor > ? and cursor <= ? and {condition} order by cursor"
            )
            sql = f"select json_group_array(cursor - ?) from ({matching})"
            ((offsets,),) = self.run(sql, (after, after, position, *values))
            return CursorPage(after, position, offsets, self._count_dropped(cursor, first))

    def by_cursors(
        self, cursors: Sequence[int], max_bytes: int = WINDOW_BYTES, *, newest: bool = False
    ) -> list[Document]:
        """Return the records at these cursors, in cursor order; removed ones are omitted.

        Of more than `max_bytes` of text, only the first ones are returned, or the `newest`.
        """
        self.limit_time(READ_SECONDS)
        ordered = sorted(cursors, reverse=newest)
        parts = (
            self._rows(_AT, ordered[start : start + _CHUNK_RECORDS])
            for start in range(0, len(ordered), _CHUNK_RECORDS)
        )
        rows = (row for part in parts for row in (reversed(part) if newest else part))
        found = [self._document(row) for row in _within(max_bytes, rows)]
        return found[::-1] if newest else found

    def child_spans(self, requests: Sequence[str]) -> list[Document]:
        """Return the spans of these requests behind mounts, in the order in which they ended."""
        self.limit_time(READ_SECONDS)
        return [self._document(row) for row in self._rows(f"{_OF_REQUESTS} and root = 0", requests)]

    def _rows(self, condition: str, values: Sequence[str | int]) -> list[Any]:
        sql = f"select {_COLUMNS} from record where {condition} order by cursor"
        return self.run(sql, (json.dumps([*values]),))

    def exchange(self, request_id: str) -> RecordedExchange | None:
        """Return the recording of a request, if any."""
        rows = self.run("select head, request, response from exchange where request_id = ?", (request_id,))
        return decode_exchange(request_id, *rows[0]) if rows else None

    def resources(self) -> set[str]:
        return {name for (name,) in self.run("select distinct resource from record") if name}


def of_node(node: str) -> tuple[str, str]:
    """Return the column of a node's cursors, and the indexed condition on its records."""
    return ("node_cursor", "node <> '' and node = ?") if node else ("cursor", "node = ?")


def text_bytes(row: Sequence[Any]) -> int:
    """Return the approximate size of the texts of a record, given its cursor and the values of `FIELDS`."""
    return len(row[_BODY] or "") + len(row[_ATTRIBUTES] or "")


def _within(max_bytes: int, rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Yield the first rows, with up to `max_bytes` of text; at least one, if any."""
    size = 0
    for at, row in enumerate(rows):
        size += text_bytes(row)
        if at and size > max_bytes:
            return
        yield row


def open_reader(path: Path, *, calls: bool = True) -> TimelineReader | None:
    """Open a file for reading; return `None` if it or its tables do not exist. Raises `TimelineError`."""
    if not path.exists():
        return None
    reader = TimelineReader(path, calls=calls)
    if not reader.empty:
        return reader
    reader.close()  # A new file briefly has no tables.
    return None


_TAIL_RECORDS = 64
"""Number of records in a page of a tail: their texts have at most 8 MiB."""


def select(
    path: Path, record_filter: RecordFilter, *, after: int | None = None, tail: int | None = None
) -> Generator[RecordPage]:
    """Yield pages of matching records beyond a cursor, oldest first, at least one page.

    With `tail`, these are the last ones, at most this many. A follower starts at `position` of the last page.
    Raises `TimelineError`.
    """
    reader = open_reader(path)
    if reader is None:
        yield RecordPage([], after or 0)
        return
    with closing(reader):
        begin, last = reader.time_range(record_filter)
        begin = max(begin, after or 0)
        if tail is None:
            page = reader.after(begin, record_filter)
            yield page
            while page.position < last:
                page = reader.after(page.position, record_filter)
                yield page
            return
        dropped = reader.after(begin, record_filter, 0).dropped
        cursors = reader.tail_cursors(tail, record_filter, after=begin, last=last, whole_requests=True)
        for start in range(0, len(cursors) or 1, _TAIL_RECORDS):
            records = reader.by_cursors(cursors[start : start + _TAIL_RECORDS])
            yield RecordPage(records, max(begin, last), dropped)
            dropped = 0


_Page = TypeVar("_Page", RecordPage, CursorPage)
_SETTLED_NS = 2 * 10**9
"""A file that was written later may change without another time: that of some file systems is in seconds."""


class TimelineFollower:
    """Returns each matching record once, in order, of any process. Use it from one thread at a time.

    It polls the file instead of the engine, so a slow follower costs the engine nothing. It handles a missing
    and a replaced file. Between polls it has no open file, and a poll opens only one that has changed.
    """

    def __init__(self, path: Path, record_filter: RecordFilter, position: int) -> None:
        self._path = path
        self._filter = record_filter
        self._seen: list[tuple[int, int, int]] = []
        """Stamps of the files whose records were all read."""
        self.position = position

    def poll(self) -> RecordPage:
        """Return the next records, possibly none. Raises `TimelineError`.

        The page's `dropped` counts records that were removed to free space before this follower read them.
        """
        page = self._read(lambda reader: reader.after(self.position, self._filter))
        return page or RecordPage([], self.position)

    def scan_cursors(self, limit: int) -> CursorPage:
        """Return which of the next `limit` records match. Otherwise as `poll`."""
        page = self._read(lambda reader: reader.scan_cursors(self.position, self._filter, limit))
        return page or CursorPage(self.position, self.position, "[]", 0)

    def _read(self, read: Callable[[TimelineReader], _Page]) -> _Page | None:
        stamps = database_stamps(self._path)
        if stamps == self._seen or (reader := open_reader(self._path)) is None:
            return None
        with closing(reader):
            if self.position > reader.bounds()[1]:
                # The position belongs to an older file, written while the clock was ahead.
                self.position = reader.origin() - 1
            page = read(reader)
        settled = all(written_ns < time.time_ns() - _SETTLED_NS for written_ns, *_ in stamps)
        self._seen = stamps if settled and page.position == self.position else []
        self.position = page.position
        return page
