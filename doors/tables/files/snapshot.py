"""Copies of the tables that statements name, as they were before recorded changes."""

from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doors.tables.files.copy_tables import copy
from doors.tables.files.dump_contents import contents_of
from doors.tables.rows.undo import undo
from doors.tables.sqlite.catalog import read, reserved
from doors.tables.sqlite.connections import Clock, apsw, register_now
from doors.tables.sqlite.errors import (
    Connection,
    Error,
    TablesError,
    fold,
    open_file,
    rows,
    transaction,
    used_tables,
)
from doors.tables.sqlite.owner import open_for_reading

_ERROR_PREFIX = "cannot copy the tables"
_ROW_ACTIONS = (apsw.SQLITE_READ, apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Names of the copied tables and views, and numbers of the changes that were and could not be undone."""

    names: tuple[str, ...]
    undone: int
    failed: int


def copy_before(
    data: Path, target: Path, statements: Iterable[str], changes: Iterable[Sequence[Any]], max_bytes: int
) -> Snapshot | None:
    """Copy tables to a new database file and undo changes in it, the first one first.

    Copies the tables and views that the statements name, and those that foreign keys connect with them.
    `data` is the data folder of the project. Returns None if the statements name no table. Raises
    `TablesError`, also for more than `max_bytes`.
    """
    with open_for_reading(data) as source:
        names = _named(source, statements)
        if not names:
            return None
        with closing(open_file(target, create=True)) as copied:
            register_now(copied, Clock())  # An INSERT compiles the defaults of all columns.
            copied.execute("pragma foreign_keys = off")
            copied.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
            size = copied.pragma("page_size")
            source.execute("begin")
            try:
                with transaction(copied, _ERROR_PREFIX):
                    for _ in copy(source, copied, contents_of(source, names), _ERROR_PREFIX):
                        if copied.pragma("page_count") * size > max_bytes:
                            raise _too_large(names, max_bytes)
                    undone, failed = undo(copied, changes)
            finally:
                source.execute("rollback")
            if target.stat().st_size > max_bytes:
                raise _too_large(names, max_bytes)
    return Snapshot(tuple(names), undone, failed)


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


def column_names(data: Path) -> dict[str, tuple[str, ...]]:
    """Return the names of the columns of each table. Raises `TablesError`."""
    with open_for_reading(data) as connection:
        return {
            table.name: tuple(column.name for column in table.columns) for table in read(connection).values()
        }
