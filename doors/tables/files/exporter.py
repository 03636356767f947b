"""Export of tables to a file, as a generator that yields the progress."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO

from doors.tables.files import csv_file
from doors.tables.files.copy_tables import Contents, Part, contents_of, copy
from doors.tables.files.format import STEP, FileProgress, Format, RowsFormat
from doors.tables.files.json_file import text_json
from doors.tables.grid.view_sql import GridQuery, clauses
from doors.tables.schema.rows import row_name
from doors.tables.sqlite.catalog import find, read
from doors.tables.sqlite.errors import (
    Connection,
    Error,
    InterruptError,
    TablesError,
    literal,
    open_file,
    quoted,
    transaction,
    wrap_error,
)
from doors.tables.types.grid_cell import json_cell, text_cell
from engine.files.statement_limit import StatementLimit
from engine.files.statement_memory import StatementMemory
from engine.files.temporary import temporary_folder

ROW_SECONDS = 60.0
"""Maximum time to compute a row of a view."""
MAX_ROW_BYTES = 128 << 20
"""Maximum memory that a row of a view takes to compute."""
_HEAD = "-- Tables of a svc project, as SQL.\nPRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n"
_TAIL = "COMMIT;\n"
_BLOCK = 1 << 16


def save(
    connection: Connection,
    output: BinaryIO,
    format: Format,
    tables: Sequence[str] = (),
    *,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[FileProgress]:
    """Write a snapshot of tables to a file; yield the progress.

    `csv`, `json` and `jsonl` take one table or view; `sql` and `db` take any number, and all if `tables` is
    empty. Memory use is constant. The connection may be read-only and must not be in a transaction. Its
    statements are interrupted once `stopped` returns true. Raises `TablesError`, and the errors of `output`.
    """
    error_prefix = "cannot export the tables"
    with _snapshot(connection, error_prefix, stopped):
        if format in ("sql", "db"):
            write = _save_dump if format == "sql" else _save_database
            yield from write(connection, output, tables)
        elif len(tables) == 1:
            yield from _save_rows(connection, output, format, GridQuery(table=tables[0]))
        else:
            raise TablesError(
                f"a {format} file holds one table, not {len(tables) or 'all'}",
                "Name one, or choose sql or db for several.",
            )


def save_view(
    connection: Connection,
    output: BinaryIO,
    format: RowsFormat,
    view: GridQuery,
    stopped: Callable[[], bool],
) -> Iterator[FileProgress]:
    """Export the rows of a view in its order, which is a stable sort."""
    with _snapshot(connection, "cannot export the table", stopped):
        yield from _save_rows(connection, output, format, view)


@contextmanager
def _snapshot(connection: Connection, error_prefix: str, stopped: Callable[[], bool]) -> Iterator[None]:
    """Read from one snapshot of the database, without blocking writers."""
    if connection.in_transaction:
        raise ValueError("the connection is in a transaction already")
    try:
        connection.execute("BEGIN")
        try:
            with StatementLimit(connection, math.inf, stopped=stopped):
                yield
        finally:
            connection.execute("ROLLBACK")
    except UnicodeDecodeError:
        raise TablesError(
            f"{error_prefix}: there is a text that is not UTF-8",
            "Find it: WHERE typeof(c) = 'text' AND length(CAST(c AS blob)) > length(c); make it a blob.",
        ) from None
    except Error as error:
        raise wrap_error(error, error_prefix) from error


def _save_rows(
    connection: Connection, output: BinaryIO, format: Format, view: GridQuery
) -> Iterator[FileProgress]:
    table = find(read(connection), view.table)
    columns = [column for column in table.columns if not column.generated]
    if not columns:
        raise TablesError(
            f"{table.kind} {table.name} has no columns to export",
            "Check that the tables it reads from exist.",
        )
    names = ", ".join(quoted(column.name) for column in columns)
    view_clauses = clauses(table, view)
    tie_breaker = (row_name(table) if table.kind == "table" else "") or ", ".join(map(quoted, table.key))
    order = view_clauses.order
    if tie_breaker:
        order += f", {tie_breaker}" if order else f" ORDER BY {tie_breaker}"
    sql = f"SELECT {names} FROM {quoted(table.name)} AS t{view_clauses.where}{order}"
    read_rows = connection.execute if table.kind == "table" else partial(_rows_of_view, connection)
    types = [column.type for column in columns]
    keys = [f"{text_json(column.name)}:" for column in columns]
    header = csv_file.format_header([column.name for column in columns])
    size = output.write({"csv": header, "json": "["}.get(format, "").encode())
    count = 0
    lines: list[str] = []
    for row in read_rows(sql, view_clauses.values):
        if format == "csv":
            lines.append(
                csv_file.format_row([text_cell(value, type) for value, type in zip(row, types, strict=True)])
            )
        else:
            cells = (key + json_cell(value, type) for key, value, type in zip(keys, row, types, strict=True))
            object = "{" + ",".join(cells) + "}"
            lines.append(f"{object}\n" if format == "jsonl" else f"{',' if count else ''}\n{object}")
        count += 1
        if len(lines) >= STEP:
            size += output.write("".join(lines).encode())
            lines.clear()
            yield FileProgress(count, size, table=table.name)
    size += output.write("".join(lines).encode())
    size += output.write(b"\n]\n" if format == "json" else b"")
    yield FileProgress(count, size, table=table.name)


def _rows_of_view(connection: Connection, sql: str, values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield rows, each with limits on its time and memory: a view may compute anything."""
    memory = StatementMemory(connection, MAX_ROW_BYTES)
    limits = StatementLimit(connection, ROW_SECONDS, memory=memory)
    try:
        with limits, memory:
            cursor = connection.execute(sql, values)
            row = next(cursor, None)
        while row is not None:
            yield row
            with limits, memory:
                row = next(cursor, None)
    except InterruptError as error:
        if memory.oversized:
            message = f"a row of the view takes more than {MAX_ROW_BYTES >> 20} MiB of memory"
            raise TablesError(message, "Collect fewer values in the view.", code="too-large") from error
        message = f"a row of the view takes longer than {ROW_SECONDS:.0f} s"
        raise TablesError(message, "Add an index for the view.", code="timeout") from error


