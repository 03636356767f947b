"""Copying of tables between databases, row by row, for dumps and database files.

The source is untrusted: it is only read, and its schema runs as a script that can only create tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import islice

from doors.tables import migrations
from doors.tables.files.format import STEP, FileProgress
from doors.tables.migrations import script
from doors.tables.schema import notes
from doors.tables.schema.notes import INTERNAL_TABLES
from doors.tables.schema.references import broken_index, index_options, last_rowid
from doors.tables.schema.rows import row_name
from doors.tables.sqlite.catalog import NOTES, Table, find, read, reserved
from doors.tables.sqlite.connections import MAX_VALUE
from doors.tables.sqlite.errors import (
    Connection,
    TablesError,
    fold,
    literal,
    quoted,
    rows,
    scalar,
    wrap_error,
)
from doors.tables.sqlite.errors import Error as SqliteError
from doors.tables.sqlite.tokens import statements


@dataclass(frozen=True, slots=True)
class Part:
    """One table: its SQL, its writable columns, and the order of its rows.

    `number` is the SQL name of a rowid that is not a column. `last` is the highest rowid ever assigned, for
    AUTOINCREMENT. `refill` fills an index that has its rows from another table.
    """

    name: str
    sql: str
    _: KW_ONLY
    columns: tuple[str, ...]
    order: str
    rowid_name: str = ""
    last: int | None = None
    where: str = ""
    refill: str = ""

    def names(self, *, number: bool) -> str:
        """Return the columns as SQL; with `number`, the rowid first if there is one."""
        first = [self.rowid_name] if number and self.rowid_name else []
        return ", ".join([*first, *map(quoted, self.columns)])

    def select(self, *, number: bool) -> str:
        """Return the query that reads the rows."""
        return f"SELECT {self.names(number=number)} FROM {quoted(self.name)}{self.where}{self.order}"

    def after_rows(self) -> Iterator[str]:
        """Yield the statements that follow the rows."""
        if self.refill:
            yield self.refill
        if self.last is not None:
            yield f"DELETE FROM sqlite_sequence WHERE name = {literal(self.name)}"
            yield f"INSERT INTO sqlite_sequence VALUES ({literal(self.name)}, {self.last})"


@dataclass(frozen=True, slots=True)
class Contents:
    """The parts of tables in the order in which an import recreates them.

    They are tables of svc, tables, virtual tables, and the SQL that runs after all rows.
    """

    internal: tuple[Part, ...]
    tables: tuple[Part, ...]
    virtual: tuple[Part, ...]
    dependents: tuple[str, ...]
    skipped: tuple[str, ...]


def contents_of(connection: Connection, names: Sequence[str] = ()) -> Contents:
    """Return the parts of all tables, or of the named ones. Raises `TablesError` for unknown names."""
    catalog = read(connection)
    selected = [find(catalog, name) for name in names] or list(catalog.values())
    selected.sort(key=lambda table: table.name)
    folded_names = {fold(table.name) for table in selected}
    tables = tuple(_part(connection, table) for table in selected if table.kind == "table")
    virtual, skipped = _virtual(connection, {table.name: table for table in selected})
    internal = _internal_parts(connection, [table.name for table in selected] if names else None)
    others = rows(
        connection,
        "SELECT name, tbl_name, sql FROM sqlite_schema"
        " WHERE type IN ('index', 'view', 'trigger') AND sql IS NOT NULL"
        " ORDER BY CASE type WHEN 'index' THEN 0 WHEN 'view' THEN 1 ELSE 2 END, name",
    )
    dependents = (sql for name, of, sql in others if fold(of) in folded_names and not reserved(name))
    return Contents(internal, tables, virtual, tuple(dependents), skipped)


def _part(connection: Connection, table: Table) -> Part:
    number = row_name(table) or ""
    sql = "SELECT 1 FROM pragma_table_xinfo(?) WHERE name = ? AND upper(type) = 'INTEGER'"
    is_column = len(table.key) == 1 and scalar(connection, sql, table.name, table.key[0])
    order = number or ", ".join(map(quoted, table.key))
    columns = tuple(column.name for column in table.stored)
    return Part(
        table.name,
        _sql(connection, table.name),
        columns=columns,
        order=f" ORDER BY {order}" if order else "",
        rowid_name="" if is_column else number,
        last=last_rowid(connection, table),
    )


def _sql(connection: Connection, name: str) -> str:
    sql = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?"
    return str(scalar(connection, sql, name))


def _virtual(connection: Connection, tables: Mapping[str, Table]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """Return the virtual tables, and the names of those whose rows cannot be read.

    An index that reads a table outside of `tables` could not be imported, and is omitted.
    """
    parts, skipped = [], []
    for table in tables.values():
        if table.kind != "virtual":
            continue
        sql, name = _sql(connection, table.name), quoted(table.name)
        content = index_options(sql).get("content")
        columns = tuple(column.name for column in table.columns)
        if broken_index(tables, table.name, sql):
            skipped.append(table.name)
        elif content == "" or "fts5vocab" in sql.lower():
            skipped.append(table.name)
            parts.append(Part(table.name, sql, columns=columns, order="", where=" WHERE 0"))
        elif content:
            refill = f"INSERT INTO {name} ({name}) VALUES ('rebuild')"
            parts.append(Part(table.name, sql, columns=columns, order="", where=" WHERE 0", refill=refill))
        else:
            number = "rowid" if "fts" in sql.lower() else ""
            parts.append(Part(table.name, sql, columns=columns, order=" ORDER BY rowid", rowid_name=number))
    return tuple(parts), tuple(skipped)


def _internal_parts(connection: Connection, tables: Sequence[str] | None) -> tuple[Part, ...]:
    """Return svc's own tables: notes and the record of migrations; only the notes for some `tables`."""
    parts = []
    for name in INTERNAL_TABLES:
        if not scalar(connection, "SELECT 1 FROM sqlite_schema WHERE name = ?", name):
            continue
        infos = rows(connection, "SELECT name, pk FROM pragma_table_xinfo(?)", name)
        key = [info[0] for info in sorted(infos, key=lambda info: info[1]) if info[1]]
        where = "" if tables is None else f" WHERE table_name IN ({', '.join(map(literal, tables))})"
        if tables is None or name == NOTES:
            columns, order = tuple(info[0] for info in infos), f" ORDER BY {', '.join(key)}"
            parts.append(Part(name, _sql(connection, name), columns=columns, order=order, where=where))
    return tuple(parts)


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
        for sql in part.after_rows():
            target.execute(sql)
    for sql in contents.dependents:
        _create(target, sql)
    for part in contents.internal:
        if part.name != NOTES and migrations.applied(target):
            continue  # The target has a record of migrations.
        target.execute(notes.CREATE_NOTES if part.name == NOTES else migrations.TABLE)
        values = ", ".join("?" * len(part.columns))
        insert = f"INSERT OR REPLACE INTO {part.name} ({part.names(number=False)}) VALUES ({values})"
        target.executemany(insert, rows(source, part.select(number=False)))
    yield FileProgress(copied, skipped=contents.skipped)


def clear(target: Connection, contents: Contents, *, replace: bool) -> None:
    """Drop existing tables of the same names; without `replace`, raise `TablesError` for them."""
    existing = {fold(name): table for name, table in read(target).items()}
    for part in (*contents.tables, *contents.virtual):
        if (table := existing.get(fold(part.name))) is None:
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
