"""A grid: a sorted and filtered table, read in windows over its own connection.

One thread at a time uses it, except for `stop`. It holds no transaction between calls, because that would
block checkpoints of the write-ahead log.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from doors.tables.grid.view_sql import Clauses, GridQuery, clauses
from doors.tables.replication.history import Write
from doors.tables.replication.registry import find_replica
from doors.tables.schema.rows import Identity, identity
from doors.tables.sqlite.catalog import Table, find, lookup, read
from doors.tables.sqlite.connections import Connection, open_viewer
from doors.tables.sqlite.errors import (
    Error,
    FullError,
    InterruptError,
    TablesError,
    Value,
    atomic,
    quoted,
    rows,
    scalar,
    wrap_error,
)
from doors.tables.types.grid_cell import CUT, Selected, cell, cells, key_column, results, selected, stored
from doors.tables.types.parse import integer
from doors.tables.types.registry import INTEGER
from engine.control.schemas import StrictModel
from engine.files.statement_limit import StatementLimit
from engine.files.statement_memory import MAX_COLLECTED_BYTES, StatementMemory

ORDER_TABLE = "_svc_shown"
"""The temporary table. Tables of projects cannot have such a name, so it hides none."""


@dataclass(frozen=True, slots=True)
class Order:
    """The materialized order of a grid's rows at one time, for random access.

    `OFFSET` walks over all rows before a window, and without an index it sorts them each time. So the rowids
    or keys are stored once in a temporary table, in the order of the view. An unfiltered and unsorted table
    whose rowids have no gaps needs none: position and rowid differ by a constant. Temporary tables are in an
    unnamed file; nothing is written to the project's database.

    `source` and `single` are FROM clauses for windows and for single rows, both with the row as `t`. They are
    the same if positions are numbers of rows, from `first`. `columns` and `handle` are expressions of a row's
    columns and of its identity; the handle is NULL in `source` for a deleted row. `top` is the highest rowid,
    None without rowids.
    """

    count: int
    source: str
    single: str
    columns: tuple[str, ...]
    handle: tuple[str, ...]
    _: KW_ONLY
    top: int | None = None
    first: int = 1

    @property
    def position(self) -> str:
        """The SQL expression of a position: `first` for the first row, one more for each next row."""
        return self.handle[0] if self.single == self.source else "o.rowid"

    @property
    def added(self) -> str:
        """The query that counts the rows above a rowid."""
        plain = self.single == self.source
        source, number = (self.single, self.handle[0]) if plain else (f"temp.{ORDER_TABLE}", "h0")
        return f"SELECT count(*) FROM {source} WHERE {number} > ?"


def materialize(connection: Connection, table: Table, identity: Identity, clauses: Clauses) -> Order:
    """Materialize the order of a view in the current transaction, replacing the previous one."""

    def create(name: str, expressions: Sequence[str], order: str) -> int:
        """Create the temporary table with expressions of the shown rows; return their number."""
        parts = ", ".join(f"{each} AS {name}{number}" for number, each in enumerate(expressions))
        select = f"SELECT {parts} FROM {main}{clauses.where}{order}"
        connection.execute(f"CREATE TEMP TABLE {ORDER_TABLE} AS {select}", clauses.values)
        return int(scalar(connection, f"SELECT ifnull(max(rowid), 0) FROM temp.{ORDER_TABLE}"))

    connection.execute(f"DROP TABLE IF EXISTS temp.{ORDER_TABLE}")
    columns = tuple(f"t.{quoted(column.name)}" for column in table.columns)
    main = f"main.{quoted(table.name)} t"
    if not identity.handle:  # The rows cannot be read again by key, so they are copied.
        copy, copied = f"temp.{ORDER_TABLE} t", tuple(f"t.c{number}" for number in range(len(columns)))
        return Order(create("c", columns, clauses.order), copy, copy, copied, ("t.rowid",))
    handle = tuple(f"t.{quoted(name)}" for name in identity.handle)
    top = scalar(connection, f"SELECT max({handle[0]}) FROM {main}") or 0 if identity.numbered else None
    if identity.numbered and clauses.plain:
        first = scalar(connection, f"SELECT min({handle[0]}) FROM {main}")
        count = scalar(connection, f"SELECT count(*) FROM {main}")
        if count == 0 or top - first + 1 == count:
            return Order(count, main, main, columns, handle, top=top, first=first if count else 1)
    order = (clauses.order or " ORDER BY ") + ", " * bool(clauses.order) + ", ".join(handle)
    joined = " AND ".join(f"{part} = o.h{number}" for number, part in enumerate(handle))
    source = f"temp.{ORDER_TABLE} o LEFT JOIN {main} ON {joined}"
    return Order(create("h", handle, order), source, main, columns, handle, top=top)


def positions(
    connection: Connection, order: Order, handles: Sequence[tuple[Value, ...]]
) -> Mapping[tuple[Value, ...], int]:
    """Return the positions, from 0, of rows by their handles. Rows that are not in the order are omitted."""
    if order.single == order.source:
        return {each: each[0] - order.first for each in handles if isinstance(each[0], int)}
    if not handles:
        return {}
    names = ", ".join(f"h{number}" for number in range(len(order.handle)))
    group = "(" + ", ".join("?" * len(order.handle)) + ")"
    placeholders = ", ".join([group] * len(handles))
    ordered = connection.execute(
        f"SELECT rowid, {names} FROM temp.{ORDER_TABLE} WHERE ({names}) IN (VALUES {placeholders})",
        [value for each in handles for value in each],
    )
    return {row[1:]: row[0] - 1 for row in ordered}


TIMEOUT_SECONDS = 30.0
"""Time limit of each call."""
MAX_TEMPORARY_BYTES = 512 << 20
"""Maximum bytes of the temporary file with the order."""
MAX_GRIDS_BYTES = 1 << 30
"""Maximum bytes of the temporary files of a project's grids."""
MAX_CELL_BYTES = 64 << 20
"""Maximum bytes of one complete cell."""
MAX_KEY_BYTES = 16 << 20
"""Maximum bytes of the keys of a window of rows."""
_ERROR_PREFIX = "cannot show the table"
Cells = list[Any]
State = Literal["unchanged", "changed", "deleted"]


