"""A list of row changes, applied in one transaction: each only if its row is as the client read it."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from doors.tables.rows import constraint_errors
from doors.tables.rows.changes import (
    Cells,
    Change,
    Changed,
    Delete,
    Insert,
    Key,
    Mistake,
    Outcome,
    Reason,
    RowCells,
    RowConflict,
    Update,
)
from doors.tables.rows.identity import identity
from doors.tables.sqlite.catalog import Column, Table, find, read
from doors.tables.sqlite.connections import iso
from doors.tables.sqlite.errors import (
    Connection,
    ConstraintError,
    Error,
    InterruptError,
    SqlError,
    TablesError,
    Value,
    quoted,
    rows,
    wrap_error,
)
from doors.tables.types.convert import preview
from doors.tables.types.grid_cell import CUT, cell, full_cell, same, selected, stored, value_of

TIMEOUT_SECONDS = 30.0
"""Time limit of a list of changes; other writers wait meanwhile."""
MAX_ERRORS = 100
"""Maximum of errors in the answer."""
_WHAT = "the rows were not changed"
_WHOLE = 1 << 31
_STEPS_PER_CHECK = 20_000
Values = dict[str, Value]


class _InvalidChange(Exception):
    """A change cannot be made."""

    def __init__(self, message: str, column: str | None = None, constraint: str = "") -> None:
        super().__init__(message)
        self.message, self.column, self.constraint = message, column, constraint


class _Stale(Exception):
    """A row differs from the one that the client read."""

    def __init__(self, key: list[Value], reason: Reason, columns: list[str]) -> None:
        super().__init__(reason)
        self.key, self.reason, self.columns = key, reason, columns


def apply(connection: Connection, table: str, changes: Sequence[Change], *, skip: bool) -> Outcome:
    """Make changes of the rows of a table, in their order, in one transaction.

    Where a row is not what it was, nothing is changed, or, with `skip`, that row is left as it is. Where any
    change cannot be made, nothing is changed. Raises `TablesError` where the table takes no changes
    (`read-only`), is not there (`not-found`), or the file cannot be written.
    """
    try:
        with _transaction(connection):
            return _Changing(connection, table).all(changes, skip=skip)
    except InterruptError:
        raise TablesError(
            f"{_WHAT}: it would take longer than {TIMEOUT_SECONDS:.0f} s",
            "Change fewer at once.",
            code="timeout",
        ) from None
    except Error as error:
        raise wrap_error(error, _WHAT) from error


@contextmanager
def _transaction(connection: Connection) -> Iterator[None]:
    end = time.monotonic() + TIMEOUT_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS_PER_CHECK)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.set_progress_handler(None)


class _Changing:
    """The changes of one table, within a transaction."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        self.now = iso(time.time())
        try:
            self.table: Table = find(read(connection), name)
        except TablesError as error:
            raise TablesError(error.message, error.hint, code="not-found") from None
        rows_are = identity(self.table)
        if not rows_are.key:
            raise TablesError(
                f"{self.table.name} {rows_are.reason}",
                "Change its rows with SQL; a table is given a key by `svc tables alter`.",
                code="read-only",
            )
        self.key: tuple[Column, ...] = tuple(self.table.column(each) for each in rows_are.key)
        self.source = f"main.{quoted(self.table.name)}"
        self.by_key = " AND ".join(f"{quoted(column.name)} = ?" for column in self.key)
        self.returning = ", ".join(quoted(column.name) for column in self.key)
        parts = (selected(quoted(each.name), cut=CUT, as_bytes=True) for each in self.table.columns)
        self.whole_row = f"SELECT {', '.join(parts)} FROM {self.source} WHERE {self.by_key}"

    def all(self, changes: Sequence[Change], *, skip: bool) -> Outcome:
        """Make all changes, and end the transaction."""
        stale: list[tuple[int, _Stale]] = []
        errors: list[Mistake] = []
        done: list[tuple[int, Change, list[Value]]] = []
        for index, change in enumerate(changes):
            try:
                done.append((index, change, self._one(change)))
            except _Stale as found:
                stale.append((index, found))
            except _InvalidChange as wrong:
                errors.append(Mistake(index, wrong.column, wrong.constraint, wrong.message))
            if len(errors) >= MAX_ERRORS or not self.connection.in_transaction:
                break
        if errors or (stale and not skip):
            return self._refused(stale, errors)
        conflicts = [self._conflict(*each) for each in stale]
        inserted = [self._cells(key) for _, change, key in done if isinstance(change, Insert)]
        became = [Changed(index, self._cells(key), self._row(key)) for index, _, key in done]
        try:
            self.connection.execute("COMMIT")
        except ConstraintError:
            return self._refused(stale, [Mistake(None, None, "foreign-key", constraint_errors.AT_THE_END)])
        return Outcome(len(done), conflicts, [], inserted, became)

    def _refused(self, stale: Sequence[tuple[int, _Stale]], errors: list[Mistake]) -> Outcome:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        return Outcome(0, [self._conflict(*each) for each in stale], errors, [], [])

    def _conflict(self, index: int, found: _Stale) -> RowConflict:
        return RowConflict(index, found.reason, found.columns, self._row(found.key))

    def _one(self, change: Change) -> list[Value]:
        """Make one change; return the key of its row after it."""
        try:
            match change:
                case Insert():
                    return self._insert(self._stored(change.values))
                case Update():
                    key = self._held(change.key, change.expected)
                    return self._update(key, self._stored(change.set))
                case Delete():
                    key = self._held(change.key, change.expected)
                    self._delete(key)
                    return key
        except (SqlError, UnicodeEncodeError) as error:
            raise _InvalidChange(str(error)) from error

    def _insert(self, values: Values) -> list[Value]:
        names = ", ".join(map(quoted, values))
        what = f"({names}) VALUES ({', '.join('?' * len(values))})" if values else "DEFAULT VALUES"
        return self._run(f"INSERT INTO {self.source} {what} RETURNING {self.returning}", values, [])

    def _update(self, key: list[Value], values: Values) -> list[Value]:
        if not values:
            raise _InvalidChange("there is nothing to set")
        what = ", ".join(f"{quoted(name)} = ?" for name in values)
        return self._run(
            f"UPDATE {self.source} SET {what} WHERE {self.by_key} RETURNING {self.returning}", values, key
        )

    def _delete(self, key: list[Value]) -> None:
        self._run(f"DELETE FROM {self.source} WHERE {self.by_key} RETURNING {self.returning}", {}, key)

    def _run(self, sql: str, values: Values, key: list[Value]) -> list[Value]:
        try:
            found = rows(self.connection, sql, *values.values(), *key)
        except ConstraintError as error:
            fault = constraint_errors.constraint_message(
                self.connection, self.table, error, values, self.by_key, key
            )
            raise _InvalidChange(fault.message, fault.column, fault.constraint) from error
        if not found:
            raise _InvalidChange(
                f"a trigger of {self.table.name} had the change ignored", constraint="trigger"
            )
        return list(found[0])

    def _held(self, given: Key, expected: Mapping[str, Any]) -> list[Value]:
        """Return the key of a row that is there, once, and is what it was."""
        key = self._key(given)
        columns = [(self._column(name), value) for name, value in expected.items()]
        parts = [selected(quoted(each.name), cut=_WHOLE, as_bytes=True) for each, _ in columns]
        found = rows(
            self.connection,
            f"SELECT {', '.join(parts) or 'NULL'} FROM {self.source} WHERE {self.by_key} LIMIT 2",
            *key,
        )
        if not found:
            raise _Stale(key, "deleted", [])
        if len(found) > 1:
            raise _InvalidChange("the key is that of several rows", self.key[0].name)
        for column, value in columns:
            if isinstance(value, dict) and "size" in value:
                raise _InvalidChange(f"what {column.name} was is only the beginning of it", column.name)
        differs = [
            column.name
            for at, (column, value) in enumerate(columns)
            if not same(value_of(found[0][3 * at : 3 * at + 3]), value, self.table, column)
        ]
        if differs:
            raise _Stale(key, "changed", differs)
        return key

    def _key(self, given: Key) -> list[Value]:
        names = [column.name for column in self.key]
        if isinstance(given, Mapping):
            by_column = {self._column(name).name: value for name, value in given.items()}
            if by_column.keys() != set(names):
                raise _InvalidChange(f"the key is {', '.join(names)}, not {', '.join(by_column) or 'empty'}")
            given = [by_column[name] for name in names]
        if len(given) != len(names):
            raise _InvalidChange(f"the key is {', '.join(names)}: {len(names)} values, not {len(given)}")
        return [self._value(column, value) for column, value in zip(self.key, given, strict=True)]

    def _stored(self, given: Mapping[str, Any]) -> Values:
        values: Values = {}
        for name, value in given.items():
            column = self._column(name)
            if column.generated:
                raise _InvalidChange(f"{column.name} is computed, and cannot be written", column.name)
            if column.name in values:
                raise _InvalidChange(f"{column.name} is there twice", column.name)
            values[column.name] = self._value(column, value)
        return values

    def _value(self, column: Column, given: Any) -> Value:
        try:
            return stored(given, self.table, column, self.now)
        except ValueError as error:
            what = preview(given) if given is None or isinstance(given, str | int | float) else "the value"
            raise _InvalidChange(
                f"{column.name} is {column.type}: {what} {error}", column.name, "type"
            ) from None

    def _column(self, name: str) -> Column:
        try:
            return self.table.column(name)
        except TablesError as error:
            raise _InvalidChange(f"{error.message}. {error.hint}") from None

    def _cells(self, key: Sequence[Value]) -> Cells:
        return [full_cell(value, column.type) for column, value in zip(self.key, key, strict=True)]

    def _row(self, key: Sequence[Value]) -> RowCells | None:
        """Return the cells of a row as it is now, long ones cut."""
        found = rows(self.connection, self.whole_row, *key)
        if not found:
            return None
        return {
            column.name: cell(found[0][3 * at : 3 * at + 3], column.type, cut=CUT)
            for at, column in enumerate(self.table.columns)
        }
