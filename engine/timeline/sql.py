"""SQL of users over the timeline: read-only views, with limits on time, rows, bytes and temporary data."""

import json
import math
import re
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from engine.errors import SvcError
from engine.files.sql_functions import DENIED_FUNCTIONS, Work, register_functions
from engine.files.statement_limit import StatementLimit
from engine.files.statement_memory import MAX_COLLECTED_BYTES, StatementMemory
from engine.timeline.database import TimelineDatabase
from engine.timeline.record import SEVERITY_NUMBERS, Origin, utc
from engine.trace import call_id

TIMEOUT_SECONDS = 10.0
MAX_ROWS, MAX_BYTES = 10_000, 16 << 20
"""Maximum rows, and bytes of JSON, of a result. The row that exceeds the bytes is the last."""
MAX_SQL_CHARS = 100_000
MAX_WRITTEN_BYTES = 256 << 20
"""Maximum bytes of temporary data of a statement."""
MAX_VALUE_BYTES = 512 << 10
"""Maximum bytes of a value. A stored text has at most 256 KiB."""
MAX_VALUES = 1_000_000
"""Maximum values of a group that a percentile takes into account: the first ones."""
MAX_PATTERN_BYTES = 200
"""Maximum bytes of a pattern of `like` and `glob`."""
_SORTED_VALUES = 10_000
"""Values that are sorted at once."""
_TIME = "strftime('%Y-%m-%dT%H:%M:%fZ', time_ns / 1e9, 'unixepoch')"
_LEVEL = "case level {} end".format(
    " ".join(f"when {number} then '{name}'" for name, number in SEVERITY_NUMBERS.items())
)
_SPANS = "from main.record as span where span.request_id = record.request_id and span.request_id <> ''"
_NODE = "/* node */ "
"""Place of the column `node` in the views of a fleet."""
_ORIGIN = "".join(f", {name}" for name in Origin._fields)
_VIEWS = {
    "requests": f"""
        select {_NODE}cursor, {_TIME} as time, time_ns, request_id, trace_id, resource,
          (select span.resource {_SPANS} and span.kind = 'request' order by span.cursor limit 1) as handler,
          method, target, path_of(target) as path, status, code,
          level >= {SEVERITY_NUMBERS["ERROR"]} as failed,
          round(wall_ns / 1e6, 3) as wall_ms,
          (select round(sum(span.compute_ns) / 1e6, 3) {_SPANS} and span.kind = 'request') as compute_ms,
          (select max(span.peak_memory) {_SPANS} and span.kind = 'request') as peak_memory,
          bytes_in, bytes_out{_ORIGIN}
        from main.record where kind = 'request' and root = 1""",
    "spans": f"""
        select {_NODE}cursor, {_TIME} as time, time_ns, request_id, trace_id, span_id, parent, resource,
          kind, null as name, method, target, status, code,
          level >= {SEVERITY_NUMBERS["ERROR"]} as failed, body as detail,
          round(wall_ns / 1e6, 3) as wall_ms, round(compute_ns / 1e6, 3) as compute_ms, peak_memory,
          bytes_in, bytes_out, null as attributes{_ORIGIN}
        from main.record where kind = 'request'
        union all
        select {_NODE}cursor, strftime('%Y-%m-%dT%H:%M:%fZ', (time_ns + (value ->> 2)) / 1e9, 'unixepoch'),
          time_ns + (value ->> 2), request_id, trace_id, coalesce(value ->> 8, call_id(span_id, key)),
          case when value ->> 6 < 0 then span_id else coalesce(
            main.record.attributes ->> ('$[1][' || (value ->> 6) || '][8]'), call_id(span_id, value ->> 6)
          ) end, resource,
          value ->> 0, value ->> 1, null, null, nullif(value ->> 4, 0), value ->> 5, value ->> 5 <> '', null,
          round((value ->> 3) / 1e6, 3), null, null,
          iif(value ->> 0 = 'span', null, value ->> 7 ->> 'bytes_in'),
          iif(value ->> 0 = 'span', null, value ->> 7 ->> 'bytes_out'), value -> 7{_ORIGIN}
        from main.record, json_each(attributes, '$[1]')
        where kind = 'request' and attributes is not null""",
    "records": f"""
        select {_NODE}cursor, {_TIME} as time, time_ns, {_LEVEL} as level, resource, request_id, body,
          iif(kind = 'structured', attributes, null) as attributes,
          iif(kind = 'platform', attributes, null) as grant{_ORIGIN}
        from main.record where kind in ('structured', 'platform')""",
    "lines": f"""
        select {_NODE}cursor, {_TIME} as time, time_ns, kind as stream, resource, request_id,
          body as text{_ORIGIN}
        from main.record where kind in ('stdout', 'stderr')""",
    "metrics": f"""
        select {_NODE}{_TIME} as time, time_ns, resource, name, kind, unit, attributes, value,
          (select sum(value) from json_each(counts)) as count, bounds, counts,
          strftime('%Y-%m-%dT%H:%M:%fZ', since_ns / 1e9, 'unixepoch') as since, description
        from main.metric""",
}
VIEWS = tuple(_VIEWS)
"""The views that a statement can read."""
_READABLE = frozenset({*VIEWS, "record", "metric", "json_each", "json_tree", ""})
_INTERNAL = frozenset({"dbstat", "exchange", "origin"})
_ALLOWED = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE})
_FUNCTIONS = ("p50", "p95", "p99", "bucket", "ago")
_DURATION = re.compile("([0-9]{1,6})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class _SqlTimeline(TimelineDatabase):
    """A connection with the views and functions of a user's statement."""

    def _prepare(self, write: bool) -> None:
        super()._prepare(write)
        self.run("pragma query_only = off")
        if not self.empty:
            own = self.run("select node from main.origin")[0][0]
            node = f"coalesce(nullif(node, ''), {apsw.format_sql_value(own)}) as node, " if own else ""
            for name, select in _VIEWS.items():
                self.run(f"create temp view {name} as {select.replace(_NODE, node)}")
        self.run("pragma query_only = on")
        register_functions(self._database)
        self._database.create_scalar_function(
            "path_of", lambda *values: str(values[0]).partition("?")[0], 1, deterministic=True
        )
        self._database.create_scalar_function("call_id", _call_id, 2, deterministic=True)
        self._database.create_scalar_function("bucket", _bucket, 2, deterministic=True)
        self._database.create_scalar_function(
            "ago", lambda *values: time.time_ns() - _seconds(values[0]) * 10**9, 1
        )
        for percent in (50, 95, 99):
            self._database.create_aggregate_function(f"p{percent}", partial(_Percentile, percent / 100), 1)

    def select(self, sql: str, names: list[str], canceled: Callable[[], bool]) -> Generator[Sequence[Any]]:
        """Yield the rows. `names` get those of the columns, with the first row.

        Raises `SvcError` for a refused statement, and for one that runs while `canceled` is true.
        """
        database = self._database
        memory, authorizer = StatementMemory(database), _Authorizer()
        limits = StatementLimit(
            database, TIMEOUT_SECONDS, written=MAX_WRITTEN_BYTES, stopped=canceled, memory=memory
        )
        database.limit(apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN_BYTES)
        database.authorizer = authorizer
        statements, turn = 0, ExitStack()

        def trace(cursor: Any, statement: str, values: Any) -> bool:
            nonlocal statements
            statements += 1
            database.limit(apsw.SQLITE_LIMIT_LENGTH, min(authorizer.work.max_value(sql), MAX_VALUE_BYTES))
            if authorizer.work.collects:
                turn.enter_context(memory)
            names[:] = _unique([column[0] for column in cursor.get_description()])
            return statements == 1

        cursor = database.cursor()
        cursor.exec_trace = trace
        try:
            with limits, turn:
                yield from cursor.execute(sql)
        except apsw.ExecTraceAbort as error:
            hint = "Run them one by one."
            raise SvcError("the text has several statements", hint, code="invalid") from error
        except apsw.InterruptError as error:
            raise _stopped(written=limits.oversized, collected=memory.oversized) from error
        except (apsw.Error, ValueError) as error:
            message = authorizer.refusal or f"SQL: {error}"
            hint = f"Read {', '.join(VIEWS)}. Functions besides SQLite's: {', '.join(_FUNCTIONS)}."
            raise SvcError(message, hint, code="invalid") from error
        finally:
            cursor.close(True)


class _Authorizer:
    """Allows reads of the views. `refusal` says what was refused, `work` is that of the calls."""

    def __init__(self) -> None:
        self.refusal = ""
        self.work = Work()

    def __call__(
        self, action: int, first: str | None, second: str | None, database: str | None, inner: str | None
    ) -> int:
        name = (first if action == apsw.SQLITE_READ else second) or ""
        if action in _ALLOWED:
            return apsw.SQLITE_OK
        internal = name.startswith(("sqlite_", "pragma_")) or name in _INTERNAL
        if action == apsw.SQLITE_READ and (name in _READABLE or (database is None and not internal)):
            return apsw.SQLITE_OK  # Without a database, it is a name that the statement defines.
        if action == apsw.SQLITE_FUNCTION and name.lower() not in DENIED_FUNCTIONS:
            self.work.add(name.lower())
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_READ:
            self.refusal = f"{name} cannot be read"
        elif action == apsw.SQLITE_FUNCTION:
            self.refusal = f"{name}() cannot be called here"
        else:
            self.refusal = "the statement is not a SELECT"
        return int(apsw.SQLITE_DENY)


class _Percentile:
    """An aggregate function: the value below which a share of the values lies, between neighbors."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._values = array("d")
        self._sorted: list[array[float]] = []
        """Parts of a bounded number: to sort all values at once would hold the interpreter's lock."""

    def step(self, *values: Any) -> None:
        """Add a value. Null, texts and infinity are ignored."""
        value = values[0]
        if (
            isinstance(value, int | float)
            and math.isfinite(value)
            and len(self._sorted) < MAX_VALUES // _SORTED_VALUES
        ):
            self._values.append(value)
            if len(self._values) == _SORTED_VALUES:
                self._sort()

    def _sort(self) -> None:
        if self._values:
            self._sorted.append(array("d", sorted(self._values)))
            self._values = array("d")

    def final(self) -> float | None:
        """Return the percentile, or None without values."""
        self._sort()
        last = sum(map(len, self._sorted)) - 1
        if last < 0:
            return None
        at = self._share * last
        index = math.floor(at)
        low, high = self._at(index), self._at(min(index + 1, last))
        return round(low + (high - low) * (at - index), 6)

    def _at(self, index: int) -> float:
        """Return the value at an index of the sorted values: the first that enough values do not exceed."""
        low, high = min(part[0] for part in self._sorted), max(part[-1] for part in self._sorted)
        while low < high:
            middle = low / 2 + high / 2
            if not low <= middle < high:
                middle = low
            if sum(bisect_right(part, middle) for part in self._sorted) > index:
                high = middle
            else:
                low = math.nextafter(middle, math.inf)
        return low


def _call_id(*values: Any) -> str | None:
    """Return the span id of the call with an index, of a request's span id. None if it is not an integer."""
    span_id, index = values
    return call_id(str(span_id), index) if isinstance(index, int) else None


def _seconds(duration: Any) -> int:
    """Return the seconds of a duration such as `5m`. Raises ValueError."""
    match = _DURATION.fullmatch(str(duration))
    if match is None or not int(match[1]):
        raise ValueError(f"{str(duration)[:20]!r} is not a duration such as 30s, 5m, 1h or 1d")
    return int(match[1]) * _UNITS[match[2]]


def _bucket(*values: Any) -> str | None:
    """Return the start of the time bucket of `width`, such as `5m`, that has a time."""
    time_ns, width = values
    if not isinstance(time_ns, int):
        return None
    seconds = _seconds(width)
    start = time_ns // 1_000_000_000 // seconds * seconds
    return utc(start)


def run(path: Path, sql: str, limit: int = MAX_ROWS, canceled: Callable[[], bool] = lambda: False) -> bytes:
    """Run one SELECT over the timeline in a file and return its result as JSON. Ends if `canceled`.

    The members are those of `POST /sql` of the tables: `columns`, `rows`, `truncated`. Raises `SvcError`.
    """
    if len(sql) > MAX_SQL_CHARS:
        hint = "Write a shorter one."
        raise SvcError(f"the statement has more than {MAX_SQL_CHARS:,} characters", hint, code="invalid")
    if not path.exists():
        raise SvcError("no records yet", "Send a request first.", code="not-found")
    rows: list[bytes] = []
    truncated, size, names = None, 0, list[str]()
    with (
        closing(_SqlTimeline(path, write=False)) as timeline,
        closing(timeline.select(sql, names, canceled)) as found,
    ):
        for row in found:
            if len(rows) >= limit or size > MAX_BYTES:
                truncated = "rows" if len(rows) >= limit else "bytes"
                break
            rows.append(_json(dict(zip(names, map(_value, row), strict=True))))
            size += len(rows[-1])
    return b'{"columns":%b,"rows":[%b],"truncated":%b,"changes":0,"last_id":0}' % (
        _json([{"name": name, "type": ""} for name in names]),
        b",".join(rows),
        _json(truncated),
    )


def _unique(names: Sequence[str]) -> list[str]:
    """Return names of columns, with a number behind each further one of a name."""
    counts: dict[str, int] = {}
    unique = []
    for name in names:
        counts[name] = count = counts.get(name, 0) + 1
        unique.append(name if count == 1 else f"{name}:{count}")
    return unique


def _value(value: Any) -> Any:
    """Return a value that JSON has: infinity and bytes become text."""
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _stopped(*, written: bool, collected: bool) -> SvcError:
    if written:
        size = f"{MAX_WRITTEN_BYTES >> 20} MiB of temporary data"
        hint = "Sort or group fewer rows."
        return SvcError(f"the statement wrote more than {size}", hint, code="too-large")
    if collected:
        size = f"{MAX_COLLECTED_BYTES >> 20} MiB"
        hint = "Collect fewer values."
        return SvcError(f"the statement collected more than {size}", hint, code="too-large")
    hint = "Read the last records only: where cursor > (select max(cursor) - 10000 from requests)."
    return SvcError(f"the statement took longer than {TIMEOUT_SECONDS:.0f} s", hint, code="timeout")
