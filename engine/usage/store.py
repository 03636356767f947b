"""Usage in a file: one SQLite database in a Project's folder. The only file that knows SQLite.

Processes that write at the same time add to what is there, each in a transaction of its own: none loses
another's counts, and a process that is killed loses only what it had not yet written. SQLite's own rollback
journal sees to it; write-ahead logging would let readers and a writer work at once, but a process that opens
the file while another closes it may then be refused without waiting.
"""

from collections.abc import Callable, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

import apsw

from engine.errors import SvcError
from engine.files.data_dir import DATA_DIR as DATA_DIR
from engine.files.data_dir import ensure_data_dir
from engine.usage.aggregate import Key, UsageCount

USAGE_FILE = "usage.db"
VERSION = 1
BUSY_MS = 5000
"""How long a write or a read waits for another process that writes."""

_SCHEMA = f"""
create table if not exists usage (
  minute integer not null,
  resource text not null,
  requests integer not null,
  failures integer not null,
  compute_ns integer not null,
  wall_ns integer not null,
  peak_memory integer not null,
  bytes_in integer not null,
  bytes_out integer not null,
  primary key (minute, resource)
) strict, without rowid;
pragma user_version = {VERSION};
"""
_ADD = """
insert into usage values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do update set
  requests = requests + excluded.requests,
  failures = failures + excluded.failures,
  compute_ns = compute_ns + excluded.compute_ns,
  wall_ns = wall_ns + excluded.wall_ns,
  peak_memory = max(peak_memory, excluded.peak_memory),
  bytes_in = bytes_in + excluded.bytes_in,
  bytes_out = bytes_out + excluded.bytes_out
"""
_READ = "select * from usage where minute >= ? order by minute, resource"


class UsageError(SvcError):
    """The file of usage can not be used."""


class CorruptUsage(UsageError):
    """The file is no database, or a broken one."""


def usage_path(root: Path) -> Path:
    """Return where the usage of the Project in a folder is kept."""
    return root / DATA_DIR / USAGE_FILE


def is_corrupt(path: Path) -> bool:
    """Whether a file is one that can not be read any more."""
    try:
        store = UsageStore(path)
    except CorruptUsage:
        return True
    except UsageError:
        return False
    try:
        return not store.is_intact()
    finally:
        store.close()


class UsageStore:
    """One open file of usage. Use from one thread at a time; every method raises `UsageError`."""

    def __init__(self, path: Path) -> None:
        """Open the file, and make it where there is none."""
        self._path = path
        try:
            ensure_data_dir(path.parent)
            self._database = apsw.Connection(str(path))
        except (OSError, apsw.Error) as error:
            raise self._error(error) from error
        try:
            self._prepare()
            self._inode = path.stat().st_ino
        except OSError as error:
            self._database.close()
            raise self._error(error) from error
        except BaseException:
            self._database.close()
            raise

    def _prepare(self) -> None:
        self._database.set_busy_timeout(BUSY_MS)
        found = self._run("pragma user_version")[0][0]
        if found > VERSION:
            raise UsageError(
                f"{self._path} was written by a newer svc",
                "Update svc, or move the file away to begin anew.",
                public_message=f"{USAGE_FILE} was written by a newer svc",
            )
        if found < VERSION:
            self._change(lambda: self._run(_SCHEMA))

    def add(self, counts: Mapping[Key, UsageCount]) -> None:
        """Add to what is there: all of it, or, when this raises, nothing."""
        rows = [(minute, resource, *astuple(count)) for (minute, resource), count in counts.items()]
        self._change(lambda: self._database.executemany(_ADD, rows))

    def delete_before(self, before: int) -> None:
        """Remove the minutes before one."""
        self._change(lambda: self._run("delete from usage where minute < ?", before))

    def read(self, since: int) -> dict[Key, UsageCount]:
        """Return what was counted from a minute on, in the order of minutes and names."""
        return {
            (minute, resource): UsageCount(*numbers) for minute, resource, *numbers in self._run(_READ, since)
        }

    def is_intact(self) -> bool:
        """Whether SQLite finds all of the file in order."""
        try:
            return bool(self._run("pragma quick_check(1)") == [("ok",)])
        except CorruptUsage:
            return False

    def replaced(self) -> bool:
        """Whether the file was removed or another was put in its place."""
        try:
            return self._path.stat().st_ino != self._inode
        except OSError:
            return True

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def _change(self, change: Callable[[], object]) -> None:
        """Call a function in a transaction that has the right to write from its beginning."""
        try:
            self._database.execute("begin immediate")
            try:
                change()
                self._database.execute("commit")
            except BaseException:
                # SQLite itself ends a transaction that a full disk or a broken file stops.
                if self._database.in_transaction:
                    self._database.execute("rollback")
                raise
        except apsw.Error as error:
            raise self._error(error) from error

    def _run(self, sql: str, *values: int) -> list[Any]:
        try:
            return self._database.execute(sql, values).fetchall()
        except apsw.Error as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> UsageError:
        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            return CorruptUsage(
                f"the usage in {self._path} is damaged: {error}",
                "`svc dev`, or the service, puts it aside and begins anew.",
                public_message=f"the usage is damaged: {error}",
            )
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return UsageError(
            f"usage can not be kept in {self._path}: {reason}",
            "Check that the folder can be written and that its disk has room.",
            public_message=f"usage can not be kept in {USAGE_FILE}: {reason}",
        )
