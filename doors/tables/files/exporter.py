"""Export of tables to a file, as a generator of its pieces."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from doors.tables.files import csv_file
from doors.tables.files.copy_tables import Contents, Part, contents_of, copy
from doors.tables.files.format import Format
from doors.tables.files.json_file import text_json
from doors.tables.grid.view_sql import GridQuery, clauses
from doors.tables.schema.rows import row_name
from doors.tables.sqlite.catalog import find, read
from doors.tables.sqlite.errors import (
    Connection,
    Error,
    InterruptError,
    TablesError,
    atomic,
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
_ERROR_PREFIX = "cannot export the tables"


def save(
    connection: Connection,
    stopped: Callable[[], bool],
    format: Format,
    tables: Sequence[str] = (),
    view: GridQuery | None = None,
) -> Iterator[bytes]:
    """Yield the pieces of a file with a snapshot of tables. Raises `TablesError`.

    `csv`, `json` and `jsonl` take one table or view, or the rows of a `view` in its order, which is a stable
    sort; `sql` and `db` take any number, and all if `tables` is empty. Memory use is constant. The connection
    may be read-only and must not be in a transaction. Its statements are interrupted once `stopped` returns
    true.
    """
    with _snapshot(connection, stopped):
        if format == "sql":
            yield from _joined(_dump(connection, contents_of(connection, tables)))
        elif format == "db":
            yield from _database(connection, tables)
        elif view is not None or len(tables) == 1:
            yield from _joined(_rows_text(connection, format, view or GridQuery(table=tables[0])))
        else:
            raise TablesError(
                f"a {format} file holds one table, not {len(tables) or 'all'}",
                "Name one, or choose sql or db for several.",
            )


def _joined(texts: Iterable[str]) -> Iterator[bytes]:
    """Yield texts in pieces of at least 64 KiB."""
    parts: list[str] = []
    size = 0
    for text in texts:
        parts.append(text)
        size += len(text)
        if size >= _BLOCK:
            yield "".join(parts).encode()
            parts, size = [], 0
    yield "".join(parts).encode()


@contextmanager
def _snapshot(connection: Connection, stopped: Callable[[], bool]) -> Iterator[None]:
    """Read from one snapshot of the database, without blocking writers."""
    try:
        with atomic(connection, "begin"), StatementLimit(connection, math.inf, stopped=stopped):
            yield
    except UnicodeDecodeError:
        raise TablesError(
            f"{_ERROR_PREFIX}: there is a text that is not UTF-8",
            "Find it: WHERE typeof(c) = 'text' AND length(CAST(c AS blob)) > length(c); make it a blob.",
        ) from None
    except Error as error:
        raise wrap_error(error, _ERROR_PREFIX) from error


def _rows_text(connection: Connection, format: Format, view: GridQuery) -> Iterator[str]:
    table = find(read(connection), view.table)
    columns = table.stored
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
    yield {"csv": csv_file.format_header([column.name for column in columns]), "json": "["}.get(format, "")
    separator = ""
    for row in read_rows(sql, view_clauses.values):
        if format == "csv":
            yield csv_file.format_row([text_cell(*each) for each in zip(row, types, strict=True)])
            continue
        cells = (key + json_cell(value, type) for key, value, type in zip(keys, row, types, strict=True))
        object = "{" + ",".join(cells) + "}"
        yield f"{object}\n" if format == "jsonl" else f"{separator}\n{object}"
        separator = ","
    yield "\n]\n" if format == "json" else ""


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


def _dump(connection: Connection, contents: Contents) -> Iterator[str]:
    yield _HEAD
    for part in contents.internal:
        yield part.sql.replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1) + ";\n"
        yield from _dump_rows(connection, part, "INSERT OR REPLACE")
    for parts in (contents.tables, contents.virtual):
        for part in parts:
            yield f"{part.sql};\n"
            yield from _dump_rows(connection, part, "INSERT", number=parts is contents.virtual)
            for sql in part.after_rows():
                yield f"{sql};\n"
    for sql in contents.dependents:
        yield f"{sql};\n"
    yield _TAIL


def _dump_rows(connection: Connection, part: Part, verb: str, *, number: bool = False) -> Iterator[str]:
    head = f"{verb} INTO {quoted(part.name)} ({part.names(number=number)}) VALUES ("
    for row in connection.execute(part.select(number=number)):
        yield f"{head}{', '.join(map(literal, row))});\n"


def _database(connection: Connection, tables: Sequence[str]) -> Iterator[bytes]:
    """Yield a database file, built as a temporary file. The same tables give the same bytes."""
    with temporary_folder("svc-export-") as folder:
        path = folder / "tables.db"
        with closing(open_file(path, create=True)) as target, transaction(target, _ERROR_PREFIX):
            for _ in copy(connection, target, contents_of(connection, tables), _ERROR_PREFIX):
                pass
        with path.open("rb") as file:
            yield from iter(partial(file.read, _BLOCK), b"")
