"""SQLite connections to the tables database of a project, with their limits and quotas of storage.

The guest modules import apsw from here.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
from apsw import Connection, Cursor, Error

from doors.tables.replication.registry import find_replica
from engine.files.reserve import shortage
from engine.files.sql_functions import MAX_PATTERN_BYTES, register_functions

_FREE_BYTES = 16 << 20
"""Free space of a disk that is not full: more than a transaction of guests writes at once."""
_limits: dict[Path, int] = {}


def set_storage_quota(path: Path, limit: int | None) -> None:
    """Set the maximum bytes of a database file; `None` removes it. Applies to connections opened later."""
    if limit is None:
        _limits.pop(path.resolve(), None)
    else:
        _limits[path.resolve()] = limit


def storage_quota(path: Path) -> int | None:
    """Return the maximum bytes of a database file, or `None`."""
    return _limits.get(path.resolve()) if _limits else None


def exceeds_quota(path: Path) -> str:
    """Return why a database is full, if that is its quota and not the disk; else an empty string."""
    limit = storage_quota(path)
    try:
        if limit is None or shutil.disk_usage(path.parent).free < _FREE_BYTES:
            return ""
    except OSError:
        return ""
    return f"the tables have reached the project's quota of {limit >> 20} MiB"


QUOTA_HINT = "Delete rows, or ask an owner of the service to run: svc quota set PROJECT --storage MIB"


__all__ = ["NO_VALUES", "Connection", "Cursor", "Error", "apsw"]

NO_VALUES: Any = apsw._null_bindings  # type: ignore[attr-defined]
"""Bindings for a statement that is compiled and not run, for any number of parameters."""
DATA_FOLDER = "tables"
"""Name of the Door's folder in a project's data."""
DATABASE_NAME = "tables.db"
"""Name of the database file in this folder."""
DISPLAY_PATH = f"tables/{DATABASE_NAME}"
"""Path of the file in messages: relative to the project's data, without host paths."""
BUSY_TIMEOUT_MS = 5000
"""Time that a transaction waits for another writing process."""
MAX_BYTES = 16 << 30
"""Maximum size of the file."""
SMALL_BYTES = 64 << 20
"""Size up to which a file grows while only the reserve of its disk is free."""
MAX_VALUE = 1 << 20
"""Maximum bytes of a value or row. It also bounds one step of a statement, which cannot be interrupted."""
MAX_SQL = 100_000
"""Maximum bytes of a statement."""

REPLICA_TABLE = "_svc_replica"
"""Table of a replicated file with its position in the log. It is not replicated itself."""
_REPLICA_TIMEOUT_MS = 60_000
_MIN_FILE_BYTES = 512
"""Bytes of the smallest database. SQLite treats a shorter file as empty and would overwrite it."""
_STATEMENT_CACHE_SIZE = 256
"""Compiled statements that a connection caches."""
_LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: MAX_VALUE,
    apsw.SQLITE_LIMIT_SQL_LENGTH: MAX_SQL,
    apsw.SQLITE_LIMIT_COLUMN: 500,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 250,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    apsw.SQLITE_LIMIT_VDBE_OP: 50_000,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 127,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 50,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}
"""Sources: https://www.sqlite.org/limits.html, https://www.sqlite.org/security.html"""


class Clock:
    """The SQL function `now()`: ISO 8601, UTC, milliseconds, Z. Constant until the next `tick`."""

    __slots__ = ("_seconds", "_text", "vfs")

    def __init__(self, seconds: Callable[[], float] = time.time, vfs: str | None = None) -> None:
        """`seconds` returns the Unix time; `vfs` is a file system of SQLite with this time."""
        self._seconds, self.vfs = seconds, vfs
        self._text = ""

    def tick(self) -> None:
        """Make the next call return the current time."""
        self._text = ""

    def __call__(self) -> str:
        """Return the time of the first call since the last tick."""
        if not self._text:
            self._text = iso(self._seconds())
        return self._text


def iso(seconds: float) -> str:
    """Return a Unix time in seconds as a stored timestamp."""
    return (
        datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
    )


def open_owner(path: Path, vfs: str | None = None, *, exclusive: bool = True) -> Connection:
    """Open or create a database with no limit but its quota, for schema changes. Raises SQLite's errors.

    Transactions of a project's tables go to the log of the fleet, or to their journal. For `exclusive` ones a
    node of a fleet becomes the writer.
    """
    with _opened(Connection(str(path), vfs=vfs, statementcachesize=_STATEMENT_CACHE_SIZE)) as connection:
        if 0 < path.stat().st_size < _MIN_FILE_BYTES:
            raise apsw.NotADBError("file is not a database")
        _prepare(connection)
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute(f"pragma journal_size_limit = {64 << 20}")
        limit_size(connection, path, storage_quota(path))
        if (replica := find_replica(path)) is not None:
            connection.execute("pragma synchronous = normal")
            from doors.tables.replication.recorder import Recorder

            Recorder(connection, replica, exclusive=replica if exclusive else None)
        elif path.parts[-2:] == (DATA_FOLDER, DATABASE_NAME):
            from doors.tables.replication.journal import Journal

            Journal(path).record(connection)
        elif is_replica(connection):  # A copy of the tables of a project.
            connection.execute(f"drop table {REPLICA_TABLE}")
    return connection


