"""Import of the rows of a file into one table.

Rows are read into a staging table first, without blocking writers. One short transaction then moves them all.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO

from doors.tables.files import csv_file
from doors.tables.files.format import STEP, FileLines, FileProgress, Format
from doors.tables.files.json_file import minified, objects
from doors.tables.schema.apply import create_table
from doors.tables.schema.change import CreateTable
from doors.tables.sqlite.catalog import Column, Table, find, read
from doors.tables.sqlite.errors import (
    Connection,
    ConstraintError,
    Error,
    TablesError,
    Value,
    fold,
    limited_triggers,
    quoted,
    rows,
    transaction,
    wrap_error,
)
from doors.tables.types.convert import preview
from doors.tables.types.registry import TYPES
from doors.tables.types.text import from_csv, from_json
from engine.stepwise_json import Verbatim

_STAGING = "temp._svc_import"
CHUNK_SECONDS = 60.0
"""Maximum time to insert a chunk of rows, with their triggers."""
_CHUNK = 10_000

Record = tuple[int, int, list[Value]]
"""The line of a row, the bytes read so far, and the values in the order of the columns."""


def load(
    connection: Connection, source: BinaryIO, format: Format, table: Table, *, create: bool, replace: bool
) -> Iterator[FileProgress]:
    """Import a file into a table, which `create` creates and `replace` empties first; yield the progress."""
    error_prefix = f"nothing was imported into {table.name}"
    total = _size(source)
    columns, records = _records(source, format, table)
    with _staging_table(connection, len(columns), error_prefix):
        count, last = 0, 0
        insert = f"INSERT INTO {_STAGING} VALUES ({', '.join('?' * (len(columns) + 1))})"
        while chunk := list(islice(records, STEP)):
            with _wrap_errors(error_prefix):
                connection.executemany(insert, ((line, *values) for line, _, values in chunk))
            count, last = count + len(chunk), chunk[-1][1]
            yield FileProgress(count, min(last, total), total, table.name)
        connection.execute("COMMIT")
        with transaction(connection, error_prefix):
            if create:
                create_table(connection, CreateTable(table.name, table.columns, table.note))
            elif replace:
                connection.execute(f"DELETE FROM {quoted(table.name)}")
            for inserted in _insert_staged(connection, find(read(connection), table.name), columns, count):
                yield FileProgress(inserted, total, total, table.name)
    yield FileProgress(count, total, total, table.name)


def writable(table: Table) -> list[Column]:
    """Return the columns that can be written. Files have these columns."""
    return [column for column in table.columns if not column.generated]


def _size(source: BinaryIO) -> int:
    size = source.seek(0, 2)
    source.seek(0)
    return size


def _records(source: BinaryIO, format: Format, table: Table) -> tuple[list[Column], Iterator[Record]]:
    if format == "csv":
        lines = FileLines(source)
        names, cells = csv_file.read(lines)
        columns = [_column(table, name, 1) for name in names]
        return columns, _from_csv(lines, cells, table, columns)
    columns = writable(table)
    return columns, _from_json(source, format, table, columns)


def _column(table: Table, name: str, line: int) -> Column:
    for column in table.columns:
        if fold(column.name) == fold(name):
            if column.generated:
                raise TablesError(
                    f"line {line}: column {name} of table {table.name} is computed",
                    "Leave it out of the file.",
                )
            return column
    names = ", ".join(column.name for column in writable(table))
    raise TablesError(
        f"line {line}: table {table.name} has no column {name}",
        f"Available: {names}. Rename it in the file, or add the column first.",
    )


def _from_csv(
    lines: FileLines, records: Iterator[tuple[int, csv_file.Cells]], table: Table, columns: Sequence[Column]
) -> Iterator[Record]:
    readers = [from_csv(table, column) for column in columns]
    for line, cells in records:
        values: list[Value] = []
        for index, cell in enumerate(cells):
            try:
                values.append(None if cell is None else readers[index](cell))
            except ValueError as error:
                raise _conversion_error(line, columns[index], cell, error) from None
        yield line, lines.bytes, values


def _from_json(source: BinaryIO, format: Any, table: Table, columns: Sequence[Column]) -> Iterator[Record]:
    by_name: dict[str, tuple[int, Callable[[Any, str], Value]]] = {
        column.name: (index, from_json(table, column)) for index, column in enumerate(columns)
    }
    by_fold = {fold(name): target for name, target in by_name.items()}
    for line, read_bytes, fields in objects(source, format):
        values: list[Value] = [None] * len(columns)
        for name, value, source_text in fields:
            target = by_name.get(name) or by_fold.get(fold(name))
            if target is None:
                _column(table, name, line)
                raise AssertionError(name)
            index, reader = target
            try:
                values[index] = reader(value, source_text)
            except ValueError as error:
                shown = value if isinstance(value, str) else Verbatim(minified(source_text))
                raise _conversion_error(line, columns[index], shown, error) from None
        yield line, read_bytes, values


def _conversion_error(
    line: int, column: Column, value: str | Verbatim | None, error: ValueError
) -> TablesError:
    return TablesError(
        f"line {line}: in column {column.name}, which is {column.type}, {preview(value)} {error}",
        "Correct the file, or import into a column of another type, such as text.",
    )


@contextmanager
def _wrap_errors(error_prefix: str) -> Iterator[None]:
    try:
        yield
    except Error as error:
        raise wrap_error(error, error_prefix) from error


@contextmanager
def _staging_table(connection: Connection, width: int, error_prefix: str) -> Iterator[None]:
    """Create a staging table in a temporary file of SQLite, without locking the database."""
    if connection.in_transaction:
        raise ValueError("the connection is in a transaction already")
    names = ", ".join(["line", *(f"c{index}" for index in range(width))])
    with _wrap_errors(error_prefix):
        connection.execute(f"CREATE TABLE {_STAGING} ({names})")
    try:
        with _wrap_errors(error_prefix):
            connection.execute("BEGIN")
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute(f"DROP TABLE {_STAGING}")


def _insert_staged(
    connection: Connection, table: Table, columns: Sequence[Column], count: int
) -> Iterator[int]:
    """Insert the staged rows in chunks; yield the number of inserted rows after each."""
    names = ", ".join(quoted(column.name) for column in columns)
    values = ", ".join(
        _or_default(f"c{index}", table.column(column.name)) for index, column in enumerate(columns)
    )
    insert = f"INSERT INTO {quoted(table.name)} ({names}) SELECT {values} FROM {_STAGING} WHERE rowid"
    for first in range(1, count + 1, _CHUNK):
        last = min(first + _CHUNK - 1, count)
        timeout = f"{_CHUNK:,} rows took longer than {CHUNK_SECONDS:.0f} s"
        hint = "Check that the triggers of the table terminate."
        with (
            limited_triggers(connection, CHUNK_SECONDS, "nothing was imported", timeout, hint) as memory,
            memory,
        ):
            try:
                connection.execute(f"{insert} BETWEEN ? AND ? ORDER BY rowid", (first, last))
            except ConstraintError:
                _raise_first_violation(connection, insert, first, last)
                raise
        yield last


def _or_default(name: str, column: Column) -> str:
    """Return the SQL of a value; a required column gets its default if the file has none."""
    if column.nullable or column.default is None:
        return name
    default = TYPES[column.type].now_sql if column.default == "now()" else column.default
    return f"coalesce({name}, {default})"


def _raise_first_violation(connection: Connection, insert: str, first: int, last: int) -> None:
    """Insert rows one by one; raise `TablesError` with the line of the first that violates a constraint."""
    for number in range(first, last + 1):
        try:
            connection.execute(f"{insert} = ?", (number,))
        except ConstraintError as error:
            line = rows(connection, f"SELECT line FROM {_STAGING} WHERE rowid = ?", number)[0][0]
            raise TablesError(
                f"line {line}: {error}", "Correct or remove the row; nothing was imported."
            ) from error
