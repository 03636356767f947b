"""Which row is which: the columns that name a row to people, and what finds it again in the file."""

from dataclasses import dataclass

from doors.tables.schema.rows import row_name
from doors.tables.sqlite.catalog import Table


@dataclass(frozen=True, slots=True)
class Identity:
    """The columns that identify the rows of a table.

    `key` are the columns by which a row may be changed; where there are none, `reason` says why, as the end
    of a sentence that begins with the table. `handle` is what finds a row within one grid: the name of the
    row's number, where it is `numbered`, or the columns of the key; it is empty where rows have neither.
    """

    key: tuple[str, ...]
    handle: tuple[str, ...]
    reason: str = ""
    numbered: bool = False


def identity(table: Table) -> Identity:
    """Return the columns that identify the rows of a table.

    The key is the primary key where none of its columns may be empty (SQLite allows null in those of old
    tables: https://sqlite.org/quirks.html#primary_keys_can_sometimes_contain_nulls), or else the first
    column that is unique and never empty.
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
