"""Row changes with optimistic concurrency control, applied in one transaction.

Messages for violated constraints name the column at fault. Source: https://sqlite.org/rescode.html#constraint
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from doors.tables.guest.errors import constraint_kind
from doors.tables.schema.rows import identity
from doors.tables.sqlite.catalog import Column, Table, find, read
from doors.tables.sqlite.connections import iso
from doors.tables.sqlite.errors import (
    Connection,
    ConstraintError,
    SqlError,
    TablesError,
    Value,
    fold,
    limited_triggers,
    quoted,
    rows,
    scalar,
    wrapped_errors,
)
from doors.tables.sqlite.tokens import tokens
from doors.tables.types.grid_cell import CUT, cells, full_cell, key_column, results, same, selected, stored
from doors.tables.types.json import encode
from doors.tables.types.registry import excerpt
from engine.control.schemas import StrictModel
from engine.files.statement_memory import StatementMemory
from engine.stepwise_json import Verbatim

TIMEOUT_SECONDS = 30.0
"""Time limit of a list of changes, during which other writers wait."""
MAX_ERRORS = 100
"""Maximum number of reported errors."""
_ERROR_PREFIX = "the rows were not changed"
_NO_CUT = 1 << 31
_REFERENCES = """
select id, "table", "from",
  coalesce("to", (select name from pragma_table_info("table") where pk = seq + 1), "from")
