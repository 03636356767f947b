"""The timeline's file: one SQLite database in a Project's folder. Nothing else of the timeline knows SQLite.

Owns opening, the schema, transactions, and what an error means. Several processes may write and read at once:
a write-ahead log lets readers go on while a batch is written, and a process that is killed loses only what it
had not yet written. Batches are not flushed to the disk: a machine that loses power may lose the last ones.
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
"""How long a write or a read waits for another process that writes."""
WAL_BYTES = 16 << 20
FIELDS = (
    *("time_ns", "kind", "level", "resource", "request_id", "body", "trace_id", "span_id", "attributes"),
    *("parent", "root", "method", "target", "status", "code"),
    *("wall_ns", "compute_ns", "peak_memory", "bytes_in", "bytes_out"),
)
"""What a row holds beside `cursor` and `written_ms`; those from `parent` on are a request's."""

BOUNDS = "select (select min(cursor) from record), (select max(cursor) from record)"
"""The first and the last cursor. SQLite finds either at an end of the table; asked for both in one query, it
would read all that is between.
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
"""What was recorded of requests: `cursor` is that of a record written with it, `weight` about its bytes."""
_PAUSE_SECONDS = 0.01
_Result = TypeVar("_Result")


class TimelineError(SvcError):
    """The timeline's file can not be used, now."""


class CorruptTimeline(TimelineError):
    """The file is no database, or a broken one."""


class NewerTimeline(TimelineError):
    """The file was written by a newer svc; it is left as it is."""


def timeline_path(root: Path) -> Path:
    """Return where the timeline of the Project in a folder is kept."""
    return root / DATA_DIR / TIMELINE_FILE


class TimelineDatabase:
    """One connection. Use from one thread at a time; every method raises `TimelineError`."""

    def __init__(self, path: Path, *, write: bool) -> None:
        """Open the file; `write` makes it where there is none."""
        self._path = path
        self._use = "kept in" if write else "read from"
        self.inode = 0
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if write else 0)
        try:
            if write:
                ensure_data_dir(path.parent)
                # Nobody else's to read: bodies of requests are in it. SQLite's other files have its mode.
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
        found = self.run("pragma user_version")[0][0]
        if found > VERSION:
            raise NewerTimeline(
                f"{self._path} was written by a newer svc",
                "Update svc, or move the file away to begin anew.",
                public_message=f"{TIMELINE_FILE} was written by a newer svc",
            )
        self.empty = found < VERSION
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
        """Make the tables. Cursors begin with the time, in microseconds: those of a file that was begun anew
        are above all of the one that was there before.
        """
        self._database.execute(_SCHEMA).fetchall()
        self._database.execute("insert or ignore into origin values (1, ?)", (time.time_ns() // 1000,))
        self._database.execute(f"pragma user_version = {VERSION}")

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run one statement and return its rows."""
        return self._retry_busy(lambda: self._database.execute(sql, values).fetchall())

    def change(self, change: Callable[[], _Result]) -> _Result:
        """Call a function in a transaction that has the right to write from its beginning."""
        return self._transaction("begin immediate", change)

    def view(self, read: Callable[[], _Result]) -> _Result:
        """Call a function that sees the file as it is at one moment."""
        return self._transaction("begin", read)

    def _transaction(self, begin: str, work: Callable[[], _Result]) -> _Result:
        self.run(begin)
        try:
            result = work()
            self.run("commit")
        except BaseException as error:
            # SQLite itself ends a transaction that a full disk or a broken file stops.
            if self._database.in_transaction:
                self._database.execute("rollback")
            if isinstance(error, apsw.Error):
                raise self._error(error) from error
            raise
        return result

    def _retry_busy(self, work: Callable[[], _Result]) -> _Result:
        """Wait also where SQLite itself does not: while another process opens or closes the file."""
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
        """Whether the file at that place is no longer the one that was opened."""
        try:
            return self._path.stat().st_ino != self.inode
        except OSError:
            return True

    def close(self) -> None:
        """Let go of the file."""
        self._database.close(True)

    def _error(self, error: Exception) -> TimelineError:
        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            return CorruptTimeline(
                f"the timeline in {self._path} is damaged: {error}",
                "`svc dev`, or the service, puts it aside and begins anew.",
                public_message=f"the timeline is damaged: {error}",
            )
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return TimelineError(
            f"the timeline can not be {self._use} {self._path}: {reason}",
            "Check that the folder can be written, which reading needs too, and that its disk has room.",
            public_message=f"the timeline can not be {self._use} {TIMELINE_FILE}: {reason}",
        )


def is_corrupt(path: Path) -> bool:
    """Whether a file is one that can not be read any more."""
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
