"""The materialized order of a grid, for random access to its rows.

`OFFSET` walks over all rows before a window, and without an index it sorts them each time. So the rowids or
keys are stored once in a temporary table, in the order of the view. An unfiltered and unsorted table whose
rowids have no gaps needs no temporary table: position and rowid differ by a constant. Temporary tables are in
an unnamed file; nothing is written to the project's database.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from doors.tables.grid.view_sql import Clauses
from doors.tables.rows.identity import Identity
from doors.tables.sqlite.catalog import Table
from doors.tables.sqlite.errors import Connection, Value, quoted, rows, scalar

ORDER_TABLE = "_svc_shown"
"""The temporary table. Tables of projects cannot have such a name, so it hides none."""


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a grid's rows at one time.

    `source` and `single` are FROM clauses for windows and for single rows, both with the row as `t`.
    `position` is an SQL expression: `first` for the first row, one more for each next row. `columns` and
    `handle` are expressions of a row's columns and of its identity; the handle is NULL in `source` for a
    deleted row. `top` is the highest rowid, None without rowids. With `dense`, the rowid is the position.
    """

    count: int
    source: str
    _: KW_ONLY
    single: str
    position: str
    columns: tuple[str, ...]
    handle: tuple[str, ...]
    top: int | None = None
    first: int = 1
    dense: bool = False


def materialize(connection: Connection, table: Table, identity: Identity, clauses: Clauses) -> Order:
    """Materialize the order of a view in the current transaction, replacing the previous one."""
    connection.execute(f"DROP TABLE IF EXISTS temp.{ORDER_TABLE}")
    columns = tuple(f"t.{quoted(column.name)}" for column in table.columns)
    main = f"main.{quoted(table.name)} t"
    if not identity.handle:
        return _copy_rows(connection, main, columns, clauses)
    handle = tuple(f"t.{quoted(name)}" for name in identity.handle)
    top = scalar(connection, f"SELECT max({handle[0]}) FROM {main}") or 0 if identity.numbered else None
    if identity.numbered and clauses.plain:
        first = scalar(connection, f"SELECT min({handle[0]}) FROM {main}")
        count = scalar(connection, f"SELECT count(*) FROM {main}")
        if count == 0 or top - first + 1 == count:
            return Order(
                count,
                main,
                single=main,
                position=handle[0],
                columns=columns,
                handle=handle,
                top=top,
                first=first if count else 1,
                dense=True,
            )
    order = (clauses.order or " ORDER BY ") + ", " * bool(clauses.order) + ", ".join(handle)
    parts = ", ".join(f"{part} AS h{number}" for number, part in enumerate(handle))
    connection.execute(
        f"CREATE TEMP TABLE {ORDER_TABLE} AS SELECT {parts} FROM {main}{clauses.where}{order}", clauses.values
    )
    joined = " AND ".join(f"{part} = o.h{number}" for number, part in enumerate(handle))
    source = f"temp.{ORDER_TABLE} o LEFT JOIN {main} ON {joined}"
    return Order(
        _count(connection), source, single=main, position="o.rowid", columns=columns, handle=handle, top=top
    )


def _copy_rows(connection: Connection, main: str, columns: tuple[str, ...], clauses: Clauses) -> Order:
    """Copy the rows of a table without a key, which cannot be read again by key."""
    parts = ", ".join(f"{column} AS c{number}" for number, column in enumerate(columns))
    connection.execute(
        f"CREATE TEMP TABLE {ORDER_TABLE} AS SELECT {parts} FROM {main}{clauses.where}{clauses.order}",
        clauses.values,
    )
    copied = tuple(f"t.c{number}" for number in range(len(columns)))
    copy = f"temp.{ORDER_TABLE} t"
    return Order(
        _count(connection), copy, single=copy, position="t.rowid", columns=copied, handle=("t.rowid",)
    )


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


def count_added(connection: Connection, table: Table, order: Order, top: int) -> int:
    """Return how many rows of an order have a rowid above `top`."""
    if order.dense:
        sql = f"SELECT count(*) FROM main.{quoted(table.name)} t WHERE {order.handle[0]} > ?"
    else:
        sql = f"SELECT count(*) FROM temp.{ORDER_TABLE} WHERE h0 > ?"
    return int(scalar(connection, sql, top))


def _count(connection: Connection) -> int:
    return int(rows(connection, f"SELECT ifnull(max(rowid), 0) FROM temp.{ORDER_TABLE}")[0][0])