from pragma_foreign_key_list(?) order by id, seq
"""
"""The foreign keys of a table. Without columns, they refer to the primary key."""
_COMMIT_VIOLATION = "after all changes, rows would refer to missing rows"
Cells = list[Any]
"""Cells (`doors/tables/types/grid_cell.py`) in the order of columns."""
RowCells = dict[str, Any]
"""The cells of a row by the names of columns."""
Reason = Literal["changed", "deleted"]
Values = dict[str, Value]


class DeleteChange(StrictModel):
    """A row, and the cells that the client has read. Other cells are not compared.

    The key is a list, as in a grid's rows, or an object by column name.
    """

    key: dict[str, Any] | list[Any]
    expected: dict[str, Any] = Field({})


class UpdateChange(DeleteChange):
    """The same, with the cells to write."""

    set: dict[str, Any] = Field(min_length=1)


class InsertRow(StrictModel):
    """A new row: cells by column name. A missing column gets its default."""

    insert: dict[str, Any]


class UpdateRow(StrictModel):
    """New cells of a row."""

    update: UpdateChange


class DeleteRow(StrictModel):
    """Delete a row."""

    delete: DeleteChange


Change = InsertRow | UpdateRow | DeleteRow


@dataclass(frozen=True, slots=True)
class RowConflict:
    """The index of a change whose row others have changed or deleted.

    `columns` are the changed ones; `current` is the current row, None if it is deleted.
    """

    index: int
    reason: Reason
    columns: list[str]
    current: RowCells | None


@dataclass(frozen=True, slots=True)
class Mistake:
    """The index of an invalid change; None if the changes are invalid only together.

    `constraint` is the violated constraint in the Door's terms, or empty. `column` is the one at fault,
    None if it is not exactly one.
    """

    index: int | None
    column: str | None
    constraint: str
    message: str


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row after its change; `row` is None if it was deleted."""

    index: int
    key: Cells
    row: RowCells | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a list of changes. With errors, nothing was changed.

    `applied` counts the changes. `inserted` has the keys of new rows, in the order of their changes; `rows`
    has every changed row as it is after all changes.
    """

    applied: int
    conflicts: list[RowConflict]
    errors: list[Mistake]
    inserted: list[Cells]
    rows: list[ChangedRow]


class _InvalidChange(Exception):
    def __init__(self, message: str, column: str | None = None, constraint: str = "") -> None:
        super().__init__(message)
        self.message, self.column, self.constraint = message, column, constraint


class _Stale(Exception):
    """A row differs from the one that the client read."""

    def __init__(self, key: list[Value], reason: Reason, columns: list[str]) -> None:
        super().__init__(reason)
        self.key, self.reason, self.columns = key, reason, columns


def apply(connection: Connection, table: str, changes: Sequence[Change], *, skip: bool) -> Outcome:
    """Apply row changes of a table in order, in one transaction.

    A row that differs from its expected cells is a conflict: nothing is changed or, with `skip`, the row is
    skipped. An invalid change is an error: nothing is changed. Raises `TablesError` if the table is
    `read-only` or `not-found`, or the file cannot be written.
    """
    timeout = f"it would take longer than {TIMEOUT_SECONDS:.0f} s"
    limits = limited_triggers(connection, TIMEOUT_SECONDS, _ERROR_PREFIX, timeout, "Change fewer at once.")
    try:
        with wrapped_errors(_ERROR_PREFIX), limits as memory:
            connection.execute("BEGIN IMMEDIATE")
            return _TableChanges(connection, table, memory).all(changes, skip=skip)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


class _TableChanges:
    """The changes of one table, within a transaction."""

    def __init__(self, connection: Connection, name: str, memory: StatementMemory) -> None:
        self.connection = connection
        self.memory = memory
        self.now = iso(time.time())
        self.table: Table = find(read(connection), name, "not-found")
        row_identity = identity(self.table)
        if not row_identity.key:
            raise TablesError(
                f"{self.table.name} {row_identity.reason}",
                "Change its rows with SQL, or add a key with `svc tables alter`.",
                code="read-only",
            )
        self.key: tuple[Column, ...] = tuple(key_column(self.table, each) for each in row_identity.key)
        self.source = f"main.{quoted(self.table.name)}"
        self.key_condition = " AND ".join(f"{quoted(column.name)} = ?" for column in self.key)
        parts = (selected(quoted(each.name), cut=CUT) for each in self.table.columns)
        self.select_row = f"SELECT {', '.join(parts)} FROM {self.source} WHERE {self.key_condition}"

    def all(self, changes: Sequence[Change], *, skip: bool) -> Outcome:
        """Apply all changes and end the transaction."""
        stale: list[tuple[int, _Stale]] = []
        errors: list[Mistake] = []
        applied: list[tuple[int, Change, list[Value]]] = []
        for index, change in enumerate(changes):
            try:
                applied.append((index, change, self._apply_one(change)))
            except _Stale as found:
                stale.append((index, found))
            except _InvalidChange as wrong:
                errors.append(Mistake(index, wrong.column, wrong.constraint, wrong.message))
            if len(errors) >= MAX_ERRORS or not self.connection.in_transaction:
                break
        if errors or (stale and not skip):
            return self._reject(stale, errors)
        conflicts = [self._conflict(*each) for each in stale]
        inserted = [self._cells(key) for _, change, key in applied if isinstance(change, InsertRow)]
        changed_rows = [ChangedRow(index, self._cells(key), self._row(key)) for index, _, key in applied]
        try:
            self.connection.execute("COMMIT")
        except ConstraintError:
            return self._reject(stale, [Mistake(None, None, "foreign-key", _COMMIT_VIOLATION)])
        return Outcome(len(applied), conflicts, [], inserted, changed_rows)

    def _reject(self, stale: Sequence[tuple[int, _Stale]], errors: list[Mistake]) -> Outcome:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        return Outcome(0, [self._conflict(*each) for each in stale], errors, [], [])

    def _conflict(self, index: int, stale: _Stale) -> RowConflict:
        return RowConflict(index, stale.reason, stale.columns, self._row(stale.key))

    def _apply_one(self, change: Change) -> list[Value]:
        """Apply one change; return the key of its row after it."""
        try:
            match change:
                case InsertRow():
                    values = self._stored_values(change.insert)
                    names = ", ".join(map(quoted, values))
                    rest = f"({names}) VALUES ({', '.join('?' * len(values))})"
                    return self._run(
                        f"INSERT INTO {self.source} {rest if values else 'DEFAULT VALUES'}", values
                    )
                case UpdateRow(update=update):
                    key = self._require_unchanged(update.key, update.expected)
                    values = self._stored_values(update.set)
                    assignments = ", ".join(f"{quoted(name)} = ?" for name in values)
                    sql = f"UPDATE {self.source} SET {assignments} WHERE {self.key_condition}"
                    return self._run(sql, values, key)
                case DeleteRow(delete=delete):
                    key = self._require_unchanged(delete.key, delete.expected)
                    self._run(f"DELETE FROM {self.source} WHERE {self.key_condition}", {}, key)
                    return key
        except (SqlError, UnicodeEncodeError) as error:
            raise _InvalidChange(str(error)) from error

    def _run(self, sql: str, values: Values, key: Sequence[Value] = ()) -> list[Value]:
        """Run a statement; return the key of its row."""
        sql += f" RETURNING {', '.join(quoted(column.name) for column in self.key)}"
        try:
            with self.memory:  # Triggers may collect values.
                keys = rows(self.connection, sql, *values.values(), *key)
        except ConstraintError as error:
            raise self._constraint_fault(error, values, key) from error
        if not keys:
            raise _InvalidChange(f"a trigger of {self.table.name} ignored the change", constraint="trigger")
        return list(keys[0])

    def _require_unchanged(
        self, key_cells: dict[str, Any] | list[Any], expected: Mapping[str, Any]
    ) -> list[Value]:
        """Return the key of a row. Raises `_Stale` if the row is missing or differs from `expected`."""
        key = self._key_values(key_cells)
        columns = [(self._column(name), value) for name, value in expected.items()]
        parts = [selected(quoted(each.name), cut=_NO_CUT) for each, _ in columns]
        matching = rows(
            self.connection,
            f"SELECT {', '.join(parts) or 'NULL'} FROM {self.source} WHERE {self.key_condition} LIMIT 2",
            *key,
        )
        if not matching:
            raise _Stale(key, "deleted", [])
        if len(matching) > 1:
            raise _InvalidChange("several rows have this key", self.key[0].name)
        differs = [
            column.name
            for result, (column, value) in zip(results(matching[0]), columns, strict=True)
            if not same(result, value, self.table, column)
        ]
        if differs:
            raise _Stale(key, "changed", differs)
        return key

    def _key_values(self, cells: dict[str, Any] | list[Any]) -> list[Value]:
        names = [column.name for column in self.key]
        if isinstance(cells, Mapping):
            by_column = {self._column(name).name: value for name, value in cells.items()}
            if by_column.keys() != set(names):
                raise _InvalidChange(f"the key is {', '.join(names)}, not {', '.join(by_column) or 'empty'}")
            cells = [by_column[name] for name in names]
        if len(cells) != len(names):
            raise _InvalidChange(f"the key is {', '.join(names)}: {len(names)} values, not {len(cells)}")
        return [self._value(column, value) for column, value in zip(self.key, cells, strict=True)]

    def _stored_values(self, cells: Mapping[str, Any]) -> Values:
        values: Values = {}
        for name, value in cells.items():
            column = self._column(name)
            if column.generated:
                raise _InvalidChange(f"{column.name} is computed, and cannot be written", column.name)
            if column.name in values:
                raise _InvalidChange(f"{column.name} is set twice", column.name)
            values[column.name] = self._value(column, value)
        return values

    def _value(self, column: Column, new_cell: Any) -> Value:
        try:
            return stored(new_cell, self.table, column, self.now)
        except ValueError as error:
            text = excerpt(new_cell if isinstance(new_cell, str) else Verbatim(encode(new_cell).decode()))
            raise _InvalidChange(
                f"{column.name} is {column.type}: {text} {error}", column.name, "type"
            ) from None

    def _column(self, name: str) -> Column:
        try:
            return self.table.column(name)
        except TablesError as error:
            raise _InvalidChange(f"{error.message}. {error.hint}") from None

    def _cells(self, key: Sequence[Value]) -> Cells:
        return [full_cell(value, column.type) for column, value in zip(self.key, key, strict=True)]

    def _row(self, key: Sequence[Value]) -> RowCells | None:
        """Return the current cells of a row, long ones truncated."""
        matching = rows(self.connection, self.select_row, *key)
        if not matching:
            return None
        columns = self.table.columns
        row = cells(results(matching[0]), (each.type for each in columns), cut=CUT)
        return {column.name: cell for column, cell in zip(columns, row, strict=True)}

    def _constraint_fault(
        self, error: ConstraintError, values: Values, key: Sequence[Value]
    ) -> _InvalidChange:
        """Return the error of a change that wrote `values` to the row of `key`."""
        kind, name = constraint_kind(error), self.table.name
        detail = str(error).partition(": ")[2]
        columns = [each.name for each in self.table.columns if f"{name}.{each.name}" in detail.split(", ")]
        column = columns[0] if len(columns) == 1 else None
        match kind:
            case "unique" | "primary-key" if columns:
                texts = (f"{each} {excerpt(values[each])}" if each in values else each for each in columns)
                return _InvalidChange(f"another row already has {', '.join(texts)}", column, kind)
            case "not-null" if column:
                return _InvalidChange(f"{column} must have a value", column, kind)
            case "check":
                names = {fold(token.value) for token in tokens(detail)}
                checked = [each.name for each in self.table.columns if fold(each.name) in names]
                column = checked[0] if len(checked) == 1 else None
                return _InvalidChange(f"the row violates the check {detail}", column, kind)
            case "foreign-key":
                return self._reference_fault(values, key)
            case "type":
                for each in self.table.columns:
                    if str(error).endswith(f" {name}.{each.name}"):
                        return _InvalidChange(f"{each.name} can only hold {each.type}", each.name, kind)
            case "trigger":
                return _InvalidChange(f"a trigger of {name} refused it: {error}", constraint=kind)
        return _InvalidChange(str(error), column, kind)

    def _reference_fault(self, values: Values, key: Sequence[Value]) -> _InvalidChange:
        kind = "foreign-key"
        for parent, pairs in _references(self.connection, self.table.name):
            referring = [values.get(name) for name, _ in pairs]
            condition = " AND ".join(f"{quoted(to)} = ?" for _, to in pairs)
            sql = f"SELECT 1 FROM main.{quoted(parent)} WHERE {condition}"
            if any(value is None for value in referring) or scalar(self.connection, sql, *referring):
                continue
            names, texts = ", ".join(name for name, _ in pairs), ", ".join(map(excerpt, referring))
            column = pairs[0][0] if len(pairs) == 1 else None
            return _InvalidChange(f"{names} {texts} refers to a missing row of {parent}", column, kind)
        for child in read(self.connection).values():
            for parent, pairs in _references(self.connection, child.name):
                if fold(parent) != fold(self.table.name):
                    continue
                joined = " AND ".join(f"c.{quoted(name)} = t.{quoted(to)}" for name, to in pairs)
                sql = (
                    f"SELECT 1 FROM main.{quoted(child.name)} c JOIN"
                    f" (SELECT * FROM {self.source} WHERE {self.key_condition}) t ON {joined} LIMIT 1"
                )
                if key and rows(self.connection, sql, *key):
                    return _InvalidChange(f"rows of {child.name} refer to this one", constraint=kind)
        return _InvalidChange("a row would refer to a missing row", constraint=kind)


def _references(connection: Connection, table: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the tables that a table refers to, each with pairs of referring and referenced columns."""
    references: dict[int, tuple[str, list[tuple[str, str]]]] = {}
    for id, parent, name, to in rows(connection, _REFERENCES, table):
        references.setdefault(id, (parent, []))[1].append((name, to))
    return list(references.values())