def _save_dump(connection: Connection, output: BinaryIO, tables: Sequence[str]) -> Iterator[FileProgress]:
    contents = contents_of(connection, tables)
    size = count = 0
    for table, sql, rows in _dump(connection, contents):
        size += output.write(sql.encode())
        count += rows
        if rows and count % STEP == 0:
            yield FileProgress(count, size, table=table)
    yield FileProgress(count, size, skipped=contents.skipped)


def _dump(connection: Connection, contents: Contents) -> Iterator[tuple[str, str, int]]:
    """Yield the dump in pieces: the name of the table, the SQL, and its number of rows."""
    yield "", _HEAD, 0
    for part in contents.internal:
        create_sql = part.sql.replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1)
        yield part.name, f"{create_sql};\n", 0
        yield from _dump_rows(connection, part, "INSERT OR REPLACE")
    for part in contents.tables:
        yield part.name, f"{part.sql};\n", 0
        yield from _dump_rows(connection, part, "INSERT")
        if part.last is not None:
            name = literal(part.name)
            yield part.name, f"DELETE FROM sqlite_sequence WHERE name = {name};\n", 0
            yield part.name, f"INSERT INTO sqlite_sequence VALUES ({name}, {part.last});\n", 0
    for part in contents.virtual:
        yield part.name, f"{part.sql};\n", 0
        yield from _dump_rows(connection, part, "INSERT", number=True)
        if part.refill:
            yield part.name, f"{part.refill};\n", 0
    for sql in contents.dependents:
        yield "", f"{sql};\n", 0
    yield "", _TAIL, 0


def _dump_rows(
    connection: Connection, part: Part, verb: str, *, number: bool = False
) -> Iterator[tuple[str, str, int]]:
    head = f"{verb} INTO {quoted(part.name)} ({part.names(number=number)}) VALUES ("
    for row in connection.execute(part.select(number=number)):
        yield part.name, f"{head}{', '.join(map(literal, row))});\n", 1


def _save_database(connection: Connection, output: BinaryIO, tables: Sequence[str]) -> Iterator[FileProgress]:
    """Write a database file, built as a temporary file. The same tables give the same bytes."""
    contents = contents_of(connection, tables)
    error_prefix = "cannot export the tables"
    with temporary_folder("svc-export-") as folder:
        path = folder / "tables.db"
        target = open_file(path, create=True)
        last = FileProgress(0)
        try:
            with transaction(target, error_prefix):
                for last in copy(connection, target, contents, error_prefix):
                    yield last
        finally:
            target.close()
        size = 0
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                size += output.write(block)
    yield FileProgress(last.rows, size, skipped=contents.skipped)