class RowNotFound(TablesError):
    """No row has this key."""

    code = "row-gone"


@dataclass(frozen=True, slots=True)
class RowState:
    """The state of a row. `position` counts from 0; null if the filters hide the row."""

    state: State
    position: int | None


class RowVersion(StrictModel):
    """A row: its key, and its version when it was read."""

    key: list[Any]
    version: str = ""


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """The current row count, and the states of the requested rows, in their order.

    `new` counts added rows by their rowids; null for tables without rowids.
    """

    count: int
    new: int | None
    rows: list[RowState]


class Grid:
    """An open grid. Every method raises `TablesError`: `gone`, `changed`, `timeout`, and SQLite's own."""

    def __init__(self, path: Path, view: GridQuery, others: Callable[[], int]) -> None:
        """Open the file. `others` returns the temporary bytes of the project's other grids."""
        self.temporary_bytes = 0
        self._others, self._order_bytes = others, 0
        self._stopped = False
        self.view = view
        self.moment: Write | None = None
        """The last entry of a moment before now."""
        self._path = path
        if (replica := find_replica(path)) is not None:
            replica.refresh()
        try:
            self._inode = path.stat().st_ino
            self._connection: Connection = open_viewer(path, MAX_TEMPORARY_BYTES)
        except OSError:
            raise TablesError(
                f"table {view.table} does not exist", "The project has no tables.", code="not-found"
            ) from None
        except Error as error:
            raise wrap_error(error, _ERROR_PREFIX) from error
        self._page_bytes: int = self._connection.pragma("page_size", schema="temp")
        self._memory = StatementMemory(self._connection)
        self._limit = StatementLimit(
            self._connection,
            TIMEOUT_SECONDS,
            written=MAX_TEMPORARY_BYTES,
            fits=self._fits,
            stopped=lambda: self._stopped,
            memory=self._memory,
        )

    def open(self) -> None:
        """Materialize the order of the rows. Call this first."""
        with self._snapshot(check=False):
            self.table: Table = find(read(self._connection), self.view.table, "not-found")
            self.identity: Identity = identity(self.table)
            self._schema = scalar(self._connection, "PRAGMA main.schema_version")
            order = self._materialize()
        self._order, self._data_version = order

    @property
    def count(self) -> int:
        return self._order.count

    def stale(self) -> bool:
        """Return whether the database has changed since the order was materialized."""
        with self._snapshot():
            return bool(self._version() != self._data_version)

    def window(self, start: int, n: int) -> tuple[list[Cells | None], list[Cells | None], list[str]]:
        """Return up to `n` rows from position `start`, counted from 0, their keys, and their versions.

        Raises `TablesError`, also if the keys, which are not cut, are too large.
        """
        order = self._order
        numbers = range(order.first + start, order.first + min(start + n, order.count))
        condition = f"{order.position} BETWEEN {numbers.start} AND {numbers.stop - 1}"
        head = (order.position, f"{order.handle[0]} IS NOT NULL")
        size = " + ".join(f"ifnull(octet_length({each}), 0)" for each in self._key_expressions())
        total = f"SELECT total({size}) FROM {order.source} WHERE {condition}"
        with self._snapshot():
            if scalar(self._connection, total) > MAX_KEY_BYTES:
                raise TablesError(
                    f"the keys of these rows have more than {MAX_KEY_BYTES >> 20} MiB",
                    "Export the table, or use shorter keys.",
                    code="too-large",
                )
            selected_rows = self._select(head, order.source, condition, keys=True)
        by_position = {row[0]: results(row[2:]) for row in selected_rows if row[1]}
        found = [by_position.get(position) for position in numbers]
        types = [key_column(self.table, name).type for name in self.identity.key] or [INTEGER.name]
        shown = [self._cells(row[len(types) :]) if row else None for row in found]
        keys = [cells(row[: len(types)], types, cut=MAX_CELL_BYTES) if row else None for row in found]
        return shown, keys, [_version(each) for each in shown]

    def full_cell(self, key: Cells, column: str) -> Any:
        """Return one complete cell of a row. Raises `TablesError`, also `RowNotFound`."""
        index = self.table.columns.index(self.table.column(column))
        expression = selected(self._order.columns[index], cut=MAX_CELL_BYTES)
        sql = f"SELECT {expression} FROM {self._order.single} WHERE {self._key_condition(key)}"
        with self._snapshot():
            found = rows(self._connection, sql, *self._key_values(key))
        if not found:
            raise RowNotFound("the row is gone", "Refresh the grid.")
        result = Selected(*found[0])
        if (result.size or 0) > MAX_CELL_BYTES:
            raise TablesError(
                f"the cell has more than {MAX_CELL_BYTES >> 20} MiB",
                "Export the table to get the complete cell.",
            )
        return cell(result, self.table.columns[index].type, cut=MAX_CELL_BYTES)

    def refresh(self, known_rows: Sequence[RowVersion]) -> RefreshResult:
        """Materialize the order again."""
        added: int | None = 0
        if self.stale():
            with self._snapshot():
                order, data_version = self._materialize()
                top = self._order.top
                added = None if top is None else int(scalar(self._connection, order.added, top))
            self._order, self._data_version = order, data_version
        with self._snapshot():
            return RefreshResult(self.count, added, self._row_states(known_rows))

    def stop(self) -> None:
        """Interrupt the call in progress, from any thread."""
        self._stopped = True

    def interrupt(self) -> None:
        """Interrupt the statement in progress, if there is one, from any thread."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection, and free the memory of the grid."""
        self._connection.close()

    def _fits(self, written: int) -> bool:
        """Count written bytes; return whether the temporary files of all grids are small enough."""
        self.temporary_bytes = self._order_bytes + written
        return self._others() + self.temporary_bytes <= MAX_GRIDS_BYTES

    def _materialize(self) -> tuple[Order, Any]:
        """Materialize the current order; return it and the version of the database."""
        sql_clauses = clauses(self.table, self.view)
        return materialize(self._connection, self.table, self.identity, sql_clauses), self._version()

    def _version(self) -> Any:
        return scalar(self._connection, "PRAGMA main.data_version")

    def _row_states(self, known_rows: Sequence[RowVersion]) -> list[RowState]:
        order, width = self._order, len(self._order.handle)
        states: list[tuple[tuple[Any, ...], State] | None] = []
        for row in known_rows:
            try:
                condition, values = self._key_condition(row.key), self._key_values(row.key)
                matching = self._select(order.handle, order.single, condition, values)
            except RowNotFound:
                matching = []
            if matching:
                current = _version(self._cells(results(matching[0][width:])))
                states.append((matching[0][:width], "unchanged" if current == row.version else "changed"))
            else:
                states.append(None)
        row_positions = positions(self._connection, order, [each[0] for each in states if each])
        return [
            RowState(each[1], row_positions.get(each[0])) if each else RowState("deleted", None)
            for each in states
        ]

    def _select(
        self,
        leading: Sequence[str],
        source: str,
        condition: str,
        values: Sequence[Any] = (),
        *,
        keys: bool = False,
    ) -> list[tuple[Any, ...]]:
        """Return rows of `leading`, then `selected` of the key columns (with `keys`) and of all columns."""
        key = self._key_expressions() if keys else ()
        parts = [*leading, *(selected(each, cut=MAX_CELL_BYTES) for each in key)]
        parts += [selected(each, cut=CUT) for each in self._order.columns]
        sql = f"SELECT {', '.join(parts)} FROM {source} WHERE {condition}"
        return rows(self._connection, sql, *values)

    def _key_expressions(self) -> Sequence[str]:
        if not self.identity.key:
            return self._order.handle
        columns = dict(zip((each.name for each in self.table.columns), self._order.columns, strict=True))
        return [columns[name] for name in self.identity.key]

    def _key_condition(self, key: Cells) -> str:
        parts = self._key_expressions()
        if len(key) != len(parts):
            raise TablesError(f"a key of {self.table.name} has {len(parts)} values, not {len(key)}")
        return " AND ".join(f"{each} = ?" for each in parts)

    def _key_values(self, key: Cells) -> list[Any]:
        try:
            if not self.identity.key:
                return [integer(str(value)) for value in key]
            columns = (key_column(self.table, name) for name in self.identity.key)
            return [stored(value, self.table, column, "") for value, column in zip(key, columns, strict=True)]
        except ValueError as error:
            raise RowNotFound(f"no row has this key: a value of it {error}") from None

    def _cells(self, row: Sequence[Selected]) -> Cells:
        return cells(row, (column.type for column in self.table.columns), cut=CUT)

    @contextmanager
    def _snapshot(self, *, check: bool = True) -> Iterator[None]:
        """Read one snapshot. With `check`, raise `TablesError` if the table's columns have changed."""
        try:
            try:
                with atomic(self._connection, "begin"):
                    if check:
                        self._require_unchanged()
                    with self._limit, self._memory:  # A view may collect values.
                        yield
                        if self._limit.is_over_limit() and self._limit.oversized:
                            raise FullError  # A short statement ends between two checks.
            finally:
                self._order_bytes = self._connection.pragma("page_count", schema="temp") * self._page_bytes
                self.temporary_bytes = self._order_bytes
        except (InterruptError, FullError) as error:
            table, code = self.view.table, "too-large"
            if self._memory.oversized:
                reason = f"the rows of {table} take more than {MAX_COLLECTED_BYTES >> 20} MiB of memory"
                hint = "Collect fewer values in the view."
            elif self._limit.oversized or isinstance(error, FullError):
                reason = f"sorting {table} exceeds the space for temporary files"
                hint = "Add a filter, or close other grids of the project."
            else:
                reason, code = f"{table} cannot be sorted within {TIMEOUT_SECONDS:.0f} s", "timeout"
                hint = "Add an index on the sorted columns, or a filter."
            raise TablesError(reason, hint, code=code) from None
        except Error as error:
            raise wrap_error(error, _ERROR_PREFIX) from error

    def _require_unchanged(self) -> None:
        """Raise `TablesError` if the table was dropped or altered since the grid was opened."""
        try:
            unchanged = self._path.stat().st_ino == self._inode
        except OSError:
            unchanged = False
        if not unchanged:
            raise _dropped_error(self.view.table)
        schema = scalar(self._connection, "PRAGMA main.schema_version")
        if schema == self._schema:
            return
        if (table := lookup(read(self._connection), self.view.table)) is None:
            raise _dropped_error(self.view.table)
        if _shape(table) != _shape(self.table):
            raise TablesError(f"the table {self.table.name} was altered", "Open it again.", code="changed")
        self._schema = schema


def _dropped_error(table: str) -> TablesError:
    return TablesError(f"the table {table} is gone", "It was dropped or renamed.", code="gone")


def _shape(table: Table) -> Any:
    """Return the parts of a table that a grid depends on: all but notes and indexes."""
    columns = tuple(replace(column, note="") for column in table.columns)
    return replace(table, columns=columns, indexes=(), note="")


def _version(cells: Cells | None) -> str:
    text = json.dumps(cells, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=8).hexdigest()
