"""Table changes and notes, inside a transaction."""

from collections.abc import Sequence
from dataclasses import replace

from doors.tables.schema import notes
from doors.tables.schema.change import CreateTable, DropTable, RenameTable, SetNote
from doors.tables.schema.names import check_column_name, check_name
from doors.tables.sqlite.catalog import Column, Table, declared, find, read
from doors.tables.sqlite.create_table import ColumnText, Definition
from doors.tables.sqlite.errors import Connection, TablesError, fold, literal, quoted, rows, scalar
from doors.tables.sqlite.tokens import tokens
from doors.tables.types.convert import coerce
from doors.tables.types.parse import real
from doors.tables.types.registry import TYPES, TypeName

MAX_COLUMNS = 500
_LITERAL_WORDS = ("TRUE", "FALSE", "NULL")


def existing(connection: Connection, name: str) -> Table:
    """Return a table that can be changed. Raises `TablesError` for views and virtual tables."""
    table = find(read(connection), name)
    if table.kind != "table":
        raise TablesError(
            f"{table.name} is a {table.kind if table.kind == 'view' else 'virtual table'}",
            "Only tables can be changed here; a migration can drop and recreate it.",
        )
    return table


def refuse_taken(connection: Connection, name: str, kind: str = "table") -> None:
    """Raise `TablesError` if a table, view or index of that name exists."""
    existing_items = rows(
        connection, "SELECT type, name FROM sqlite_schema WHERE name = ? COLLATE NOCASE", name
    )
    if existing_items:
        raise TablesError(
            f"{' '.join(existing_items[0])} already exists",
            f"Choose another name for the {kind}.",
            code="conflict",
        )


def create(connection: Connection, change: CreateTable) -> None:
    """Create a table.

    Raises `TablesError` if the number of columns is out of range or a name repeats.
    """
    check_name(change.table, "a table")
    refuse_taken(connection, change.table)
    if not 1 <= len(change.columns) <= MAX_COLUMNS:
        raise TablesError(
            f"table {change.table} would have {len(change.columns)} columns",
            f"It may have 1 to {MAX_COLUMNS}.",
        )
    names: set[str] = set()
    for column in change.columns:
        check_column_name(column.name)
        if fold(column.name) in names:
            raise TablesError(
                f"table {change.table} would have two columns named {column.name}",
                "Names are case-insensitive.",
            )
        names.add(fold(column.name))
    connection.execute(_definition(connection, change.columns).sql(change.table))
    notes.write(connection, change.table, "", change.note)
    for column in change.columns:
        notes.write(connection, change.table, column.name, column.note)


def column_text(connection: Connection, column: Column) -> ColumnText:
    """Return the SQL of a new column, without its primary key."""
    text = declared(column.name, column.type)
    if not column.nullable or column.primary_key:
        text = text.having("NOT NULL", "NOT NULL")
    if column.default is not None:
        text = text.having("DEFAULT", default_sql(connection, column.name, column.type, column.default))
    if column.unique and not column.primary_key:
        text = text.having("UNIQUE", "UNIQUE")
    return text


def default_sql(connection: Connection, column: str, type: TypeName, default: str) -> str:
    """Return the clause for a default: `now()`, or one literal of the type. Raises `TablesError`."""
    parts = list(tokens(default))
    if [fold(part.text) for part in parts] == ["now", "(", ")"]:
        if not TYPES[type].now_sql:
            names = ", ".join(each.name for each in TYPES.values() if each.now_sql)
            raise TablesError(
                f"column {column} of type {type} cannot default to now()", f"Types with now(): {names}."
            )
        return f"DEFAULT ({TYPES[type].now_sql})"
    signed = parts[1:] if parts and parts[0].text in ("-", "+") else parts
    single = len(signed) == 1 and (
        signed[0].kind == "number"
        or (len(parts) == 1 and (parts[0].kind == "string" or parts[0].is_word(*_LITERAL_WORDS)))
    )
    if not single:
        raise TablesError(
            f"the default of column {column} is neither now() nor one value: {default}",
            "Write text in single quotes ('open'), a number (0), true, false or null.",
        )
    value = scalar(connection, f"SELECT {default}")
    try:
        if isinstance(value, float):
            real("".join(part.text for part in parts))
        return f"DEFAULT {literal(coerce(value, type))}"
    except ValueError as error:
        raise TablesError(
            f"the default of column {column} does not fit its type: {default} {error}",
            f"Write a value of type {type}, or drop the default.",
        ) from None


