"""Reversal of recorded row changes, the newest first. `guest/row_changes.py` describes a change."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from doors.tables.schema.rows import row_name
from doors.tables.sqlite.catalog import Table, read
from doors.tables.sqlite.errors import Connection, Error, Value, fold, quoted, scalar


def undo(connection: Connection, changes: Iterable[Sequence[Any]]) -> tuple[int, int]:
    """Undo changes in a transaction of the caller; return how many were undone, and how many could not be.

    A row that differs from the result of its change gets its values before the change. Changes of tables that
    do not exist are not counted. The caller disables triggers and foreign keys.
    """
    tables = {fold(name): table for name, table in read(connection).items() if table.kind == "table"}
    undone = failed = 0
    for operation, name, before, after, old, new in changes:
        table = tables.get(fold(name))
        if table is None:
            continue
        row = _RowUndo(connection, table)
        try:
            with connection:  # A change that fails leaves the row as it is.
                done = row.undo(operation, (before, after), _values(old), _values(new))
        except Error:
            done = False
        undone, failed = undone + done, failed + (not done)
    return undone, failed


class _RowUndo:
    """One change of a row of a table."""

    def __init__(self, connection: Connection, table: Table) -> None:
        self._connection = connection
        self._table = table
        self._rowid = row_name(table)

    def undo(
        self, operation: str, rowids: tuple[int, int], old: Sequence[Value], new: Sequence[Value]
    ) -> bool:
        columns = self._table.columns
        if any(values and len(values) != len(columns) for values in (old, new)):
            return False  # The columns of the table have changed since.
        before, after = rowids
        if operation == "DELETE":
            return self._put(before, old)
        if operation == "INSERT":
            done = self._remove(after, new)
            self._reset_sequence(after)
            return done
        existed = self._remove(after, new)
        return self._put(before, old) and existed

    def _remove(self, rowid: int, values: Sequence[Value]) -> bool:
        by_name = self._by_name(values)
        condition = " AND ".join(f"{quoted(name)} IS ?" for name in self._table.key)
        keys: list[Value] = [by_name[name] for name in self._table.key]
        if self._rowid is not None:
            condition, keys = f"{self._rowid} = ?", [rowid]
        if not condition:
            return False
        self._connection.execute(f"DELETE FROM {quoted(self._table.name)} WHERE {condition}", keys)
        return bool(self._connection.changes())

    def _put(self, rowid: int, values: Sequence[Value]) -> bool:
        stored = {quoted(name): value for name, value in self._by_name(values).items()}
        if self._rowid is not None:
            stored = {self._rowid: rowid, **stored}
        places = ", ".join("?" * len(stored))
        self._connection.execute(
            f"INSERT OR REPLACE INTO {quoted(self._table.name)} ({', '.join(stored)}) VALUES ({places})",
            list(stored.values()),
        )
        return True

    def _by_name(self, values: Sequence[Value]) -> Mapping[str, Value]:
        """Return the values of the columns that can be written."""
        pairs = zip(self._table.columns, values, strict=True)
        return {column.name: value for column, value in pairs if not column.generated}

    def _reset_sequence(self, rowid: int) -> None:
        """Make AUTOINCREMENT assign the number of an undone row again."""
        if scalar(self._connection, "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'"):
            self._connection.execute(
                "UPDATE sqlite_sequence SET seq = ? WHERE name = ? AND seq = ?",
                (rowid - 1, self._table.name, rowid),
            )


def _values(cells: Sequence[Any] | None) -> list[Value]:
    return [base64.b64decode(cell["base64"]) if isinstance(cell, dict) else cell for cell in cells or ()]
