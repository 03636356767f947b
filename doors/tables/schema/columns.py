"""Column changes, inside a transaction."""

import re

from doors.tables.schema import notes
from doors.tables.schema.change import (
    AddColumn,
    DropColumn,
    RenameColumn,
    RetypeColumn,
    SetDefault,
    SetNullable,
)
from doors.tables.schema.names import check_column_name
from doors.tables.schema.rebuild import definition_of, rebuild
from doors.tables.schema.rows import converter, identifying_columns, refuse_missing, row_name
from doors.tables.schema.tables import MAX_COLUMNS, column_text, default_sql, existing, with_key, with_options
from doors.tables.sqlite.catalog import Column, Table, declared, without_type
from doors.tables.sqlite.create_table import ColumnText
from doors.tables.sqlite.errors import Connection, Error, TablesError, fold, literal, quoted, scalar
from doors.tables.types.convert import convert
from doors.tables.types.registry import TYPES, TypeName

_CONVERT = "_svc_convert"


def add(connection: Connection, change: AddColumn) -> None:
    """Add a column. Raises `TablesError` if existing rows would lack a required value."""
    table, column = existing(connection, change.table), change.column
    check_column_name(column.name)
    if any(fold(each.name) == fold(column.name) for each in table.columns):
        raise TablesError(
            f"table {table.name} already has a column {column.name}", "Choose another name.", code="conflict"
        )
    if len(table.columns) >= MAX_COLUMNS:
        raise TablesError(f"table {table.name} has {MAX_COLUMNS} columns", "This is the maximum.")
    if column.primary_key:
        _add_numbers(connection, table, column)
        return
    filled = scalar(connection, f"SELECT EXISTS (SELECT 1 FROM {quoted(table.name)})")
    if filled and not column.nullable and column.default is None:
        raise TablesError(
            f"column {column.name} has no value for the existing rows of table {table.name}",
            "Give it a default; or add it without not null, fill it in, then set not null.",
        )
    if filled and column.unique and column.default is not None:
        raise TablesError(
            f"column {column.name} cannot be unique: every row of {table.name} would get the same default",
            "Add it without unique or without the default, fill it in, then make it unique.",
        )
    text = column_text(connection, column)
    definition = definition_of(connection, table)
    if column.unique or column.default == "now()" or (not column.nullable and column.default is None):
        definition = type(definition)((*definition.columns, text), definition.constraints, definition.options)
        now = {column.name: TYPES[column.type].now_sql}
        rebuild(connection, table, definition, now if column.default == "now()" else {})
    else:
        connection.execute(f"ALTER TABLE {quoted(table.name)} ADD COLUMN {text.sql()}")
    notes.write(connection, table.name, column.name, column.note)


def _add_numbers(connection: Connection, table: Table, column: Column) -> None:
    """Add an integer primary key, filled with the rowids, to a table without a key."""
    number = row_name(table)
    if table.key or not TYPES[column.type].is_rowid or number is None:
        raise TablesError(
            f"column {column.name} has no values yet and cannot be in the key of table {table.name}",
            "Add the column, give every row a value, then set the primary key.",
        )
    definition = definition_of(connection, table)
    text = column_text(connection, column)
    columns = type(definition)((*definition.columns, text), definition.constraints, definition.options)
    rebuild(connection, table, with_key(columns, [column.name]), {column.name: number})
    notes.write(connection, table.name, column.name, column.note)


def rename(connection: Connection, change: RenameColumn) -> None:
    """Rename a column. Raises `TablesError` if another column has the name."""
    table = existing(connection, change.table)
    column = table.column(change.column)
    check_column_name(change.name)
    if column.name == change.name:
        return
    if any(fold(each.name) == fold(change.name) and each is not column for each in table.columns):
        raise TablesError(
            f"table {table.name} already has a column {change.name}", "Choose another name.", code="conflict"
        )
    alter = f"ALTER TABLE {quoted(table.name)} RENAME COLUMN"
    old = column.name
    if fold(old) == fold(change.name):
        connection.execute(f"{alter} {quoted(old)} TO _svc_renamed")
        old = "_svc_renamed"
    connection.execute(f"{alter} {quoted(old)} TO {quoted(change.name)}")
    notes.rename_column(connection, table.name, column.name, change.name)


