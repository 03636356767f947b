"""The catalog: tables, columns and indexes, read from SQLite's own schema.

A column type is recognized by the column's check or, without one, by its declared type. So any SQL and any
SQLite tool can create and change tables. Only notes are stored in a table of their own.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from doors.tables.sqlite.errors import Connection, SqlError, TablesError, fold, quoted, rows, scalar
from doors.tables.sqlite.tokens import ColumnText, parse, tokens
from doors.tables.types.registry import TYPES, TypeName, declared_type

Kind = Literal["table", "view", "virtual"]

NOTES = "_svc_notes"
ANSWERS = "_svc_answers"
"""Table of the answers to writes with an idempotency key."""
RESERVED = ("sqlite_", "_svc")
"""Prefixes that table names of a project cannot have, in any case."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `default` is an SQL expression, or `now()` for the time at which a row is written.

    `primary_key` is true for each column of the key. `generated` columns are computed and never written.
    """

    name: str
    type: TypeName
    _: KW_ONLY
    nullable: bool = True
    default: str | None = None
    primary_key: bool = False
    unique: bool = False
    note: str = ""
    generated: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """One index made with `CREATE INDEX`. `columns` has None for an expression."""

    name: str
    columns: tuple[str | None, ...]
    unique: bool = False
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One table or view. `key` has the columns of the primary key in the key's order.

    `rows` is their number, null unless it was counted in time.
    """

    name: str
    columns: tuple[Column, ...]
    _: KW_ONLY
    indexes: tuple[Index, ...] = ()
    note: str = ""
    kind: Kind = "table"
    key: tuple[str, ...] = ()
    strict: bool = True
    without_rowid: bool = False
    rows: int | None = None

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns that can be written. Files have these columns."""
        return tuple(column for column in self.columns if not column.generated)

    def column(self, name: str) -> Column:
        """Return a column by its case-insensitive name. Raises `TablesError`."""
        for column in self.columns:
            if fold(column.name) == fold(name):
                return column
        names = ", ".join(column.name for column in self.columns)
        raise TablesError(f"table {self.name} has no column {name}", f"Available: {names}.")


def read(connection: Connection) -> Mapping[str, Table]:
    """Return the tables and views by name, sorted, without those of svc and of SQLite."""
    listed = rows(
        connection,
        "select l.name, l.type, l.wr, l.strict, s.sql from pragma_table_list l"
        " join sqlite_schema s on s.name = l.name and s.type in ('table', 'view')"
        " where l.schema = 'main' and l.type <> 'shadow' order by l.name collate binary",
    )
    notes: dict[tuple[str, str], str] = {}
    # By folded table and column; the column of a table's note is empty.
    if scalar(connection, "select 1 from sqlite_schema where name = ?", NOTES):
        stored = rows(connection, f"select table_name, column_name, note from {NOTES}")
        notes = {(fold(table), fold(column)): note for table, column, note in stored}
    tables = {}
    for name, kind, without_rowid, strict, sql in listed:
        if reserved(name):
            continue
        infos = _infos(connection, name)
        texts = {fold(each.name): each for each in parse(sql).columns} if kind == "table" else {}
        indexes, unique = _indexes(connection, name)
        key = tuple(info[0] for info in sorted(infos, key=lambda info: info[4]) if info[4])
        columns = (
            Column(
                column,
                _type(column, type_text, texts.get(fold(column))),
                nullable=not (not_null or (key == (column,) and type_text.upper() == "INTEGER")),
                default=None if default is None else readable_default(default),
                primary_key=bool(in_key),
                unique=column in unique,
                note=notes.get((fold(name), fold(column)), ""),
                generated=hidden in (2, 3),
            )
            for column, type_text, not_null, default, in_key, hidden in infos
        )
        tables[name] = Table(
            name,
            tuple(columns),
            indexes=indexes,
            note=notes.get((fold(name), ""), ""),
            kind=kind,
            key=key,
            strict=bool(strict),
            without_rowid=bool(without_rowid),
        )
    return tables


def lookup(tables: Mapping[str, Table], name: str) -> Table | None:
    """Return a table by its case-insensitive name, or None."""
    return next((table for table in tables.values() if fold(table.name) == fold(name)), None)


def find(tables: Mapping[str, Table], name: str, code: str = TablesError.code) -> Table:
    """Return a table by its case-insensitive name. Raises `TablesError`."""
    if (table := lookup(tables, name)) is not None:
        return table
    names = ", ".join(tables)
    raise TablesError(
        f"table {name} does not exist",
        f"Available: {names}." if names else "The project has no tables.",
        code=code,
    )


def reserved(name: str) -> bool:
    """Return whether svc or SQLite reserves a name."""
    return fold(name).startswith(RESERVED)


def declared(name: str, type_name: TypeName) -> ColumnText:
    """Return the SQL of a new column: SQLite's type, and the check that marks the column type."""
    type = TYPES[type_name]
    column = ColumnText(name, type.storage)
    return column.having("CHECK", _check(name, type.check)) if type.check else column