def _definition(connection: Connection, columns: Sequence[Column]) -> Definition:
    texts = Definition(tuple(column_text(connection, column) for column in columns))
    return with_key(texts, [column.name for column in columns if column.primary_key])


def with_key(definition: Definition, key: Sequence[str]) -> Definition:
    """Return a definition with a primary key added. A key of one integer column is the rowid."""
    if _is_rowid(definition, key):
        numbered = definition.column(key[0]).without("NOT NULL", "UNIQUE").having("PRIMARY", "PRIMARY KEY")
        definition = definition.with_column(key[0], numbered)
    elif key:
        for name in key:
            column = definition.column(name)
            if not column.has("NOT NULL"):
                definition = definition.with_column(name, column.having("NOT NULL", "NOT NULL"))
        constraint = f"PRIMARY KEY ({', '.join(quoted(name) for name in key)})"
        definition = replace(definition, constraints=(constraint, *definition.constraints))
    return with_options(definition, key)


def with_options(definition: Definition, key: Sequence[str]) -> Definition:
    """Return a definition that has no rowids besides its key: they would differ between nodes of a fleet."""
    strict = ["STRICT"] if "STRICT" in definition.options.upper() else []
    other = ["WITHOUT ROWID"] if key and not _is_rowid(definition, key) else []
    return replace(definition, options=", ".join(strict + other))


def _is_rowid(definition: Definition, key: Sequence[str]) -> bool:
    only = definition.column(key[0]) if len(key) == 1 else None
    return only is not None and only.declared.upper() == "INTEGER" and not only.has("CHECK")


def rename(connection: Connection, change: RenameTable) -> None:
    """Rename a table."""
    table = existing(connection, change.table)
    check_name(change.name, "a table")
    if table.name == change.name:
        return
    old = table.name
    if fold(old) == fold(change.name):
        # SQLite refuses a new name that differs only in case.
        connection.execute(f"ALTER TABLE {quoted(old)} RENAME TO _svc_renamed")
        old = "_svc_renamed"
    else:
        refuse_taken(connection, change.name)
    connection.execute(f"ALTER TABLE {quoted(old)} RENAME TO {quoted(change.name)}")
    notes.rename_table(connection, table.name, change.name)


def drop(connection: Connection, change: DropTable) -> None:
    """Drop a table. Raises `TablesError` if another table refers to it."""
    table = existing(connection, change.table)
    sql = 'SELECT m.name, f."table" FROM sqlite_schema m JOIN pragma_foreign_key_list(m.name) f'
    for name, parent in rows(connection, sql):
        if name != table.name and fold(parent) == fold(table.name):
            raise TablesError(
                f"table {table.name} cannot be dropped: table {name} refers to it",
                f"Drop {name} or its column that refers to {table.name} first.",
            )
    connection.execute(f"DROP TABLE {quoted(table.name)}")


def set_note(connection: Connection, change: SetNote) -> None:
    """Set the note on a table or column. Raises `TablesError` if the note is too long."""
    table = find(read(connection), change.table)
    if len(change.note) > notes.MAX_NOTE_LENGTH:
        raise TablesError(f"the note has {len(change.note)} characters", f"Maximum {notes.MAX_NOTE_LENGTH}.")
    column = table.column(change.column).name if change.column else ""
    notes.write(connection, table.name, column, change.note)
