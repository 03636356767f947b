"""Atomic import of a file into tables, as a generator that yields the progress."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace as changed
from typing import BinaryIO

from doors.tables.files import rows as table_rows
from doors.tables.files.copy_tables import clear, contents_of, copy
from doors.tables.files.format import STEP, FileProgress, Format, chunks
from doors.tables.migrations import script
from doors.tables.schema import notes
from doors.tables.schema.apply import check_name
from doors.tables.schema.references import unbroken
from doors.tables.sqlite.catalog import Column, Table, read
from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.errors import (
    Connection,
    Error,
    TablesError,
    fold,
    open_file,
    rows,
    transaction,
    wrap_error,
)
from doors.tables.sqlite.tokens import statements
from doors.tables.types.infer import preview
from engine.files.statement_limit import StatementLimit
from engine.files.temporary import temporary_folder

_BLOCK = 1 << 20


def load(
    connection: Connection,
    source: BinaryIO,
    format: Format,
    *,
    table: str = "",
    columns: Sequence[Column] = (),
    replace: bool = False,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[FileProgress]:
    """Import a seekable file into tables; yield the progress.

    `csv`, `json` and `jsonl` files are appended to one `table`; `replace` deletes its rows first. A missing
    table is created from `columns`, or from the columns that `preview` infers. `sql` and `db` files contain
    their tables; `replace` drops those of the same names. Statements are interrupted once `stopped` is true.

    The import is atomic: if the generator raises `TablesError` or is closed early, nothing is imported.
    Other writers wait only for the final transaction. Memory use is constant. The connection is unrestricted,
    unlike those of guests, and not in a transaction.
    """
    if format in ("sql", "db"):
        if table or columns:
            raise TablesError(f"a {format} file defines its own tables", "Omit the name of the table.")
        copy_tables = _import_dump if format == "sql" else _import_database
        with StatementLimit(connection, math.inf, stopped=stopped):
            yield from copy_tables(connection, source, replace, stopped)
        return
    if not table:
        raise TablesError(f"a {format} file does not name its table", "Name the table to import into.")
    existing = {fold(name): each for name, each in read(connection).items()}.get(fold(table))
    if existing is None:
        check_name(table, "a table")
        new_columns = tuple(columns) or preview(source, format).columns
        if not new_columns:
            raise TablesError("the file has no rows, so its columns are unknown", "Create the table first.")
        target = Table(table, new_columns)
    elif columns:
        raise TablesError(f"table {existing.name} already exists", "Leave its columns out.", code="conflict")
    elif existing.kind != "table":
        raise TablesError(f"{existing.name} is not a table", "Import into a table.")
    else:
        target = existing
    create = existing is None
    with StatementLimit(connection, math.inf, stopped=stopped):
        yield from table_rows.load(connection, source, format, target, create=create, replace=replace)


def _import_dump(
    connection: Connection, source: BinaryIO, replace: bool, stopped: Callable[[], bool]
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
        yield from _copy_into(connection, staging, replace)


def _import_database(
    connection: Connection, source: BinaryIO, replace: bool, stopped: Callable[[], bool]
) -> Iterator[FileProgress]:
    """Read a database file from a private copy."""
    error_prefix = "nothing was imported"
    with temporary_folder("svc-import-") as folder:
        path = folder / "x.db"
        source.seek(0)
        with path.open("wb") as copy_file:
            while block := source.read(_BLOCK):
                copy_file.write(block)
        try:
            with closing(open_file(path)) as uploaded, StatementLimit(uploaded, math.inf, stopped=stopped):
                if problems := rows(uploaded, "pragma quick_check(3)"):
                    texts = [row[0] for row in problems if row[0] != "ok"]
                    if texts:
                        raise TablesError(
                            f"{error_prefix}: the file is damaged: {texts[0]}",
                            "Use an intact copy; `sqlite3 FILE .recover` extracts the readable rows.",
                        )
                yield from _copy_into(connection, uploaded, replace)
        except Error as error:
            raise wrap_error(error, error_prefix) from error


def _copy_into(connection: Connection, source: Connection, replace: bool) -> Iterator[FileProgress]:
    error_prefix = "nothing was imported"
    contents = contents_of(source)
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
