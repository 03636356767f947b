"""What tables there are, and of what: the logical types of columns, read from the schema that SQLite keeps.

The schema is the one truth. A logical type is told by the declared type and, where SQLite has no type of its
own for it, by the check that a generated column carries; so tables can be made and renamed by any SQL, or by
any other SQLite tool, and nothing has to be kept in step. Only notes have a table of their own.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from doors.tables.sqlite.create_table import ColumnText, parse
from doors.tables.sqlite.errors import Connection, SqlError, TablesError, fold, quoted, rows, scalar
from doors.tables.sqlite.tokens import tokens

ColumnType = Literal["integer", "real", "text", "boolean", "timestamp", "json", "blob"]
TYPES: tuple[ColumnType, ...] = get_args(ColumnType)
Kind = Literal["table", "view", "virtual"]

NOW = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
"""The moment, as columns of timestamps hold it. In defaults it stands for `now()`."""
NOTES = "_svc_notes"
RESERVED = ("sqlite_", "_svc")
"""No table of a Project begins with these, in capitals or not."""

STORED: Mapping[ColumnType, str] = {
    "integer": "INTEGER",
    "real": "REAL",
    "text": "TEXT",
    "boolean": "INTEGER",
    "timestamp": "TEXT",
    "json": "TEXT",
    "blob": "BLOB",
}
"""What SQLite calls the type that holds the values of a logical type."""
_CHECKS: Mapping[ColumnType, str] = {
    "boolean": "{0} IN (0, 1)",
    "timestamp": "{0} IS strftime('%Y-%m-%dT%H:%M:%fZ', {0})",
    "json": "json_valid({0})",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `default` is an SQL expression, `now()` for the moment at which a row is written.

    `primary_key` is true of each column of the key. `generated` columns are computed, and never written.
    """

    name: str
    type: ColumnType
    nullable: bool = True
    default: str | None = None
    primary_key: bool = False
    unique: bool = False
    note: str = ""
    generated: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """One index that was made with `create index`. `columns` has None for an expression."""

    name: str
    columns: tuple[str | None, ...]
    unique: bool = False
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One table, or a view of tables. `key` is the primary key's columns in the key's order."""

    name: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    note: str = ""
    kind: Kind = "table"
    key: tuple[str, ...] = ()
    strict: bool = True
    without_rowid: bool = False

    def column(self, name: str) -> Column:
        """Return a column by its name, in any capitals. Raises `TablesError`, which names those there are."""
        for column in self.columns:
            if fold(column.name) == fold(name):
                return column
        names = ", ".join(column.name for column in self.columns)
        raise TablesError(f"table {self.name} has no column {name}", f"It has {names}.")


def read(connection: Connection) -> Mapping[str, Table]:
    """Return the tables and views by name, in the order of names, without those of svc and of SQLite."""
    listed = rows(
        connection,
        "select l.name, l.type, l.wr, l.strict, s.sql from pragma_table_list l"
        " join sqlite_schema s on s.name = l.name and s.type in ('table', 'view')"
        " where l.schema = 'main' and l.type <> 'shadow' order by l.name collate binary",
    )
    notes = _notes(connection)
    found = {}
    for name, kind, without_rowid, strict, sql in listed:
        if not reserved(name):
            found[name] = _table(connection, notes, name, kind, bool(without_rowid), bool(strict), sql)
    return found


def find(tables: Mapping[str, Table], name: str) -> Table:
    """Return a table by its name, in any capitals. Raises `TablesError`, which names those there are."""
    for table in tables.values():
        if fold(table.name) == fold(name):
            return table
    names = ", ".join(tables)
    raise TablesError(
        f"there is no table {name}", f"There are {names}." if names else "There are no tables yet."
    )


def reserved(name: str) -> bool:
    """Say whether a name is one that svc or SQLite keeps for itself."""
    return fold(name).startswith(RESERVED)


def declared(name: str, type: ColumnType) -> ColumnText:
    """Return a column as generated tables have it: SQLite's type, and the check that makes it logical."""
    column = ColumnText(name, STORED[type])
    if type not in _CHECKS:
        return column
    return column.having("CHECK", f"CHECK ({_CHECKS[type].format(quoted(name))})")


def without_type(column: ColumnText) -> ColumnText:
    """Return a column without its type and the check that belongs to it."""
    clauses = tuple(
        each for each in column.clauses if each.kind != "CHECK" or not _checked(column.name, each.sql)
    )
    return ColumnText(column.name, "", clauses)


