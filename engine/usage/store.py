"""Usage of a project: sums of request costs by minute and resource, the SQLite file with a writer.

Concurrent writers add to existing sums in transactions of their own, so none loses another's counts. A killed
process loses only unwritten sums. The file uses SQLite's rollback journal: with write-ahead logging, readers
and a writer could work concurrently, but a process that opens the file while another closes it may be refused
without waiting.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, astuple, dataclass, fields, replace
from functools import partial
from itertools import groupby, islice
from operator import add, itemgetter
from pathlib import Path
from typing import Any

from engine.errors import SvcError
from engine.files.data_dir import DATA_DIR
from engine.files.sqlite_file import SqliteFile, WrittenFile
from engine.recurring import IDLE_SECONDS, Recurring
from engine.timeline.bus import TimelineBus
from engine.timeline.record import Record, RequestRecord, failed

Key = tuple[int, str]
"""A minute (whole minutes since the Unix epoch) and a resource's name."""

MINUTE_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class UsageCount:
    """Cost of a number of requests.

    Times in nanoseconds, sizes in bytes; `peak_memory` is the largest of one request, 0 if unknown.
    `failures` counts requests that failed for a reason other than the client.
    """

    requests: int = 0
    failures: int = 0
    _: KW_ONLY
    compute_ns: int = 0
    wall_ns: int = 0
    peak_memory: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    @classmethod
    def of(cls, numbers: Iterable[int]) -> "UsageCount":
        return cls(**dict(zip(cls.__slots__, numbers, strict=True)))

    def __add__(self, other: "UsageCount") -> "UsageCount":
        total = UsageCount.of(map(add, astuple(self), astuple(other)))
        return replace(total, peak_memory=max(self.peak_memory, other.peak_memory))


