"""SQLite file of the timeline: opening, schema, transactions and error mapping.

Several processes may write and read concurrently: with a write-ahead log, readers continue while a batch is
written, and a killed process loses only unwritten records. Batches are not synced to disk, so a power failure
may lose the last ones.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw

from engine.errors import SvcError
from engine.files.data_dir import DATA_DIR, ensure_data_dir

TIMELINE_FILE = "timeline.db"
VERSION = 1
BUSY_SECONDS = 5.0
"""How long a read or write waits for a writer in another process."""
WAL_BYTES = 16 << 20
FIELDS = (
    "time_ns",
    "kind",
    "level",
    "resource",
    "request_id",
    "body",
    "trace_id",
    "span_id",
    "attributes",
    "parent",
    "root",
    "method",
    "target",
    "status",
    "code",
    "wall_ns",
    "compute_ns",
    "peak_memory",
    "bytes_in",
    "bytes_out",
)
"""Columns besides `cursor` and `written_ms`; those from `parent` on belong to requests."""

BOUNDS = "select (select min(cursor) from record), (select max(cursor) from record)"
"""The first and last cursor, in two queries: SQLite finds each at one end of the table. A single query
for both would scan the table.
"""

_INTEGERS = {"time_ns", "level", "root", "status", "wall_ns", "compute_ns"} | {
    "peak_memory",
    "bytes_in",
    "bytes_out",
}
_SCHEMA = f"""
create table if not exists record (
  cursor integer primary key,
  written_ms integer not null,
  {", ".join(f"{name} {'integer' if name in _INTEGERS else 'text'}" for name in FIELDS)}
) strict;
create index if not exists record_request on record (request_id) where request_id <> '';
create table if not exists origin (only integer primary key check (only = 1), cursor integer not null) strict;
"""
_EXCHANGES = """
create table if not exists exchange (
  request_id text primary key,
  cursor integer not null,
  weight integer not null,
  head text not null,
  request blob not null,
  response blob not null
) strict;
create index if not exists exchange_age on exchange (cursor, weight);
"""
"""Recordings of requests: `cursor` is that of a record written with it, `weight` the approximate size in
bytes.
"""
_PAUSE_SECONDS = 0.01
_Result = TypeVar("_Result")


class TimelineError(SvcError):
    """The timeline's file is currently unusable."""


class CorruptTimeline(TimelineError):
    """The file is not a database, or is corrupt."""


class NewerTimeline(TimelineError):
    """The file was written by a newer svc and stays unchanged."""


def timeline_path(root: Path) -> Path:
    """Return the path of a project folder's timeline."""
    return root / DATA_DIR / TIMELINE_FILE


class TimelineDatabase:
    """One connection. Use it from one thread at a time; every method raises `TimelineError`."""

    def __init__(self, path: Path, *, write: bool) -> None:
        """Open the file; with `write`, create it if it does not exist."""
        self._path = path
        self._use = "write" if write else "read"
        self.inode = 0
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if write else 0)
        try:
            if write:
                ensure_data_dir(path.parent)
                # Owner-only: it has request bodies. SQLite gives its other files the same mode.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._database = apsw.Connection(str(path), flags=flags)
        except (OSError, apsw.Error) as error:
            raise self._error(error) from error
        try:
            self._database.set_busy_timeout(int(BUSY_SECONDS * 1000))
            self._prepare(write)
            self.inode = path.stat().st_ino
        except OSError as error:
            self._database.close()
            raise self._error(error) from error
        except BaseException:
            self._database.close()
            raise

    def _prepare(self, write: bool) -> None:
        version = self.run("pragma user_version")[0][0]
        if version > VERSION:
            raise NewerTimeline(
                f"{self._path} was written by a newer svc",
                "Update svc, or move the file away to start with an empty one.",
                public_message=f"{TIMELINE_FILE} was written by a newer svc",
            )
        self.empty = version < VERSION
        if write:
            self.run("pragma journal_mode = wal")
            self.run("pragma synchronous = normal")
            self.run(f"pragma journal_size_limit = {WAL_BYTES}")
            if self.empty:
                self.change(self._create_tables)
                self.empty = False
            self.run(_EXCHANGES)
        else:
            self.run("pragma query_only = on")

    def _create_tables(self) -> None:
        """Create the tables. Cursors start at the current time in microseconds, so cursors of a recreated
        file are above all cursors of the old one.
        """
        self._database.execute(_SCHEMA).fetchall()
        self._database.execute("insert or ignore into origin values (1, ?)", (time.time_ns() // 1000,))
        self._database.execute(f"pragma user_version = {VERSION}")

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run one statement and return its rows."""
        return self._retry_busy(lambda: self._database.execute(sql, values).fetchall())

    def change(self, change: Callable[[], _Result]) -> _Result:
        """Call a function in a transaction that is a write transaction from the start."""
        return self._transaction("begin immediate", change)

    def view(self, read: Callable[[], _Result]) -> _Result:
        """Call a function with a consistent snapshot of the file."""
        return self._transaction("begin", read)

    def _transaction(self, begin: str, work: Callable[[], _Result]) -> _Result:
        self.run(begin)
        try:
            result = work()
            self.run("commit")
        except BaseException as error:
            # SQLite itself rolls back a transaction after a full disk or a corrupt file.
            if self._database.in_transaction:
                self._database.execute("rollback")
            if isinstance(error, apsw.Error):
                raise self._error(error) from error
            raise
        return result

    def _retry_busy(self, work: Callable[[], _Result]) -> _Result:
        """Retry while the file is busy, also if SQLite's own timeout does not apply: while another
        process opens or closes it.
        """
        end = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return work()
            except apsw.BusyError as error:
                if time.monotonic() > end:
                    raise self._error(error) from error
                time.sleep(_PAUSE_SECONDS)
            except apsw.Error as error:
                raise self._error(error) from error

    def replaced(self) -> bool:
        """Return whether the path no longer refers to the opened file."""
        try:
            return self._path.stat().st_ino != self.inode
        except OSError:
            return True

    def close(self) -> None:
        """Close the connection."""
        self._database.close(True)

    def _error(self, error: Exception) -> TimelineError:
        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            return CorruptTimeline(
                f"the timeline in {self._path} is corrupt: {error}",
                "Run `svc dev` or the service: it moves the file aside and creates a new one.",
                public_message=f"the timeline is corrupt: {error}",
            )
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return TimelineError(
            f"cannot {self._use} the timeline in {self._path}: {reason}",
            "Check the folder's permissions (reading needs write access too) and the free disk space.",
            public_message=f"cannot {self._use} the timeline in {TIMELINE_FILE}: {reason}",
        )


def is_corrupt(path: Path) -> bool:
    """Return whether a file is corrupt."""
    try:
        database = TimelineDatabase(path, write=False)
    except CorruptTimeline:
        return True
    except TimelineError:
        return False
    try:
        return bool(database.run("pragma quick_check(1)") != [("ok",)])
    except CorruptTimeline:
        return True
    finally:
        database.close()
