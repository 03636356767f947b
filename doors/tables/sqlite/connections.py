"""Connections to the file in which a Project's tables are: how they are opened, and how much they may do.

The one file of the Door's that imports SQLite; `sandbox.py` takes the codes of its authorizer from here.
"""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
from apsw import Connection, Cursor, Error

__all__ = ["NO_VALUES", "Connection", "Cursor", "Error", "apsw"]

NO_VALUES: Any = apsw._null_bindings  # type: ignore[attr-defined]
"""Stands for values where a statement is compiled and not run, whatever parameters it has."""
DATABASE_NAME = "tables.db"
"""The file of a Project's tables, in the Door's folder of the Project."""
DISPLAY_PATH = f"tables/{DATABASE_NAME}"
"""How messages name it: its place in the Project's data, which says nothing of the host."""
BUSY_TIMEOUT_MS = 5000
"""How long a transaction waits for another process that writes."""
MAX_BYTES = 16 << 30
"""How large the file may grow."""
MAX_VALUE = 1 << 20
"""Bytes of one value or one row. It bounds what a step of a statement costs, too: nothing stops one."""
MAX_SQL = 100_000
"""Bytes of one statement."""

_MIN_FILE_BYTES = 512
"""Bytes of the smallest database. SQLite takes a shorter file for an empty one, and would write over it."""
_STATEMENT_CACHE_SIZE = 256
"""How many compiled statements a connection keeps."""
_LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: MAX_VALUE,
    apsw.SQLITE_LIMIT_SQL_LENGTH: MAX_SQL,
    apsw.SQLITE_LIMIT_COLUMN: 500,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 250,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    apsw.SQLITE_LIMIT_VDBE_OP: 50_000,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 127,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 500,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 50,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}
"""https://www.sqlite.org/limits.html, and https://www.sqlite.org/security.html on why."""


class Clock:
    """`now()` of SQL: ISO 8601, UTC, milliseconds, Z. It stands still until it is told to `tick`."""

    __slots__ = ("_text",)

    def __init__(self) -> None:
        self._text = ""

    def tick(self) -> None:
        """Forget the moment, so that the next one who asks gets the present one."""
        self._text = ""

    def __call__(self) -> str:
        """Return the moment."""
        if not self._text:
            self._text = iso(time.time())
        return self._text


def iso(seconds: float) -> str:
    """Return a moment, in seconds since the Unix epoch, as timestamps are written."""
    return (
        datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
    )


def open_owner(path: Path) -> Connection:
    """Open a file, made where there is none, for those who may change the schema. Raises SQLite's errors."""
    connection = Connection(str(path), statementcachesize=_STATEMENT_CACHE_SIZE)
    try:
        if 0 < path.stat().st_size < _MIN_FILE_BYTES:
            raise apsw.NotADBError("file is not a database")
        _prepare(connection)
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute(f"pragma journal_size_limit = {64 << 20}")
    except BaseException:
        connection.close()
        raise
    return connection


def open_writer(path: Path, clock: Clock, max_bytes: int = MAX_BYTES) -> Connection:
    """Open a file as `open_owner` does, with the bounds of guests."""
    connection = open_owner(path)
    page_size = connection.pragma("page_size")
    connection.execute(f"pragma max_page_count = {max_bytes // page_size}")
    _bound(connection, clock)
    return connection


def open_reader(path: Path, clock: Clock, max_value: int = MAX_VALUE) -> Connection:
    """Open a file that a writer made, to read only, with the bounds of guests and values of so many bytes."""
    connection = Connection(
        str(path), flags=apsw.SQLITE_OPEN_READONLY, statementcachesize=_STATEMENT_CACHE_SIZE
    )
    try:
        _prepare(connection)
        connection.execute("pragma query_only = on")
        _bound(connection, clock)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, max_value)
    except BaseException:
        connection.close()
        raise
    return connection


def open_viewer(path: Path, max_temporary: int) -> Connection:
    """Open a file that is there, to read it and to keep so many bytes of one's own in temporary tables.

    Those are in a file without a name, which goes with the connection. Raises SQLite's errors.
    """
    connection = Connection(
        str(path), flags=apsw.SQLITE_OPEN_READONLY, statementcachesize=_STATEMENT_CACHE_SIZE
    )
    try:
        _prepare(connection)
        connection.execute("pragma temp_store = file")
        pages = max_temporary // connection.pragma("page_size", schema="temp")
        connection.execute(f"pragma temp.max_page_count = {pages}")
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: Connection) -> None:
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    connection.execute("pragma foreign_keys = on")
    connection.execute("pragma cell_size_check = on")
    connection.execute("pragma cache_size = -4096")
    register_now(connection, Clock())


def _bound(connection: Connection, clock: Clock) -> None:
    for limit, value in _LIMITS.items():
        connection.limit(limit, value)
    register_now(connection, clock)


def register_now(connection: Connection, clock: Clock) -> None:
    """Give a connection the SQL function `now()`, also for use in views and triggers."""
    connection.create_scalar_function("now", lambda *_: clock(), 0, flags=apsw.SQLITE_INNOCUOUS)