class Aggregator:
    """A follower of the timeline; may be called from any thread. A request counts when it ends.

    Records are queued and added up when the sums are requested: a thousand at once take a quarter of the time
    that they would take one by one, between other work.
    """

    def __init__(self) -> None:
        self._records: deque[RequestRecord] = deque()
        self._sums: dict[Key, list[int]] = {}

    def __call__(self, record: Record) -> None:
        if isinstance(record, RequestRecord) and record.resource:
            self._records.append(record)

    def take(self) -> dict[Key, UsageCount]:
        """Return the sums since the last call."""
        sums, self._sums = self._sums, {}
        for _ in range(len(self._records)):
            record = self._records.popleft()
            key = ((record.time_ns + record.wall_ns) // MINUTE_NS, record.resource)
            # A new `UsageCount` each time would take three times as long.
            each = sums.setdefault(key, [0] * 7)
            each[0] += 1
            each[1] += failed(record)
            each[2] += record.compute_ns
            each[3] += record.wall_ns
            each[4] = max(each[4], record.peak_memory or 0)
            each[5] += record.bytes_in
            each[6] += record.bytes_out
        return {key: UsageCount.of(numbers) for key, numbers in sums.items()}

    def restore(self, counts: Mapping[Key, UsageCount], limit: int) -> None:
        """Add sums that could not be stored, before others; above `limit` keys, the oldest are lost."""
        self._sums = {key: list(astuple(count)) for key, count in sorted(counts.items())[-limit:]}


USAGE_FILE = "usage.db"

_NUMBERS = tuple(each.name for each in fields(UsageCount))
_COLUMNS = "\n  minute integer not null,\n  resource text not null,\n" + "".join(
    f"  {name} integer not null,\n" for name in _NUMBERS
)
_SCHEMA = f"""
create table if not exists usage ({_COLUMNS} primary key (minute, resource)) strict, without rowid;
pragma user_version = 1;
"""
_COPIES = f"""
create table if not exists peer_usage (
  {_COLUMNS} node text not null, primary key (minute, resource, node)
) strict, without rowid;
"""
"""The sums of other nodes of a fleet."""
_ADDED = {name: f"{name} + excluded.{name}" for name in _NUMBERS}
_ADDED["peak_memory"] = "max(peak_memory, excluded.peak_memory)"
_ADD = f"""
insert into usage values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do update set {", ".join(f"{name} = {value}" for name, value in _ADDED.items())}
"""
_COPY = """
insert or replace into peer_usage select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 where not exists (
  select 1 from peer_usage where minute = ?1 and resource = ?2 and node = ?10 and requests > ?3
)
"""
"""Sums only grow, so that older ones that arrive later are ignored."""
_SUMS = "select * from usage where minute = ? and resource = ?"
_ALL = """
select *, '' as node from usage where (minute, resource) > (?1, ?2)
union all select * from peer_usage where (minute, resource) > (?1, ?2) order by minute, resource
"""
_OF_NODE = f"select * from ({_ALL}) where node = ?3 order by minute, resource limit ?4"


UsageRow = Sequence[Any]
"""A minute, a resource's name, and the numbers of a `UsageCount`."""
UsageCopy = tuple[str, UsageRow]
"""A node and its sums."""


class UsageError(SvcError):
    """The usage file is unusable."""


class CorruptUsage(UsageError):
    """The file is not a database, or is corrupt."""


def usage_path(root: Path) -> Path:
    return root / DATA_DIR / USAGE_FILE


class UsageStore(SqliteFile):
    """One open usage file. Use it from one thread at a time; every method raises `UsageError`."""

    title, located = "the usage file", "the usage file {}"
    actions = "store usage", "store usage"
    mode = 0o644
    version = 1
    error_type = UsageError
    corrupt_type = CorruptUsage
    newer_type = UsageError

    def _prepare(self, write: bool) -> None:
        if self.empty:
            with self.change():
                self.run(_SCHEMA)
        self.run(_COPIES)

    def add(self, counts: Mapping[Key, UsageCount], copies: Iterable[UsageCopy] = ()) -> list[UsageRow]:
        """Add counts to the stored sums, and replace those of other nodes, in one transaction.

        Returns the sums of the same minutes and resources.
        """
        rows = [(minute, resource, *astuple(count)) for (minute, resource), count in counts.items()]
        with self.change():
            self._database.executemany(_ADD, rows)
            self._database.executemany(_COPY, [(*row, node) for node, row in copies])
            return [row for key in counts for row in self.run(_SUMS, key)]

    def last_copied(self, node: str) -> int:
        """Return the last minute with sums of another node. 0 without one."""
        return int(self.run("select max(minute) from peer_usage where node = ?", (node,))[0][0] or 0)

    def delete_before(self, before: int) -> None:
        for table in ("usage", "peer_usage"):
            self.run(f"delete from {table} where minute < ?", (before,))

    def read(self, since: int) -> dict[Key, UsageCount]:
        """Return the sums of all nodes from a minute on, in the order of minutes and names."""
        return {
            (minute, resource): UsageCount.of(numbers)
            for minute, resource, *numbers in self.page((since, ""), None)
        }

    def page(self, after: Key, limit: int | None) -> list[UsageRow]:
        """Return the next sums of all nodes: minute, name, and the numbers of a `UsageCount`."""

        def read() -> list[UsageRow]:
            rows = (row[:-1] for row in self._database.execute(_ALL, after))
            return [_sum(list(group)) for _, group in islice(groupby(rows, itemgetter(0, 1)), limit)]

        return self._retry_busy(read)

    def page_of(self, node: str, after: Key, limit: int) -> list[UsageRow]:
        """Return the next sums of a node ("": this one), as `page`."""
        return [row[:-1] for row in self.run(_OF_NODE, (*after, node, limit))]


def _sum(rows: Sequence[UsageRow]) -> UsageRow:
    if len(rows) == 1:
        return rows[0]
    counts = (UsageCount.of(row[2:]) for row in rows)
    return (*rows[0][:2], *astuple(sum(counts, UsageCount())))


INTERVAL_SECONDS = 1.0
RETENTION_MINUTES = 31 * 24 * 60
DELETE_EVERY_MINUTES = 60
MAX_UNWRITTEN = 20_000
"""Maximum number of unwritten sums (one per minute and resource)."""


class UsageRecorder:
    """Follows a timeline from creation until `close`, and writes about once a second.

    Another thread writes, so that neither a slow disk nor another process delays a request.
    """

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
        self._file = WrittenFile(path, UsageStore, partial(UsageStore, path), warn)
        self._warn = warn
        self._interval = interval
        self._now_ns = now_ns
        self._publish = publish
        self._copies: deque[UsageCopy] = deque()
        self._aggregator = Aggregator()
        self._deleted_at = 0
        self._woken = False
        self._runs = Recurring(self._work)
        self._unsubscribe = timeline.subscribe(self)

    def __call__(self, record: Record) -> None:
        self._aggregator(record)
        if not self._woken:
            self._woken = True
            self._runs.wake(self._interval)

    def copy(self, node: str, rows: Sequence[UsageRow]) -> None:
        """Queue sums of another node."""
        self._copies.extend((node, row) for row in rows)
        self._runs.wake(self._interval)

    @property
    def full(self) -> bool:
        """True while no further sums should be queued."""
        return len(self._copies) > MAX_UNWRITTEN

    def _work(self) -> float | None:
        """Write what is queued, and try again if that fails. Close the file if it is idle."""
        self._woken = False
        counts = self._aggregator.take()
        copies = [self._copies.popleft() for _ in range(len(self._copies))]
        if not counts and not copies:
            self._file.close()
            return None
        while True:
            try:
                store = self._file.open()
                sums = store.add(counts, copies)
                break
            except SvcError as error:
                if not self._file.recover(error):
                    self._copies.extendleft(reversed(copies))
                    self._aggregator.restore(counts, MAX_UNWRITTEN)
                    return self._interval
        self._file.failing = False
        if sums and self._publish is not None:
            self._publish(sums)
        minute = self._now_ns() // MINUTE_NS
        if minute - self._deleted_at >= DELETE_EVERY_MINUTES:
            self._deleted_at = minute
            try:
                store.delete_before(minute - RETENTION_MINUTES)
            except SvcError as error:
                self._warn(error)
        return IDLE_SECONDS

    def close(self) -> None:
        """Write the remaining sums and stop; call it after the last request."""
        self._unsubscribe()
        self._runs.close()
        self._work()
        self._file.close()