@contextmanager
def _opened(connection: Connection) -> Iterator[Connection]:
    """Close a connection that cannot be prepared."""
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def is_replica(connection: Connection) -> bool:
    """Return whether a file has a position in the log of a fleet."""
    sql = "select 1 from sqlite_schema where name = ?"
    return connection.execute(sql, (REPLICA_TABLE,)).fetchone() is not None


def recorder_of(connection: Connection) -> Any:
    """Return the recorder of a connection to replicated tables, or None."""
    return connection.exec_trace


def close_owner(connection: Connection) -> None:
    """Close a connection of `open_owner`."""
    try:
        if (recorder := recorder_of(connection)) is not None:
            recorder.close()
    finally:
        connection.close(True)


def open_replica(path: Path) -> Connection:
    """Open or create a database to apply changes of other nodes. Raises SQLite's errors."""
    with _opened(Connection(str(path), statementcachesize=0)) as connection:
        connection.set_busy_timeout(_REPLICA_TIMEOUT_MS)
        for setting in (
            apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA,
            apsw.SQLITE_DBCONFIG_DQS_DML,
            apsw.SQLITE_DBCONFIG_DQS_DDL,
            apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER,
            apsw.SQLITE_DBCONFIG_ENABLE_FKEY,
        ):
            connection.config(setting, 0)
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
        # They held when the row was written, and may call now() or random().
        connection.execute("pragma ignore_check_constraints = on")
        register_functions(connection)
        register_now(connection, Clock())
    return connection


def max_size(path: Path) -> int:
    """Return the maximum bytes of a database of guests."""
    quota = storage_quota(path)
    return MAX_BYTES if quota is None else min(quota, MAX_BYTES)


def open_writer(path: Path, clock: Clock) -> Connection:
    """Open or create a database with the limits of guests. Raises SQLite's errors."""
    connection = open_owner(path, clock.vfs, exclusive=False)
    limit_size(connection, path, max_size(path))
    _bound(connection, clock)
    return connection


def open_reader(path: Path, clock: Clock, max_value: int = MAX_VALUE) -> Connection:
    """Open an existing database read-only with the limits of guests. Raises SQLite's errors."""
    with _opened(_read_only(path, clock.vfs)) as connection:
        _prepare(connection)
        connection.execute("pragma query_only = on")
        _bound(connection, clock)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, max_value)
    return connection


def _read_only(path: Path, vfs: str | None = None) -> Connection:
    flags = apsw.SQLITE_OPEN_READONLY
    return Connection(str(path), flags=flags, vfs=vfs, statementcachesize=_STATEMENT_CACHE_SIZE)


def first_value(path: Path, sql: str) -> Any:
    """Return the first value of a query on a file; None without the file or the table, or if it is damaged.

    Raises SQLite's errors if it can perhaps be read later, as when this process has too many open files.
    """
    if not path.exists():
        return None
    try:
        # A read-only connection leaves the log and its index beside the file when it closes.
        with closing(Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            row = connection.execute(sql).fetchone()
            return row[0] if row else None
    except (apsw.CantOpenError, apsw.BusyError, apsw.IOError):
        raise
    except apsw.Error:
        return None


def open_viewer(path: Path, max_temporary: int) -> Connection:
    """Open an existing database read-only, with up to `max_temporary` bytes of temporary tables.

    Temporary tables use an unnamed file that is removed with the connection. Raises SQLite's errors.
    """
    with _opened(_read_only(path)) as connection:
        _prepare(connection)
        connection.execute("pragma temp_store = file")
        pages = max_temporary // connection.pragma("page_size", schema="temp")
        connection.execute(f"pragma temp.max_page_count = {pages}")
    return connection


def limit_size(connection: Connection, path: Path, limit: int | None) -> None:
    """Set the maximum bytes of a database. Beyond `SMALL_BYTES` it does not grow into its disk's reserve."""
    if shortage(path.parent):
        limit = SMALL_BYTES if limit is None else min(limit, SMALL_BYTES)
    if limit is not None:
        # SQLite uses the current size of the file if it is larger.
        connection.execute(f"pragma max_page_count = {max(1, limit // connection.pragma('page_size'))}")


def _prepare(connection: Connection) -> None:
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    connection.execute("pragma foreign_keys = on")
    connection.execute("pragma cell_size_check = on")
    connection.execute("pragma cache_size = -4096")
    register_functions(connection)
    connection.limit(apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN_BYTES)
    register_now(connection, Clock())


def _bound(connection: Connection, clock: Clock) -> None:
    for limit, value in _LIMITS.items():
        connection.limit(limit, value)
    register_now(connection, clock)


def register_now(connection: Connection, clock: Clock) -> None:
    """Register the SQL function `now()`, also for views and triggers."""
    connection.create_scalar_function("now", lambda *_: clock(), 0, flags=apsw.SQLITE_INNOCUOUS)