def without_type(column: ColumnText) -> ColumnText:
    """Return a column without its declared type and its type's check."""
    clauses = tuple(
        each for each in column.clauses if each.kind != "CHECK" or not _checked(column.name, each.sql)
    )
    return ColumnText(column.name, "", clauses)


def _infos(connection: Connection, name: str) -> list[tuple[Any, ...]]:
    """Return name, type, not null, default, position in the key and kind of each column.

    A broken view has no columns.
    """
    sql = 'select name, type, "notnull", dflt_value, pk, hidden from pragma_table_xinfo(?)'
    try:
        # Hidden columns of kind 1 belong to virtual tables; 2 and 3 are generated ones.
        return [info for info in rows(connection, sql, name) if info[5] != 1]
    except SqlError:
        return []


def readable_default(sql: str) -> str:
    """Return a default, with `now()` for the SQL that a type uses for it."""
    words = folded_tokens(sql)
    defaults = {type.now_sql for type in TYPES.values() if type.now_sql}
    is_now = any(words in (folded_tokens(now), folded_tokens(f"({now})")) for now in defaults)
    return "now()" if is_now else sql


def _type(name: str, declared: str, text: ColumnText | None) -> TypeName:
    if text is not None:
        for clause in text.clauses:
            if clause.kind == "CHECK" and (checked := _checked(name, clause.sql)):
                return checked
    return declared_type(declared).name


def _check(column: str, condition: str) -> str:
    return f"CHECK ({condition.format(quoted(column))})"


def _checked(name: str, sql: str) -> TypeName | None:
    words = folded_tokens(sql)
    if words[:1] == ["constraint"]:
        words = words[2:]
    checked = (type for type in TYPES.values() if type.check)
    return next((type.name for type in checked if words == folded_tokens(_check(name, type.check))), None)


def folded_tokens(sql: str) -> list[str]:
    """Return the tokens of SQL, without differences in quotes, spaces and case."""
    return [token.text if token.kind == "string" else fold(token.value) for token in tokens(sql)]


def _indexes(connection: Connection, table: str) -> tuple[tuple[Index, ...], frozenset[str]]:
    """Return the indexes made with `CREATE INDEX`, and the columns that a unique index covers alone."""
    indexes, unique = [], set()
    listed = rows(
        connection, 'select name, "unique", origin, partial from pragma_index_list(?) order by name', table
    )
    for name, is_unique, origin, partial in listed:
        columns = tuple(
            row[0] for row in rows(connection, "select name from pragma_index_info(?) order by seqno", name)
        )
        if is_unique and not partial and len(columns) == 1 and columns[0] and origin != "pk":
            unique.add(columns[0])
        if origin == "c":
            indexes.append(Index(name, columns, bool(is_unique), bool(partial)))
    return tuple(indexes), frozenset(unique)
