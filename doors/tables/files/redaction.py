"""Redaction of credentials in a copy of tables."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from doors.tables.sqlite.catalog import read
from doors.tables.sqlite.connections import apsw
from doors.tables.sqlite.errors import Connection, Error, open_file, quoted, wrap_error

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
        for column in table.columns
        if not column.generated
    ]


@contextmanager
def _opened(path: Path) -> Iterator[Connection]:
    try:
        with closing(open_file(path, create=True)) as connection:
            connection.execute("pragma foreign_keys = off")
            connection.execute("pragma ignore_check_constraints = on")
            connection.execute("pragma secure_delete = on")
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
            yield connection
            connection.execute("vacuum")
    except Error as error:
        raise wrap_error(error, "cannot redact the tables") from error
