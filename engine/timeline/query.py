"""Queries on the timeline's file: filters, pages and ranges of cursors. Positions are in `follow.py`."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from engine.door import Severity
from engine.timeline.database import BOUNDS, FIELDS, TimelineDatabase
from engine.timeline.record import RequestRecord
from engine.timeline.recording import RecordedExchange
from engine.timeline.recording import decode as decode_exchange
from engine.timeline.stored_record import SEVERITY_NUMBERS, StoredRecord, decode, searchable

PAGE_RECORDS = 1000
_COLUMNS = ", ".join(("cursor", *FIELDS))
_WILD = re.compile(r"[%_\\]")
_SEARCHABLE_SQL = (
    "case kind when 'request' then method || ' ' || target || ' ' || status || ' ' || code || ' ' || body"
    """ else body || coalesce(' ' || replace(replace(attributes, '", "', ' '), '": "', '='), '') end"""
)
"""SQL for approximately the result of `searchable`."""
_COUNTED_SQL = (
    "(kind <> 'request' or root = 1 or not exists (select 1 from record as whole "
    "where whole.request_id <> '' and whole.request_id = record.request_id and whole.root = 1))"
)
"""SQL for records other than the inner spans of finished requests."""


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions on records; a record must meet all that are set.

    `min_level` is the lowest level, `pattern` is searched in the result of `searchable`. `text` is searched
    there by SQLite, case-insensitively for a-z; quotes and line ends in attributes appear as in JSON.
    `statuses` are the lowest and highest status of a request. `roots` selects, of the spans of a request,
    only the one that the client's request started.
    """

    resource: str | None = None
    request_id: str | None = None
    _: KW_ONLY
    min_level: Severity | None = None
    pattern: re.Pattern[str] | None = None
    text: str | None = None
    statuses: tuple[int, int] | None = None
    roots: bool = False

    def condition(self) -> tuple[str, list[str | int]]:
        """Return the part that SQL evaluates, as an expression and its values."""
        parts: list[str] = ["true"]
        values: list[str | int] = []
        if self.resource is not None:
            parts.append("resource = ?")
            values.append(self.resource)
        if self.request_id is not None:
            parts.append("request_id <> '' and request_id = ?")
            values.append(self.request_id)
        if self.min_level is not None:
            parts.append("level >= ?")
            values.append(SEVERITY_NUMBERS[self.min_level])
        if self.text is not None:
            parts.append(f"{_SEARCHABLE_SQL} like ? escape '\\'")
            values.append("%" + _WILD.sub(r"\\\g<0>", self.text) + "%")
        if self.statuses is not None:
            parts.append("status between ? and ?")
            values += self.statuses
        if self.roots:
            parts.append("(root = 1 or kind <> 'request')")
        return " and ".join(parts), values

    def matches(self, row: Sequence[Any]) -> bool:
        """Return whether the remaining part holds, given the values of `FIELDS`."""
        return self.pattern is None or self.pattern.search(searchable(row)) is not None


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Records in order; `position` is the last cursor examined, matching or not.

    `dropped` counts the records, matching or not, removed between the requested cursor and the first existing
    one; it is 0 for the cursor 0. `more` means that further records may follow at once.
    """

    entries: list[StoredRecord]
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


class TimelineReader:
    """One open file, read-only. Use it from one thread at a time; every method raises `TimelineError`."""

    def __init__(self, path: Path) -> None:
        self._database = TimelineDatabase(path, write=False)

    def ready(self) -> bool:
        """Return whether the file has its tables; a new file briefly has none."""
        return not self._database.empty

    def bounds(self) -> tuple[int, int]:
        """Return the first and last cursor; the last is below the first if the file has no records."""
        return self._database.view(self._bounds)

    def _bounds(self) -> tuple[int, int]:
        ((first, last),) = self._database.run(BOUNDS)
        origin = self.origin()
        return (origin, origin - 1) if first is None else (first, last)

    def origin(self) -> int:
        """Return the first cursor of the file's history."""
        return int(self._database.run("select cursor from origin")[0][0])

    def after(self, cursor: int, record_filter: RecordFilter, limit: int = PAGE_RECORDS) -> RecordPage:
        """Return up to `limit` matching records after a cursor, oldest first."""
        return self._database.view(lambda: self._after(cursor, record_filter, limit))

    def _after(self, cursor: int, record_filter: RecordFilter, limit: int) -> RecordPage:
        first, last = self._bounds()
        condition, values = record_filter.condition()
        rows = self._database.run(
            f"select {_COLUMNS} from record where cursor > ? and {condition} order by cursor limit ?",
            (cursor, *values, limit),
        )
        more = len(rows) == limit
        position = rows[-1][0] if more else max(cursor, last)
        records = [decode(row[0], row[1:]) for row in rows if record_filter.matches(row[1:])]
        return RecordPage(records, position, self._count_dropped(cursor, first), more)

    def count_dropped(self, cursor: int) -> int:
        """Return how many records after a cursor were removed; 0 for the cursor 0."""
        return self._database.view(lambda: self._count_dropped(cursor, self._bounds()[0]))

    def _count_dropped(self, cursor: int, first: int) -> int:
        return max(0, first - max(cursor + 1, self.origin())) if cursor else 0

    def tail(
        self,
        count: int,
        record_filter: RecordFilter,
        *,
        after: int = 0,
        last: int | None = None,
        whole_requests: bool = False,
    ) -> list[StoredRecord]:
        """Return the last `count` matching records up to the cursor `last`, oldest first.

        With `whole_requests` and without conditions on single spans, a request counts once and is returned
        with all its spans.
        """
        if last is None:
            last = self.bounds()[1]
        requests = whole_requests and (
            record_filter.resource is None and record_filter.pattern is None and not record_filter.roots
        )
        records: list[StoredRecord] = []
        page = PAGE_RECORDS if record_filter.pattern is not None else min(count, PAGE_RECORDS)
        for entry in self._backwards(record_filter, after, last, page, _COUNTED_SQL if requests else "true"):
            if len(records) >= count:
                break
            records.append(entry)
        if requests:
            records += self._inner_spans(records, record_filter, after, last)
        return sorted(records, key=lambda entry: entry.cursor)

    def _inner_spans(
        self, records: Sequence[StoredRecord], record_filter: RecordFilter, after: int, last: int
    ) -> list[StoredRecord]:
        """Return the matching spans below the root spans among some records."""
        roots = {
            entry.record.request_id
            for entry in records
            if isinstance(entry.record, RequestRecord) and entry.record.root
        }
        condition, values = record_filter.condition()
        sql = (
            f"select {_COLUMNS} from record where request_id in (select value from json_each(?)) "
            "and request_id <> '' and kind = 'request' and root = 0 "
            f"and cursor > ? and cursor <= ? and {condition}"
        )
        rows = self._database.run(sql, (json.dumps(sorted(roots)), after, last, *values))
        return [decode(row[0], row[1:]) for row in rows]

    def _backwards(
        self, record_filter: RecordFilter, after: int, last: int, page: int, counted: str
    ) -> Iterator[StoredRecord]:
        condition, values = record_filter.condition()
        sql = (
            f"select {_COLUMNS} from record where cursor > ? and cursor <= ? and {condition} "
            f"and {counted} order by cursor desc limit ?"
        )
        while rows := self._database.run(sql, (after, last, *values, page)):
            for row in rows:
                if record_filter.matches(row[1:]):
                    yield decode(row[0], row[1:])
            last = rows[-1][0] - 1

    def cursor_before(self, time_ns: int) -> int:
        """Return the cursor after which all records were written at or after a time (Unix epoch)."""
        return self._database.view(lambda: self._cursor_before(time_ns // 1_000_000))

    def _cursor_before(self, time_ms: int) -> int:
        low, high = self._bounds()
        while low <= high:
            middle = (low + high) // 2
            ((written_ms,),) = self._database.run("select written_ms from record where cursor = ?", (middle,))
            if written_ms < time_ms:
                low = middle + 1
            else:
                high = middle - 1
        return low - 1

    def scan_cursors(self, after: int, record_filter: RecordFilter, limit: int) -> CursorPage:
        """Match the next `limit` records after a cursor; a filter's `pattern` is ignored."""
        return self._database.view(lambda: self._scan_cursors(after, record_filter, limit))

    def _scan_cursors(self, cursor: int, record_filter: RecordFilter, limit: int) -> CursorPage:
        first, last = self._bounds()
        after = max(cursor, first - 1)
        position = max(after, min(after + limit, last))
        condition, values = record_filter.condition()
        matching = (
            f"select cursor from record where cursor > ? and cursor <= ? and {condition} order by cursor"
        )
        sql = f"select json_group_array(cursor - ?) from ({matching})"
        ((offsets,),) = self._database.run(sql, (after, after, position, *values))
        return CursorPage(after, position, offsets, self._count_dropped(cursor, first))

    def between(self, first: int, last: int) -> list[StoredRecord]:
        """Return the records from one cursor to another, both included."""
        return self._select("cursor between ? and ?", (first, last))

    def by_cursors(self, cursors: Sequence[int]) -> list[StoredRecord]:
        """Return the records at these cursors, in cursor order; removed ones are omitted."""
        return self._select(f"cursor in ({_placeholders(cursors)})", cursors)

    def child_spans(self, requests: Sequence[str]) -> list[StoredRecord]:
        """Return the spans of these requests behind mounts, in the order in which they ended."""
        return self._select(
            f"request_id <> '' and request_id in ({_placeholders(requests)}) and root = 0", requests
        )

    def _select(self, condition: str, values: Sequence[Any]) -> list[StoredRecord]:
        rows = self._database.run(f"select {_COLUMNS} from record where {condition} order by cursor", values)
        return [decode(row[0], row[1:]) for row in rows]

    def exchange(self, request_id: str) -> RecordedExchange | None:
        """Return the recording of a request, if any."""
        if not self._database.run("select 1 from sqlite_schema where name = 'exchange'"):
            return None  # written by a version of svc without recordings
        rows = self._database.run(
            "select head, request, response from exchange where request_id = ?", (request_id,)
        )
        return decode_exchange(request_id, *rows[0]) if rows else None

    def resources(self) -> set[str]:
        """Return the names of all resources that have records."""
        return {name for (name,) in self._database.run("select distinct resource from record") if name}

    def replaced(self) -> bool:
        """Return whether the file was removed or replaced."""
        return self._database.replaced()

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _placeholders(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def open_reader(path: Path) -> TimelineReader | None:
    """Open a file for reading; return `None` if it or its tables do not exist. Raises `TimelineError`."""
    if not path.exists():
        return None
    reader = TimelineReader(path)
    if reader.ready():
        return reader
    reader.close()
    return None
