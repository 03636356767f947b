"""SQLite as the schema, the migrations and the transfers see it: the one file of theirs that imports it.

All of them are given an open connection that may do anything, never a guests' one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any

import apsw
from apsw import (
    SQLITE_OPEN_CREATE,
    SQLITE_OPEN_READONLY,
    SQLITE_OPEN_READWRITE,
    AuthError,
    Connection,
    ConstraintError,
    Error,
    FullError,
    InterruptError,
)
from apsw import SQLError as SqlError

from engine.errors import SvcError

__all__ = ["AuthError", "Connection", "ConstraintError", "Error", "FullError", "InterruptError", "SqlError"]

Value = int | float | str | bytes | None
"""What SQLite stores."""

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
INTEGERS = range(-(2**63), 2**63)


ALLOW: int = apsw.SQLITE_OK
DENY: int = apsw.SQLITE_DENY


class Action(IntEnum):
    """What SQLite asks an authorizer about. Source: https://sqlite.org/c3ref/c_alter_table.html"""

    CREATE_INDEX = apsw.SQLITE_CREATE_INDEX
    CREATE_TABLE = apsw.SQLITE_CREATE_TABLE
    CREATE_TEMP_INDEX = apsw.SQLITE_CREATE_TEMP_INDEX
    CREATE_TEMP_TABLE = apsw.SQLITE_CREATE_TEMP_TABLE
    CREATE_TEMP_TRIGGER = apsw.SQLITE_CREATE_TEMP_TRIGGER
    CREATE_TEMP_VIEW = apsw.SQLITE_CREATE_TEMP_VIEW
    CREATE_TRIGGER = apsw.SQLITE_CREATE_TRIGGER
    CREATE_VIEW = apsw.SQLITE_CREATE_VIEW
    CREATE_VTABLE = apsw.SQLITE_CREATE_VTABLE
    DROP_INDEX = apsw.SQLITE_DROP_INDEX
    DROP_TABLE = apsw.SQLITE_DROP_TABLE
    DROP_TRIGGER = apsw.SQLITE_DROP_TRIGGER
    DROP_VIEW = apsw.SQLITE_DROP_VIEW
    DROP_VTABLE = apsw.SQLITE_DROP_VTABLE
    INSERT = apsw.SQLITE_INSERT
    UPDATE = apsw.SQLITE_UPDATE
    DELETE = apsw.SQLITE_DELETE
    ALTER_TABLE = apsw.SQLITE_ALTER_TABLE
    TRANSACTION = apsw.SQLITE_TRANSACTION
    SAVEPOINT = apsw.SQLITE_SAVEPOINT
    PRAGMA = apsw.SQLITE_PRAGMA
    ATTACH = apsw.SQLITE_ATTACH
    DETACH = apsw.SQLITE_DETACH
    FUNCTION = apsw.SQLITE_FUNCTION


class TablesError(SvcError):
    """Something about the tables of a Project can not be done."""

    code = "tables"


def quoted(name: str) -> str:
    """Return a name as SQL writes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Value) -> str:
    """Return a value as an SQL expression that gives the very same value back.

    A text with a NUL in it has no literal; the bytes of it, cast, stand for it.
    """
    if isinstance(value, str) and "\0" in value:
        return f"CAST(x'{value.encode().hex()}' AS TEXT)"
    if isinstance(value, float):
        return _real(value)
    return str(apsw.format_sql_value(value))


def _real(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return "9e999" if value > 0 else "-9e999"
    return repr(value)


def fold(name: str) -> str:
    """Return a name as SQLite compares it: letters of ASCII have no case, others do."""
    return name.lower() if name.isascii() else name.translate(_LOWER)


def rows(connection: Connection, sql: str, *values: Value) -> list[tuple[Any, ...]]:
    """Return every row of one statement."""
    return connection.execute(sql, values).fetchall()


def scalar(connection: Connection, sql: str, *values: Value) -> Any:
    """Return the first column of the first row, or None."""
    found = connection.execute(sql, values).fetchone()
    return found[0] if found else None


def open_file(path: Path, *, make: bool = False) -> Connection:
    """Open a database file, to write a new one, or to read anybody's, whose schema is trusted in nothing."""
    flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE if make else SQLITE_OPEN_READONLY
    connection = Connection(str(path), flags=flags)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.execute("pragma cell_size_check = on")
    return connection


@contextmanager
def transaction(connection: Connection, what: str) -> Iterator[None]:
    """Hold a transaction with the right to write: all that is done in it happens, or nothing.

    `what` begins the message of the `TablesError` that every error of SQLite becomes. Foreign keys are not
    acted upon meanwhile, so that tables can be rebuilt; when the work is done, those that then lead nowhere,
    and did not before, undo it.
    """
    if connection.in_transaction:
        raise ValueError("the connection is in a transaction already")
    try:
        enforced = scalar(connection, "pragma foreign_keys")
        connection.execute("pragma foreign_keys = off")
        try:
            connection.execute("begin immediate")
            try:
                before = _known(connection)
                yield
                if before is not None:
                    _hold_to_foreign_keys(connection, before, what)
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        finally:
            connection.execute(f"pragma foreign_keys = {enforced}")
    except Error as error:
        raise wrap_error(error, what) from error


def _dangling(connection: Connection) -> Iterator[tuple[Any, ...]]:
    """Yield (table, rowid, parent, index) of foreign keys that lead nowhere."""
    yield from connection.execute("pragma foreign_key_check")


def _known(connection: Connection) -> set[tuple[Any, ...]] | None:
    """Return those there are; None where a key refers to what is not unique, so that SQLite can not tell."""
    try:
        return set(_dangling(connection))
    except SqlError:
        return None


def _hold_to_foreign_keys(connection: Connection, before: set[tuple[Any, ...]], what: str) -> None:
    for found in _dangling(connection):
        if found not in before:
            table, row, parent, _ = found
            raise TablesError(
                f"{what}: row {row} of table {table} would refer to a row that {parent} does not have",
                f"Change or delete the rows of {table} that refer to {parent} first.",
            )


def wrap_error(error: Exception, what: str, file: str = "the file") -> TablesError:
    """Return an error of SQLite as one for people; `what` begins its message, which names the file so."""
    match error:
        case apsw.FullError():
            return TablesError(f"{what}: the disk is full", "Make room, then try again; nothing was changed.")
        case apsw.BusyError() | apsw.LockedError():
            return TablesError(f"{what}: the tables are in use by another writer", "Try again in a moment.")
        case apsw.CorruptError() | apsw.NotADBError():
            return TablesError(
                f"{what}: {file} is damaged, or no SQLite database",
                "Use a copy that is whole; `sqlite3 FILE .recover` saves what can be read.",
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return TablesError(f"{what}: {file} can not be opened or written", "Check who may write it.")
        case apsw.IOError():
            hint = "Make room on its disk, and see that the disk is well; nothing was changed."
            return TablesError(f"{what}: {file} can not be read or written: {error}", hint)
        case apsw.InterruptError():
            return TablesError(f"{what}: stopped", "Nothing was changed.")
    return TablesError(f"{what}: {error}")
