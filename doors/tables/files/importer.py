"""Atomic import of a file into tables, as a generator that yields the progress.

Rows of one table are read into a staging table first, without blocking writers. One short transaction then
moves them all.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace as changed
from functools import partial
from itertools import islice
from shutil import copyfileobj
from typing import Any, BinaryIO

from doors.tables.files import csv_file
from doors.tables.files.copy_tables import clear, contents_of, copy
from doors.tables.files.format import STEP, FileLines, FileProgress, Format, chunks
from doors.tables.files.json_file import minified, objects
from doors.tables.migrations import script
from doors.tables.schema import notes
from doors.tables.schema.change import CreateTable, check_name
from doors.tables.schema.references import unbroken
from doors.tables.sqlite.catalog import Column, Table, find, lookup, read
from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.errors import (
    Connection,
    ConstraintError,
    TablesError,
    Value,
    fold,
    limited_triggers,
    open_file,
    quoted,
    scalar,
    transaction,
    wrapped_errors,
)
from doors.tables.sqlite.tokens import statements
from doors.tables.types.grid_cell import exact_column, exact_from_json, from_csv
from doors.tables.types.infer import preview
from doors.tables.types.registry import TYPES, excerpt
from engine.files.statement_limit import StatementLimit
from engine.files.temporary import temporary_folder
from engine.stepwise_json import Verbatim

_STAGING = "temp._svc_import"
CHUNK_SECONDS = 60.0
"""Maximum time to insert a chunk of rows, with their triggers."""
_CHUNK = 10_000

Record = tuple[int, int, list[Value]]
"""The line of a row, the bytes read so far, and the values in the order of the columns."""


def load_rows(
    connection: Connection, source: BinaryIO, format: Format, table: Table, *, create: bool, replace: bool
) -> Iterator[FileProgress]:
    """Import a file into a table, which `create` creates and `replace` empties first; yield the progress."""
    error_prefix = f"nothing was imported into {table.name}"
    total = source.seek(0, 2)
    source.seek(0)
    columns = table.stored
    if format == "csv":
        lines = FileLines(source)
        names, cells = csv_file.read(lines)
        columns = tuple(_column(table, name, 1) for name in names)
        records = _from_csv(lines, cells, table, columns)
    else:
        records = _from_json(source, format, table, columns)
    with _staging_table(connection, len(columns), error_prefix):
        count, last = 0, 0
        insert = f"INSERT INTO {_STAGING} VALUES ({', '.join('?' * (len(columns) + 1))})"
        while chunk := list(islice(records, STEP)):
            connection.executemany(insert, ((line, *values) for line, _, values in chunk))
            count, last = count + len(chunk), chunk[-1][1]
            yield FileProgress(count, min(last, total), total, table.name)
        connection.execute("COMMIT")
        with transaction(connection, error_prefix):
            if create:
                CreateTable(table.name, table.columns, table.note).apply_to(connection)
            elif replace:
                connection.execute(f"DELETE FROM {quoted(table.name)}")
            for inserted in _insert_staged(connection, find(read(connection), table.name), columns, count):
                yield FileProgress(inserted, total, total, table.name)
    yield FileProgress(count, total, total, table.name)


def _column(table: Table, name: str, line: int) -> Column:
    for column in table.columns:
        if fold(column.name) == fold(name):
            if column.generated:
                raise TablesError(
                    f"line {line}: column {name} of table {table.name} is computed",
                    "Leave it out of the file.",
                )
            return column
    names = ", ".join(column.name for column in table.stored)
    raise TablesError(
        f"line {line}: table {table.name} has no column {name}",
        f"Available: {names}. Rename it in the file, or add the column first.",
    )


def _from_csv(
    lines: FileLines, records: Iterator[tuple[int, csv_file.Cells]], table: Table, columns: Sequence[Column]
) -> Iterator[Record]:
    readers = [from_csv(table, exact_column(table, column)) for column in columns]
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
        column.name: (index, exact_from_json(table, column)) for index, column in enumerate(columns)
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
        f"line {line}: in column {column.name}, which is {column.type}, {excerpt(value)} {error}",
        "Correct the file, or import into a column of another type, such as text.",
    )


@contextmanager
def _staging_table(connection: Connection, width: int, error_prefix: str) -> Iterator[None]:
    """Create a staging table in a temporary file of SQLite, without locking the database."""
    names = ", ".join(["line", *(f"c{index}" for index in range(width))])
    with wrapped_errors(error_prefix):
        connection.execute(f"CREATE TABLE {_STAGING} ({names})")
        try:
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
                for number in range(first, last + 1):
                    try:
                        connection.execute(f"{insert} = ?", (number,))
                    except ConstraintError as error:
                        line = scalar(connection, f"SELECT line FROM {_STAGING} WHERE rowid = ?", number)
                        hint = "Correct or remove the row; nothing was imported."
                        raise TablesError(f"line {line}: {error}", hint) from error
                raise
        yield last


def _or_default(name: str, column: Column) -> str:
    """Return the SQL of a value; a required column gets its default if the file has none."""
    if column.nullable or column.default is None:
        return name
    default = TYPES[column.type].now_sql if column.default == "now()" else column.default
    return f"coalesce({name}, {default})"


def load(
    connection: Connection,
    source: BinaryIO,
    format: Format,
    *,
    table: str = "",
    replace: bool = False,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[FileProgress]:
    """Import a seekable file into tables; yield the progress.

    `csv`, `json` and `jsonl` files are appended to one `table`; `replace` deletes its rows first. A missing
    table is created with the columns that `preview` infers. `sql` and `db` files contain tables, of which all
    or one `table` are imported; `replace` drops those of the same names. Statements are interrupted once
    `stopped` is true. If the generator raises `TablesError` or is closed early, nothing is imported.

    Other writers wait only for the final transaction. Memory use is constant. The connection is unrestricted,
    unlike those of guests, and not in a transaction.
    """
    if format in ("sql", "db"):
        copy_tables = _import_dump if format == "sql" else _import_database
        with StatementLimit(connection, math.inf, stopped=stopped):
            copied = partial(_copy_into, connection, [table] if table else [], replace)
            yield from copy_tables(source, copied, stopped)
        return
    if not table:
        raise TablesError(f"a {format} file does not name its table", "Name the table to import into.")
    if (existing := lookup(read(connection), table)) is None:
        check_name(table, "a table")
        target = Table(table, preview(source, format).columns)
        if not target.columns:
            raise TablesError("the file has no rows, so its columns are unknown", "Create the table first.")
    elif existing.kind != "table":
        raise TablesError(f"{existing.name} is not a table", "Import into a table.")
    else:
        target = existing
    create = existing is None
    with StatementLimit(connection, math.inf, stopped=stopped):
        yield from load_rows(connection, source, format, target, create=create, replace=replace)


def _import_dump(
    source: BinaryIO, copied: Callable[[Connection], Iterator[FileProgress]], stopped: Callable[[], bool]
) -> Iterator[FileProgress]:
    """Run a dump in a temporary database, then copy its tables."""
    total = source.seek(0, 2)
    source.seek(0)
    with (
        temporary_folder("svc-import-") as folder,
        closing(open_owner(folder / "x.db")) as staging,
        StatementLimit(staging, math.inf, stopped=stopped),
    ):
        staging.execute("pragma synchronous = off")
        with transaction(staging, "nothing was imported"):
            parsed = statements(chunks(source), script.MAX_STATEMENT_BYTES)
            for count in script.run_steps(staging, "", parsed, allow_internal=True):
                if count % STEP == 0:
                    yield FileProgress(count, source.tell(), total)
        yield from copied(staging)


def _import_database(
    source: BinaryIO, copied: Callable[[Connection], Iterator[FileProgress]], stopped: Callable[[], bool]
) -> Iterator[FileProgress]:
    """Read a database file from a private copy."""
    error_prefix = "nothing was imported"
    with temporary_folder("svc-import-") as folder:
        path = folder / "x.db"
        source.seek(0)
        with path.open("wb") as copy_file:
            copyfileobj(source, copy_file)
        with (
            wrapped_errors(error_prefix),
            closing(open_file(path)) as uploaded,
            StatementLimit(uploaded, math.inf, stopped=stopped),
        ):
            problem = scalar(uploaded, "pragma quick_check(3)")
            if problem != "ok":
                raise TablesError(
                    f"{error_prefix}: the file is damaged: {problem}",
                    "Use an intact copy; `sqlite3 FILE .recover` extracts the readable rows.",
                )
            yield from copied(uploaded)


def _copy_into(
    connection: Connection, names: Sequence[str], replace: bool, source: Connection
) -> Iterator[FileProgress]:
    error_prefix = "nothing was imported"
    contents = contents_of(source, names)
    if not (contents.tables or contents.virtual):
        raise TablesError(f"{error_prefix}: the file has no tables", "Check that it is the right file.")
    subject, hint = f"{error_prefix}: something would be broken", "Import the tables that it needs as well."
    with transaction(connection, error_prefix), unbroken(connection, subject, hint):
        clear(connection, contents, replace=replace)
        last = FileProgress(0)
        for last in copy(source, connection, contents, error_prefix):
            yield changed(last, skipped=())
        notes.delete_orphans(connection)
    yield last
