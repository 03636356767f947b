"""Identity of rows, checks for rows that prevent a schema change, and messages that name them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from doors.tables.sqlite.catalog import Table
from doors.tables.sqlite.errors import Connection, TablesError, Value, fold, quoted, rows
from doors.tables.types.registry import TypeName, convert, excerpt

ROW_NAMES = ("rowid", "oid", "_rowid_")
"""SQLite's names of the rowid."""


def row_name(table: Table) -> str | None:
    """Return the SQL name of the rowid; None without a rowid, or if columns have all its names."""
    column_names = {fold(column.name) for column in table.columns}
    if table.without_rowid:
        return None
    return next((name for name in ROW_NAMES if name not in column_names), None)


def identifying_columns(table: Table) -> tuple[str, ...]:
    """Return the columns that identify a row in messages: the primary key, or the rowid."""
    return table.key or tuple(filter(None, (row_name(table),)))


def describe_row(table: Table, values: Sequence[Value]) -> str:
    """Return a description of a row by the values of its identifying columns."""
    if not identifying_columns(table):
        return "a row"
    pairs = zip(identifying_columns(table), values, strict=False)
    return "the row with " + ", ".join(f"{name} = {excerpt(value)}" for name, value in pairs)


def converter(table: Table, column: str, old: TypeName, new: TypeName) -> Callable[..., Value]:
    """Return the SQL function (value, identifying values...) that converts values to another type.

    The function raises `TablesError` for a value that cannot be converted.
    """

    def converted(value: Value, *key: Value) -> Value:
        try:
            return convert(value, old, new)
        except ValueError as error:
            raise TablesError(
                f"column {column} of table {table.name} cannot become {new}:"
                f" in {describe_row(table, key)} the value {excerpt(value)} {error}",
                "Change that value or set it to null and try again; or choose text.",
            ) from None

    return converted


def refuse_missing(connection: Connection, table: Table, column: str) -> None:
    """Raise `TablesError` if a row has no value in a column."""
    condition = f"FROM {quoted(table.name)} WHERE {quoted(column)} IS NULL"
    missing = rows(connection, f"SELECT {_names(identifying_columns(table))} {condition} LIMIT 1")
    if missing:
        raise TablesError(
            f"column {column} of table {table.name} has no value in {describe_row(table, missing[0])}",
            f"Give every row one first: UPDATE {quoted(table.name)} SET {quoted(column)} = … "
            f"WHERE {quoted(column)} IS NULL",
        )


def refuse_duplicates(connection: Connection, table: Table, columns: Sequence[str]) -> None:
    """Raise `TablesError` if rows have the same values in columns."""
    names = _names(columns)
    condition = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in columns)
    duplicates = rows(
        connection,
        f"SELECT count(*), {names} FROM {quoted(table.name)} WHERE {condition} GROUP BY {names}"
        " HAVING count(*) > 1 LIMIT 1",
    )
    if duplicates:
        count, *values = duplicates[0]
        pairs = ", ".join(f"{name} = {excerpt(value)}" for name, value in zip(columns, values, strict=True))
        raise TablesError(
            f"{', '.join(columns)} cannot be unique: {count} rows of table {table.name} have {pairs}",
            "Change or delete all but one of them first.",
        )


def _names(columns: Sequence[str]) -> str:
    return ", ".join(quoted(name) for name in columns) or "NULL"


@dataclass(frozen=True, slots=True)
class Identity:
    """The columns that identify the rows of a table.

    `key` has the columns by which rows can be changed. If it is empty, `reason` completes a sentence that
    begins with the table. `handle` finds a row within a grid: the SQL name of the rowid if `numbered`, else
    the key columns; empty without both.
    """

    key: tuple[str, ...]
    handle: tuple[str, ...]
    reason: str = ""
    numbered: bool = False


def identity(table: Table) -> Identity:
    """Return the columns that identify the rows of a table.

    The key is the primary key if all of its columns are NOT NULL. (SQLite allows NULL in the key of old
    tables: https://sqlite.org/quirks.html#primary_keys_can_sometimes_contain_nulls.) Otherwise it is the
    first unique column that is NOT NULL.
    """
    if table.kind == "view":
        return Identity((), (), "is a view: its rows belong to other tables")
    if table.kind == "virtual":
        return Identity((), (), "is a virtual table: its module stores its rows")
    unique = ((column.name,) for column in table.columns if column.unique and not column.nullable)
    nullable = any(table.column(name).nullable for name in table.key)
    key = table.key if table.key and not nullable else next(unique, ())
    reason = "has no primary key, so that nothing identifies its rows"
    if table.key:
        reason = "has a primary key that may be empty, so that it does not identify rows"
    number = row_name(table)
    return Identity(key, (number,) if number else key, "" if key else reason, number is not None)
