"""Copying of tables between databases, row by row, for dumps and database files.

The source is untrusted: it is only read, and its schema runs as a script that can only create tables.
"""

from collections.abc import Iterator
from itertools import islice

from doors.tables import migrations
from doors.tables.files.dump_contents import Contents, Part
from doors.tables.files.format import STEP, FileProgress
from doors.tables.migrations import script
from doors.tables.schema import notes
from doors.tables.sqlite.catalog import NOTES, read
from doors.tables.sqlite.connections import MAX_VALUE
from doors.tables.sqlite.errors import Connection, TablesError, fold, quoted, rows, wrap_error
from doors.tables.sqlite.errors import Error as SqliteError
from doors.tables.sqlite.tokens import statements


def copy(
    source: Connection, target: Connection, contents: Contents, error_prefix: str
) -> Iterator[FileProgress]:
    """Copy tables to the target in the caller's transaction; yield the progress."""
    copied = 0
    for part in (*contents.tables, *contents.virtual):
        _create(target, part.sql)
        for count in _copy_rows(source, target, part, f"{error_prefix}: table {part.name}"):
            copied += count
            yield FileProgress(copied, table=part.name)
        if part.refill:
            target.execute(part.refill)
        if part.last is not None:
            target.execute("DELETE FROM sqlite_sequence WHERE name = ?", (part.name,))
            target.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (part.name, part.last))
    for sql in contents.dependents:
        _create(target, sql)
    for part in contents.internal:
        _copy_internal(source, target, part)
    yield FileProgress(copied, skipped=contents.skipped)


def clear(target: Connection, contents: Contents, *, replace: bool) -> None:
    """Drop existing tables of the same names; without `replace`, raise `TablesError` for them."""
    existing = {fold(name): table for name, table in read(target).items()}
    for part in (*contents.tables, *contents.virtual):
        table = existing.get(fold(part.name))
        if table is None:
            continue
        if not replace:
            raise TablesError(
                f"{table.kind} {table.name} already exists",
                "Import with replace, or rename or drop it first.",
                code="conflict",
            )
        target.execute(f"DROP {'VIEW' if table.kind == 'view' else 'TABLE'} {quoted(table.name)}")


def _create(target: Connection, sql: str) -> None:
    script.run(target, "the file's schema", statements([sql], script.MAX_STATEMENT_BYTES))


def _copy_rows(source: Connection, target: Connection, part: Part, error_prefix: str) -> Iterator[int]:
    names = part.names(number=True)
    count = len(part.columns) + (1 if part.rowid_name else 0)
    insert = f"INSERT INTO {quoted(part.name)} ({names}) VALUES ({', '.join('?' * count)})"
    try:
        cursor = source.execute(part.select(number=True))
        while chunk := list(islice(cursor, STEP)):
            for row in chunk:
                for value in row:
                    if isinstance(value, str | bytes) and len(value) > MAX_VALUE:
                        raise TablesError(
                            f"{error_prefix} has a value of {len(value)} characters or bytes",
                            f"Values may have {MAX_VALUE >> 20} MiB at most.",
                        )
            target.executemany(insert, chunk)
            yield len(chunk)
    except UnicodeDecodeError:
        raise TablesError(
            f"{error_prefix} has a text that is not UTF-8",
            "Make it a blob in the file: UPDATE … SET c = CAST(c AS blob).",
        ) from None
    except SqliteError as error:
        raise wrap_error(error, error_prefix) from error


def _copy_internal(source: Connection, target: Connection, part: Part) -> None:
    """Copy notes, and the record of migrations if the target lacks it."""
    if part.name != NOTES and migrations.applied(target):
        return
    target.execute(notes.CREATE_NOTES if part.name == NOTES else migrations.TABLE)
    names = part.names(number=False)
    insert = f"INSERT OR REPLACE INTO {part.name} ({names}) VALUES ({', '.join('?' * len(part.columns))})"
    target.executemany(insert, rows(source, part.select(number=False)))
