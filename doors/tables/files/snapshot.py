"""Copies of the tables that statements name, as they were before recorded changes; redacted copies."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doors.tables.files.copy_tables import contents_of, copy
from doors.tables.replication.history import RowWrite, find_writes, tables_before
from doors.tables.sqlite.catalog import read, reserved
from doors.tables.sqlite.connections import Clock, apsw, register_now
from doors.tables.sqlite.errors import (
    Connection,
    Error,
    TablesError,
    atomic,
    fold,
    open_file,
    quoted,
    rows,
    transaction,
    used_tables,
    wrapped_errors,
)
from doors.tables.sqlite.owner import open_for_reading

_ERROR_PREFIX = "cannot copy the tables"
_ROW_ACTIONS = (apsw.SQLITE_READ, apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Names of the copied tables and views, how many changes were undone, and why others were not."""

    names: tuple[str, ...]
    undone: int
    lacks: tuple[str, ...]


def copy_before(
    data: Path, target: Path, statements: Iterable[str], time_ns: int, max_bytes: int
) -> Snapshot | None:
    """Copy tables to a new database file, as they were before a time.

    Copies the tables and views that the statements name, and those that foreign keys connect with them.
    `data` is the data folder of the project. Returns None if the statements name no table. Raises
    `TablesError`, also for more than `max_bytes`.
    """
    with open_for_reading(data) as now, tables_before(now, time_ns) as (source, undone, lacks):
        names = _named(source, statements)
        if not names:
            return None
        with closing(open_file(target, create=True)) as copied:
            register_now(copied, Clock())  # An INSERT compiles the defaults of all columns.
            copied.execute("pragma foreign_keys = off")
            copied.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
            size = copied.pragma("page_size")
            with atomic(source, "begin"), transaction(copied, _ERROR_PREFIX):
                for _ in copy(source, copied, contents_of(source, names), _ERROR_PREFIX):
                    if copied.pragma("page_count") * size > max_bytes:
                        raise _too_large(names, max_bytes)
            if target.stat().st_size > max_bytes:
                raise _too_large(names, max_bytes)
    return Snapshot(tuple(names), undone, tuple(lacks))


def _named(connection: Connection, statements: Iterable[str]) -> list[str]:
    """Return the tables and views that statements use, and tables that foreign keys connect with them."""
    catalog = {fold(name): name for name in read(connection)}
    used: set[str] = set()
    for sql in dict.fromkeys(statements):
        with suppress(Error):  # A statement that failed for the guest fails here, too.
            used |= {table for action, table in used_tables(connection, sql) if action in _ROW_ACTIONS}
    selected = {name for name in used & catalog.keys() if not reserved(name)}
    keys = [
        (fold(name), fold(parent))
        for name in catalog.values()
        for (parent,) in rows(connection, 'select "table" from pragma_foreign_key_list(?)', name)
    ]
    while (
        more := {name for pair in keys if selected & set(pair) for name in pair} & catalog.keys() - selected
    ):
        selected |= more
    return sorted(catalog[name] for name in selected)


def _too_large(names: Sequence[str], max_bytes: int) -> TablesError:
    return TablesError(
        f"the tables {', '.join(names)} have more than {max_bytes >> 20} MiB",
        "Leave the rows out: --no-rows.",
        code="too-large",
    )


def rows_written(data: Path, request: str) -> list[RowWrite]:
    """Return the rows that a request changed, in order. Raises `TablesError`."""
    with open_for_reading(data) as connection:
        return find_writes(connection, request=request).rows[::-1]


Replace = Callable[[str, str], str]
"""Returns the text that stands for a value, given the name of its column and the value."""


def redact_columns(path: Path, is_secret: Callable[[str], bool], replace: Replace) -> None:
    """Replace texts and blobs of columns whose names stand for credentials. Raises `TablesError`.

    The key of a table with such a name, as `sessions`, is a credential too.
    """

    def replaced(*arguments: Any) -> Any:
        name, value = arguments
        if isinstance(value, bytes):
            return _blob(replace(name, value.hex()))
        return replace(name, value) if isinstance(value, str) else value

    with _opened(path) as connection:
        connection.create_scalar_function("redacted", replaced, 2)
        for table, column, in_key in _columns(connection):
            if is_secret(column) or (in_key and is_secret(table.removesuffix("s"))):
                name = quoted(column)
                connection.execute(f"UPDATE {quoted(table)} SET {name} = redacted(?, {name})", (column,))


def redact_values(path: Path, values: Mapping[str, str], on_match: Callable[[str], None]) -> None:
    """Replace values within all texts, and blobs by their hex digits. Raises `TablesError`.

    Calls `on_match` for each text or blob with one.
    """

    def replaced(*arguments: Any) -> Any:
        (text,) = arguments
        if isinstance(text, bytes):
            if (digits := text.hex()) not in values:
                return text
            on_match(digits)
            return _blob(values[digits])
        for value, replacement in values.items():
            if value in text:
                on_match(value)
                text = text.replace(value, replacement)
        return text

    if not values:
        return
    with _opened(path) as connection:
        connection.create_scalar_function("redacted", replaced, 1)
        for table, column, _ in _columns(connection):
            name = quoted(column)
            connection.execute(
                f"UPDATE {quoted(table)} SET {name} = redacted({name})"
                f" WHERE typeof({name}) IN ('text', 'blob') AND {name} IS NOT redacted({name})"
            )


def _blob(replacement: str) -> bytes:
    """Return a blob of the hex digits of its replacement, or of its text if that is another one."""
    try:
        return bytes.fromhex(replacement)
    except ValueError:
        return replacement.encode()


def _columns(connection: Connection) -> list[tuple[str, str, bool]]:
    """Return table and name of each column, and whether it belongs to the primary key."""
    return [
        (table.name, column.name, column.primary_key)
        for table in read(connection).values()
        if table.kind == "table"
        for column in table.stored
    ]


@contextmanager
def _opened(path: Path) -> Iterator[Connection]:
    with wrapped_errors("cannot redact the tables"), closing(open_file(path, create=True)) as connection:
        connection.execute("pragma foreign_keys = off")
        connection.execute("pragma ignore_check_constraints = on")
        connection.execute("pragma secure_delete = on")
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        yield connection
        connection.execute("vacuum")
