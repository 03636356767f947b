"""SQLite helpers and error messages for schema changes, migrations, imports and exports.

Connections here are unrestricted; they are never those of guests.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
from apsw import (
    SQLITE_OPEN_CREATE,
    SQLITE_OPEN_READONLY,
    SQLITE_OPEN_READWRITE,
    Connection,
    ConstraintError,
    Error,
    FullError,
    InterruptError,
    complete,
)
from apsw import SQLError as SqlError

from doors.tables.sqlite.connections import NO_VALUES
from engine.errors import SvcError
from engine.files.sql_functions import register_functions
from engine.files.statement_limit import StatementLimit
from engine.files.statement_memory import MAX_COLLECTED_BYTES, StatementMemory

__all__ = ["Connection", "ConstraintError", "Error", "FullError", "InterruptError", "SqlError", "complete"]

Value = int | float | str | bytes | None
"""A value that SQLite stores."""

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_VIOLATIONS = "pragma foreign_key_check"
INTEGERS = range(-(2**63), 2**63)


class TablesError(SvcError):
    """An operation on the tables of a project failed."""

    code = "tables"


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Value) -> str:
    """Return an SQL expression for exactly this value.

    SQL has no literal for text with a NUL; its bytes are cast instead.
    """
    if isinstance(value, str) and "\0" in value:
        return f"CAST(x'{value.encode().hex()}' AS TEXT)"
    if isinstance(value, float):
        return real_text(value)
    return str(apsw.format_sql_value(value))


def real_text(value: float) -> str:
    """Return a real as text with all its digits. Infinity is `9e999`, which SQL and JSON can have."""
    if value in (float("inf"), float("-inf")):
        return "9e999" if value > 0 else "-9e999"
    return repr(value)


def fold(name: str) -> str:
    """Return a name in lower case as SQLite compares names: ASCII letters only."""
    return name.lower() if name.isascii() else name.translate(_LOWER)


def rows(connection: Connection, sql: str, *values: Value) -> list[tuple[Any, ...]]:
    """Return all rows of a statement."""
    return connection.execute(sql, values).fetchall()


def scalar(connection: Connection, sql: str, *values: Value) -> Any:
    """Return the first column of the first row, or None without rows."""
    row = connection.execute(sql, values).fetchone()
    return row[0] if row else None


def used_tables(connection: Connection, sql: str) -> set[tuple[int, str]]:
    """Return the actions of a statement, each with its table, folded. Compiles it only."""
    used: set[tuple[int, str]] = set()

    def collect(action: int, table: str | None, *_: str | None) -> int:
        used.add((action, fold(table or "")))
        return int(apsw.SQLITE_OK)

    authorizer, connection.authorizer = connection.authorizer, collect
    try:
        connection.execute(sql, NO_VALUES, can_cache=False, explain=2).close()
    finally:
        connection.authorizer = authorizer
    return used


def open_file(path: Path, *, create: bool = False) -> Connection:
    """Open a database file: a new one to write (`make`), or an untrusted one to read."""
    flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE if create else SQLITE_OPEN_READONLY
    connection = Connection(str(path), flags=flags)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.execute("pragma cell_size_check = on")
    register_functions(connection)
    return connection


@contextmanager
def atomic(connection: Connection, begin: str = "begin immediate") -> Iterator[None]:
    """Run a transaction, which errors roll back."""
    connection.execute(begin)
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


@contextmanager
def transaction(connection: Connection, error_prefix: str) -> Iterator[None]:
    """Run a write transaction. Foreign keys are checked at its end, so that tables can be rebuilt.

    Raises `TablesError` for SQLite's errors, with a message that begins with `what`, and for new violations
    of foreign keys. Raises `ValueError` if the connection is in a transaction already.
    """
    if connection.in_transaction:
        raise ValueError("the connection is in a transaction already")
    try:
        enforced = scalar(connection, "pragma foreign_keys")
        connection.execute("pragma foreign_keys = off")
        try:
            with atomic(connection):
                try:
                    before = set(connection.execute(_VIOLATIONS))
                except SqlError:  # SQLite cannot check them: a parent is not unique.
                    before = None
                yield
                if before is not None:
                    for violation in connection.execute(_VIOLATIONS):
                        if violation not in before:
                            table, row, parent, _ = violation
                            problem = f"row {row} of table {table} would refer to a missing row of {parent}"
                            hint = f"Change or delete the rows of {table} that refer to {parent} first."
                            raise TablesError(f"{error_prefix}: {problem}", hint)
        finally:
            connection.execute(f"pragma foreign_keys = {enforced}")
    except (Error, UnicodeDecodeError) as error:
        raise wrap_error(error, error_prefix) from error


@contextmanager
def limited_triggers(
    connection: Connection, seconds: float, error_prefix: str, timeout: str, hint: str
) -> Iterator[StatementMemory]:
    """Limit the time and memory of statements whose triggers may compute anything.

    Yields the memory, whose turn the statements take. Raises `TablesError` above a limit: `timeout` and
    `hint` are the message for the time.
    """
    memory = StatementMemory(connection)
    try:
        with StatementLimit(connection, seconds, memory=memory):
            yield memory
    except InterruptError:
        code = "timeout"
        if memory.oversized:
            timeout, code = f"a trigger collected more than {MAX_COLLECTED_BYTES >> 20} MiB", "too-large"
            hint = "Collect fewer values in the trigger."
        raise TablesError(f"{error_prefix}: {timeout}", hint, code=code) from None


@contextmanager
def wrapped_errors(error_prefix: str) -> Iterator[None]:
    """Raise SQLite's errors as those of `wrap_error`."""
    try:
        yield
    except Error as error:
        raise wrap_error(error, error_prefix) from error


def wrap_error(error: Exception, error_prefix: str, file: str = "the file") -> TablesError:
    """Return the `TablesError` for an SQLite error. Its message begins with `what` and names `file`."""
    hint = ""
    match error:
        case apsw.FullError():
            message = f"{error_prefix}: the disk is full"
            hint = "Free disk space, then try again; nothing was changed."
            return TablesError(message, hint, code="storage-full")
        case apsw.BusyError() | apsw.LockedError():
            message = f"{error_prefix}: database busy: another writer is active"
            return TablesError(message, "Try again in a moment.", code="busy")
        case apsw.CorruptError() | apsw.NotADBError():
            reason = f"{file} is damaged, or not an SQLite database"
            hint = "Restore a backup; `sqlite3 FILE .recover` extracts the readable rows."
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            reason, hint = f"cannot open or write {file}", "Check its permissions."
        case apsw.IOError():
            reason = f"cannot read or write {file}: {error}"
            hint = "Free disk space and check the disk; nothing was changed."
        case apsw.InterruptError():
            reason, hint = "interrupted", "Nothing was changed."
        case _:
            reason = str(error)
    return TablesError(f"{error_prefix}: {reason}", hint)
