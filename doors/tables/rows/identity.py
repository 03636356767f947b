"""Identity of rows: the columns that identify a row, and the handle that finds it in the database."""

from dataclasses import dataclass

from doors.tables.schema.rows import row_name
from doors.tables.sqlite.catalog import Table


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
    number = row_name(table)
    key, reason = _key(table)
    return Identity(key, (number,) if number else key, reason, number is not None)


def _key(table: Table) -> tuple[tuple[str, ...], str]:
    if table.key and not any(table.column(name).nullable for name in table.key):
        return table.key, ""
    for column in table.columns:
        if column.unique and not column.nullable:
            return (column.name,), ""
    if table.key:
        return (), "has a primary key that may be empty, so that it does not identify rows"
    return (), "has no primary key, so that nothing identifies its rows"