def drop(connection: Connection, change: DropColumn) -> None:
    """Drop a column. Raises `TablesError` if something depends on it."""
    table = existing(connection, change.table)
    column = table.column(change.column)
    if column.primary_key:
        raise TablesError(
            f"column {column.name} is in the key of table {table.name}",
            "Set or drop the primary key first.",
        )
    if len(table.columns) == 1:
        raise TablesError(
            f"{column.name} is the only column of table {table.name}", "Drop the table instead."
        )
    for index in table.indexes:
        if column.name in index.columns:
            raise TablesError(
                f"index {index.name} of table {table.name} needs column {column.name}",
                f"Drop the index {index.name} first.",
            )
    definition = definition_of(connection, table)
    text = definition.column(column.name)
    if text.has("UNIQUE") or text.has("REFERENCES"):
        rebuild(connection, table, definition.with_column(column.name, text.without("UNIQUE", "REFERENCES")))
    try:
        connection.execute(f"ALTER TABLE {quoted(table.name)} DROP COLUMN {quoted(column.name)}")
    except Error as error:
        raise TablesError(
            f"column {column.name} of table {table.name} is needed elsewhere: {error}",
            "Change what needs it first: a check, a unique or foreign key over several columns,"
            " a generated column, a view or a trigger.",
        ) from error


def retype(connection: Connection, change: RetypeColumn) -> None:
    """Convert a column and its values to another type.

    Raises `TablesError` if the column is computed, or its default does not fit the type.
    """
    table = existing(connection, change.table)
    column = table.column(change.column)
    if column.generated:
        raise TablesError(
            f"column {column.name} of table {table.name} is computed",
            "Its expression determines its type.",
        )
    if column.type == change.type:
        return
    definition = definition_of(connection, table)
    text = _retyped(connection, definition.column(column.name), column.default, column.type, change)
    definition = definition.with_column(column.name, text)
    arguments = ", ".join(quoted(name) for name in (column.name, *identifying_columns(table)))
    connection.create_scalar_function(_CONVERT, converter(table, column.name, column.type, change.type), -1)
    try:
        rebuild(
            connection,
            table,
            with_options(definition, table.key) if column.primary_key else definition,
            {column.name: f"{_CONVERT}({arguments})"},
        )
    finally:
        connection.create_scalar_function(_CONVERT, None, -1)


def _retyped(
    connection: Connection, text: ColumnText, default: str | None, old: TypeName, change: RetypeColumn
) -> ColumnText:
    bare = without_type(text)
    if default is not None and default != "now()":
        value = scalar(connection, f"SELECT {default}")
        try:
            default = literal(convert(value, old, change.type))
        except ValueError as error:
            raise TablesError(
                f"the default of column {change.column} does not fit: {default} {error}",
                "Drop or change the default first.",
            ) from None
    if default is not None:
        sql = default_sql(connection, change.column, change.type, default)
        bare = bare.without("DEFAULT").having("DEFAULT", sql)
    new = declared(bare.name, change.type)
    clauses = tuple(
        type(each)(each.kind, re.sub(r"\s+autoincrement", "", each.sql, flags=re.IGNORECASE))
        if each.kind == "PRIMARY"
        else each
        for each in bare.clauses
    )
    if bare.has("PRIMARY") and not bare.has("NOT NULL") and not TYPES[change.type].is_rowid:
        new = new.having("NOT NULL", "NOT NULL")
    return ColumnText(new.name, new.declared, (*new.clauses, *clauses))


def set_nullable(connection: Connection, change: SetNullable) -> None:
    """Allow or refuse null in a column. Raises `TablesError` if a column of the key would allow it."""
    table = existing(connection, change.table)
    column = table.column(change.column)
    definition = definition_of(connection, table)
    text = definition.column(column.name).without("NOT NULL", "NULL")
    if column.nullable == change.nullable:
        return
    if change.nullable and column.primary_key:
        raise TablesError(f"column {column.name} is in the key of table {table.name} and always has a value")
    if not change.nullable:
        refuse_missing(connection, table, column.name)
        text = text.having("NOT NULL", "NOT NULL")
    rebuild(connection, table, definition.with_column(column.name, text))


def set_default(connection: Connection, change: SetDefault) -> None:
    """Set or drop the default of a column. Raises `TablesError` if the column is computed."""
    table = existing(connection, change.table)
    column = table.column(change.column)
    if column.generated:
        raise TablesError(f"column {column.name} of table {table.name} is computed and has no default")
    definition = definition_of(connection, table)
    text = definition.column(column.name).without("DEFAULT")
    if change.default is not None:
        text = text.having("DEFAULT", default_sql(connection, column.name, column.type, change.default))
    rebuild(connection, table, definition.with_column(column.name, text))