def _table(
    connection: Connection,
    notes: Mapping[tuple[str, str], str],
    name: str,
    kind: Kind,
    without_rowid: bool,
    strict: bool,
    sql: str,
) -> Table:
    infos = _infos(connection, name)
    texts = {fold(each.name): each for each in parse(sql).columns} if kind == "table" else {}
    indexes, unique = _indexes(connection, name)
    key = tuple(info[0] for info in sorted(infos, key=lambda info: info[4]) if info[4])
    columns = tuple(_column(info, name, key, texts, unique, notes) for info in infos)
    note = notes.get((fold(name), ""), "")
    return Table(name, columns, indexes, note, kind, key, strict, without_rowid)


def _infos(connection: Connection, name: str) -> list[tuple[Any, ...]]:
    """Return name, type, not null, default, place in the key, kind of columns; nothing of a broken view."""
    sql = 'select name, type, "notnull", dflt_value, pk, hidden from pragma_table_xinfo(?)'
    try:
        # Hidden columns of kind 1 belong to virtual tables; 2 and 3 are generated ones.
        return [info for info in rows(connection, sql, name) if info[5] != 1]
    except SqlError:
        return []


def _column(
    info: tuple[Any, ...],
    table: str,
    key: tuple[str, ...],
    texts: Mapping[str, ColumnText],
    unique: frozenset[str],
    notes: Mapping[tuple[str, str], str],
) -> Column:
    name, declared_type, not_null, default, in_key, hidden = info
    text = texts.get(fold(name))
    rowid = key == (name,) and declared_type.upper() == "INTEGER"
    return Column(
        name,
        _type(name, declared_type, text),
        nullable=not (not_null or rowid),
        default=None if default is None else readable_default(default),
        primary_key=bool(in_key),
        unique=name in unique,
        note=notes.get((fold(table), fold(name)), ""),
        generated=hidden in (2, 3),
    )


def readable_default(sql: str) -> str:
    """Return a default as people write it: `now()` for the moment."""
    return "now()" if _same(sql, NOW) or _same(sql, f"({NOW})") else sql


def _type(name: str, declared_type: str, text: ColumnText | None) -> ColumnType:
    if text is not None:
        for clause in text.clauses:
            if clause.kind == "CHECK" and (checked := _checked(name, clause.sql)):
                return checked
    return type_of(declared_type)


def _checked(name: str, sql: str) -> ColumnType | None:
    """Return the logical type that a check stands for."""
    words = _folded(sql)
    if words[:1] == ["constraint"]:
        words = words[2:]
    for type, check in _CHECKS.items():
        if words == _folded(f"CHECK ({check.format(quoted(name))})"):
            return type
    return None


def _same(sql: str, other: str) -> bool:
    """Say whether two texts are the same SQL, however it is quoted, spaced and capitalised."""
    return _folded(sql) == _folded(other)


def _folded(sql: str) -> list[str]:
    return [token.text if token.kind == "string" else fold(token.value) for token in tokens(sql)]


def type_of(declared_type: str) -> ColumnType:
    """Return the logical type of a declared one: SQLite's own rules, after the names that it does not know.

    Source: https://sqlite.org/datatype3.html#determination_of_column_affinity
    """
    text = re.sub(r"\(.*", "", declared_type.upper())
    rules: Iterable[tuple[ColumnType, tuple[str, ...]]] = (
        ("boolean", ("BOOL",)),
        ("timestamp", ("TIMESTAMP", "DATETIME")),
        ("json", ("JSON",)),
        ("integer", ("INT",)),
        ("text", ("CHAR", "CLOB", "TEXT")),
        ("blob", ("BLOB", "BYTEA", "BINARY")),
        ("real", ("REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL")),
    )
    for type, names in rules:
        if any(name in text for name in names):
            return type
    return "text"


def _indexes(connection: Connection, table: str) -> tuple[tuple[Index, ...], frozenset[str]]:
    """Return the indexes that were made by hand, and the columns that an index of their own keeps unique."""
    made, unique = [], set()
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
            made.append(Index(name, columns, bool(is_unique), bool(partial)))
    return tuple(made), frozenset(unique)


def _notes(connection: Connection) -> Mapping[tuple[str, str], str]:
    """Return the notes by table and column, folded; the column is empty where a note is the table's."""
    if not scalar(connection, "select 1 from sqlite_schema where name = ?", NOTES):
        return {}
    found = rows(connection, f"select table_name, column_name, note from {NOTES}")
    return {(fold(table), fold(column)): note for table, column, note in found}
