"""Response models of tables, columns, types and migrations."""

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from doors.tables.migrations import RECORD, applied
from doors.tables.sqlite.catalog import Column, Index, Kind, Table, find, read
from doors.tables.sqlite.errors import Connection, Error, quoted, rows, scalar
from doors.tables.types.parse import FALSE_WORDS, TRUE_WORDS
from doors.tables.types.registry import TYPES, Form, TypeName

COUNT_SECONDS = 2.0
"""Maximum time of counting rows. After it the number is unknown."""
_STEPS_PER_CHECK = 10_000


@dataclass(frozen=True, slots=True)
class TypeView:
    """One column type, for clients that parse and show its values.

    `form` is how values are stored and shown. Text of the form `format` matches `pattern`, as `example` does;
    `accepts_now` is true if a cell may be `now()`. Text of the form `bool` is one of the true and false
    words. Widths are in terminal cells: of a column without rows, and of any.
    """

    name: TypeName
    form: Form
    _: KW_ONLY
    pattern: str
    example: str
    accepts_now: bool
    true_words: list[str]
    false_words: list[str]
    width: int
    min_width: int


@dataclass(frozen=True, slots=True)
class TypeList:
    """The column types in display order."""

    types: list[TypeView]


@dataclass(frozen=True, slots=True)
class TableModel:
    """One table. `key` is the primary key in its order; `rows` is null where counting takes too long."""

    name: str
    kind: Kind
    _: KW_ONLY
    note: str
    key: list[str]
    rows: int | None
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class TableList:
    """The tables and views of a project, in the order of their names."""

    tables: list[TableModel]


@dataclass(frozen=True, slots=True)
class AppliedMigration:
    """One applied migration."""

    name: str
    sha256: str
    applied: str


@dataclass(frozen=True, slots=True)
class MigrationList:
    """The applied migrations, in the order of their names."""

    applied: list[AppliedMigration]


def list_types() -> TypeList:
    """Return all column types."""
    types = [
        TypeView(
            name=type.name,
            form=type.form,
            pattern=type.pattern,
            example=type.example,
            accepts_now=type.now is not None,
            true_words=list(TRUE_WORDS) if type.form == "bool" else [],
            false_words=list(FALSE_WORDS) if type.form == "bool" else [],
            width=type.width,
            min_width=type.min_width,
        )
        for type in TYPES.values()
    ]
    return TypeList(types)


def list_tables(connection: Connection) -> TableList:
    """Return all tables."""
    count = _counter(connection)
    return TableList([_view(table, count) for table in read(connection).values()])


def show_table(connection: Connection, name: str) -> TableModel:
    """Return one table. Raises `TablesError`."""
    return _view(find(read(connection), name), _counter(connection))


def list_migrations(connection: Connection) -> MigrationList:
    """Return the applied migrations."""
    if not applied(connection):
        return MigrationList([])
    applied_rows = rows(connection, f"SELECT name, sha256, applied FROM {RECORD} ORDER BY name")
    return MigrationList([AppliedMigration(*row) for row in applied_rows])


def _counter(connection: Connection) -> Callable[[Table], int | None]:
    """Return a function that counts the rows of a table, within one time limit for all calls."""
    end = time.monotonic() + COUNT_SECONDS

    def count(table: Table) -> int | None:
        connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS_PER_CHECK)
        try:
            return int(scalar(connection, f"SELECT count(*) FROM {quoted(table.name)}"))
        except Error:
            # The time limit was exceeded, or a view refers to a missing table.
            return None
        finally:
            connection.set_progress_handler(None)

    return count


def _view(table: Table, count: Callable[[Table], int | None]) -> TableModel:
    key, rows = list(table.key), count(table)
    return TableModel(
        table.name,
        table.kind,
        note=table.note,
        key=key,
        rows=rows,
        columns=table.columns,
        indexes=table.indexes,
    )
