"""SQLite file of a project's usage.

Concurrent writers add to existing sums in transactions of their own, so none loses another's counts. A killed
process loses only unwritten sums. The file uses SQLite's rollback journal: with write-ahead logging, readers
and a writer could work concurrently, but a process that opens the file while another closes it may be refused
without waiting.
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
"""How long a read or write waits for a writer in another process."""

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
    """The usage file is unusable."""


class CorruptUsage(UsageError):
    """The file is not a database, or is corrupt."""


def usage_path(root: Path) -> Path:
    """Return the path of a project folder's usage file."""
    return root / DATA_DIR / USAGE_FILE


def is_corrupt(path: Path) -> bool:
    """Return whether a file is corrupt."""
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
    """One open usage file. Use it from one thread at a time; every method raises `UsageError`."""

    def __init__(self, path: Path) -> None:
        """Open the file; create it if it does not exist."""
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
        version = self._run("pragma user_version")[0][0]
        if version > VERSION:
            raise UsageError(
                f"{self._path} was written by a newer svc",
                "Update svc, or move the file away to start with an empty one.",
                public_message=f"{USAGE_FILE} was written by a newer svc",
            )
        if version < VERSION:
            self._change(lambda: self._run(_SCHEMA))

    def add(self, counts: Mapping[Key, UsageCount]) -> None:
        """Add counts to the stored sums, in one transaction."""
        rows = [(minute, resource, *astuple(count)) for (minute, resource), count in counts.items()]
        self._change(lambda: self._database.executemany(_ADD, rows))

    def delete_before(self, before: int) -> None:
        """Delete all minutes before one."""
        self._change(lambda: self._run("delete from usage where minute < ?", before))

    def read(self, since: int) -> dict[Key, UsageCount]:
        """Return the sums from a minute on, in the order of minutes and names."""
        return {
            (minute, resource): UsageCount(*numbers) for minute, resource, *numbers in self._run(_READ, since)
        }

    def is_intact(self) -> bool:
        """Return whether SQLite's integrity check passes."""
        try:
            return bool(self._run("pragma quick_check(1)") == [("ok",)])
        except CorruptUsage:
            return False

    def replaced(self) -> bool:
        """Return whether the file was removed or replaced."""
        try:
            return self._path.stat().st_ino != self._inode
        except OSError:
            return True

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _change(self, change: Callable[[], object]) -> None:
        """Call a function in a transaction that is a write transaction from the start."""
        try:
            self._database.execute("begin immediate")
            try:
                change()
                self._database.execute("commit")
            except BaseException:
                # SQLite itself rolls back a transaction after a full disk or a corrupt file.
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
                f"the usage file {self._path} is corrupt: {error}",
                "Run `svc dev` or the service: it moves the file aside and creates a new one.",
                public_message=f"the usage file is corrupt: {error}",
            )
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return UsageError(
            f"cannot store usage in {self._path}: {reason}",
            "Check the folder's permissions and the free disk space.",
            public_message=f"cannot store usage in {USAGE_FILE}: {reason}",
        )
