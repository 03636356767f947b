"""SQLite file of a project's usage.

Concurrent writers add to existing sums in transactions of their own, so none loses another's counts. A killed
process loses only unwritten sums. The file uses SQLite's rollback journal: with write-ahead logging, readers
and a writer could work concurrently, but a process that opens the file while another closes it may be refused
without waiting.
"""

from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path

from engine.errors import SvcError
from engine.files.data_dir import DATA_DIR
from engine.files.sqlite_file import SqliteFile
from engine.usage.aggregate import Key, UsageCount

USAGE_FILE = "usage.db"

_SCHEMA = """
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
pragma user_version = 1;
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
_PAGE = "select * from usage where (minute, resource) > (?, ?) order by minute, resource limit ?"


class UsageError(SvcError):
    """The usage file is unusable."""


class CorruptUsage(UsageError):
    """The file is not a database, or is corrupt."""


def usage_path(root: Path) -> Path:
    """Return the path of a project folder's usage file."""
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

    def __init__(self, path: Path, *, write: bool = True) -> None:
        super().__init__(path, write=write)

    def _prepare(self, write: bool) -> None:
        if self.empty and write:
            self.change(lambda: self._database.execute(_SCHEMA).fetchall())

    def add(self, counts: Mapping[Key, UsageCount]) -> None:
        """Add counts to the stored sums, in one transaction."""
        rows = [(minute, resource, *astuple(count)) for (minute, resource), count in counts.items()]
        self.change(lambda: self._database.executemany(_ADD, rows))

    def delete_before(self, before: int) -> None:
        """Delete all minutes before one."""
        self.change(lambda: self.run("delete from usage where minute < ?", (before,)))

    def read(self, since: int) -> dict[Key, UsageCount]:
        """Return the sums from a minute on, in the order of minutes and names."""
        return {
            (minute, resource): UsageCount.of(numbers)
            for minute, resource, *numbers in self.run(_READ, (since,))
        }

    def page(self, after: Key, limit: int) -> list[list[int | str]]:
        """Return the next rows after a minute and name: minute, name, and the numbers of a `UsageCount`."""
        return [list(row) for row in self.run(_PAGE, (*after, limit))]
