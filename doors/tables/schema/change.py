"""Schema changes as values, which are also requests of the control API, distinguished by `op`.

They are applied in one transaction that preserves every row.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Protocol

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, WithJsonSchema

from doors.tables.schema import notes
from doors.tables.schema.references import definition_of, rebuild, unbroken
from doors.tables.schema.rows import (
    ROW_NAMES,
    converter,
    identifying_columns,
    refuse_duplicates,
    refuse_missing,
    row_name,
)
from doors.tables.sqlite.catalog import Column, Table, declared, find, read, reserved, without_type
from doors.tables.sqlite.errors import (
    Connection,
    Error,
    TablesError,
    fold,
    literal,
    quoted,
    rows,
    scalar,
    transaction,
)
from doors.tables.sqlite.tokens import ColumnText, Definition, tokens
from doors.tables.types.parse import real
from doors.tables.types.registry import TYPES, TypeName, coerce, convert

MAX_COLUMNS = 500
MAX_NAME_LENGTH = 120
_INVISIBLE = ("Cc", "Cs", "Zl", "Zp")
_DIRECTION_MARKS = "\ufeff\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks that change the direction of text. Joiners, which some scripts need, are allowed."""
_LITERAL_WORDS = ("TRUE", "FALSE", "NULL")
_CONVERT = "_svc_convert"


class Change(Protocol):
    """A schema change."""

    def apply_to(self, connection: Connection) -> None:
        """Apply the change in the caller's transaction. Raises `TablesError`."""


def apply(connection: Connection, changes: Sequence[Change]) -> None:
    """Apply schema changes in order, all or none. Raises `TablesError`.

    The connection is unrestricted and not in a transaction.
    """
    subject = "something needs what the change removes"
    hint = "Drop that view, trigger or index in a migration first, and create it again after it."
    with transaction(connection, "the tables were not changed"), unbroken(connection, subject, hint):
        for change in changes:
            change.apply_to(connection)
            notes.delete_orphans(connection)


def _known_type(name: str) -> str:
    if name not in TYPES:
        raise ValueError(f"type {name} does not exist; available: {', '.join(TYPES)}")
    return name


KnownType = Annotated[
    TypeName, AfterValidator(_known_type), WithJsonSchema({"type": "string", "enum": list(TYPES)})
]


class _ChangeModel:
    """A change without nested values: pydantic parses it from JSON with exactly these members."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(
        extra="forbid", json_schema_extra=lambda schema: schema["required"].append("op")
    )


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Create a table. Its key is the columns with `primary_key`, in their order."""

    table: str
    columns: Sequence[Column]
    note: str = ""

    def apply_to(self, connection: Connection) -> None:
        check_name(self.table, "a table")
        _refuse_taken(connection, self.table)
        if not 1 <= len(self.columns) <= MAX_COLUMNS:
            raise TablesError(
                f"table {self.table} would have {len(self.columns)} columns",
                f"It may have 1 to {MAX_COLUMNS}.",
            )
        names: set[str] = set()
        for column in self.columns:
            _check_column_name(column.name)
            if fold(column.name) in names:
                raise TablesError(
                    f"table {self.table} would have two columns named {column.name}",
                    "Names are case-insensitive.",
                )
            names.add(fold(column.name))
        definition = Definition(tuple(_column_text(connection, column) for column in self.columns))
        key = [column.name for column in self.columns if column.primary_key]
        connection.execute(_with_key(definition, key).sql(self.table))
        notes.write(connection, self.table, "", self.note)
        for column in self.columns:
            notes.write(connection, self.table, column.name, column.note)


@dataclass(frozen=True, slots=True)
class RenameTable(_ChangeModel):
    """Rename a table, and update the views, triggers and foreign keys that use it."""

    table: str
    name: str
    op: Literal["rename-table"] = "rename-table"

    def apply_to(self, connection: Connection) -> None:
        table = _existing(connection, self.table)
        check_name(self.name, "a table")
        if table.name == self.name:
            return
        old = table.name
        if fold(old) == fold(self.name):
            # SQLite refuses a new name that differs only in case.
            connection.execute(f"ALTER TABLE {quoted(old)} RENAME TO _svc_renamed")
            old = "_svc_renamed"
        else:
            _refuse_taken(connection, self.name)
        connection.execute(f"ALTER TABLE {quoted(old)} RENAME TO {quoted(self.name)}")
        notes.rename_table(connection, table.name, self.name)


@dataclass(frozen=True, slots=True)
class DropTable(_ChangeModel):
    """Drop a table and its rows."""

    table: str
    op: Literal["drop-table"] = "drop-table"

    def apply_to(self, connection: Connection) -> None:
        table = _existing(connection, self.table)
        sql = 'SELECT m.name, f."table" FROM sqlite_schema m JOIN pragma_foreign_key_list(m.name) f'
        for name, parent in rows(connection, sql):
            if name != table.name and fold(parent) == fold(table.name):
                raise TablesError(
                    f"table {table.name} cannot be dropped: table {name} refers to it",
                    f"Drop {name} or its column that refers to {table.name} first.",
                )
        connection.execute(f"DROP TABLE {quoted(table.name)}")


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a column at the end. Existing rows get its default.

    An integer primary key, for a table without a key, gets the rowids.
    """

    table: str
    column: Column

    def apply_to(self, connection: Connection) -> None:
        table, column = _existing(connection, self.table), self.column
        _check_new_name(table.name, table.columns, column.name)
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
                f"column {column.name} cannot be unique: all rows of {table.name} would get the same default",
                "Add it without unique or without the default, fill it in, then make it unique.",
            )
        text = _column_text(connection, column)
        if column.unique or column.default == "now()" or (not column.nullable and column.default is None):
            definition = definition_of(connection, table)
            definition = replace(definition, columns=(*definition.columns, text))
            now = {column.name: TYPES[column.type].now_sql}
            rebuild(connection, table, definition, now if column.default == "now()" else {})
        else:
            connection.execute(f"ALTER TABLE {quoted(table.name)} ADD COLUMN {text.sql()}")
        notes.write(connection, table.name, column.name, column.note)


@dataclass(frozen=True, slots=True)
class RenameColumn(_ChangeModel):
    """Rename a column, and update the indexes, views, triggers and foreign keys that use it."""

    table: str
    column: str
    name: str
    op: Literal["rename-column"] = "rename-column"

    def apply_to(self, connection: Connection) -> None:
        table = _existing(connection, self.table)
        column = table.column(self.column)
        _check_new_name(table.name, [each for each in table.columns if each is not column], self.name)
        if column.name == self.name:
            return
        alter = f"ALTER TABLE {quoted(table.name)} RENAME COLUMN"
        old = column.name
        if fold(old) == fold(self.name):
            connection.execute(f"{alter} {quoted(old)} TO _svc_renamed")
            old = "_svc_renamed"
        connection.execute(f"{alter} {quoted(old)} TO {quoted(self.name)}")
        notes.rename_column(connection, table.name, column.name, self.name)


@dataclass(frozen=True, slots=True)
class RetypeColumn(_ChangeModel):
    """Convert a column and all its values to another type, or change nothing."""

    table: str
    column: str
    type: KnownType
    op: Literal["retype-column"] = "retype-column"

    def apply_to(self, connection: Connection) -> None:
        table, column, definition = _column(connection, self)
        if column.generated:
            raise TablesError(
                f"column {column.name} of table {table.name} is computed",
                "Its expression determines its type.",
            )
        if column.type == self.type:
            return
        text = _retyped(connection, definition.column(column.name), column.default, column.type, self)
        definition = definition.with_column(column.name, text)
        arguments = ", ".join(quoted(name) for name in (column.name, *identifying_columns(table)))
        connection.create_scalar_function(_CONVERT, converter(table, column.name, column.type, self.type), -1)
        try:
            rebuild(
                connection,
                table,
                _with_options(definition, table.key) if column.primary_key else definition,
                {column.name: f"{_CONVERT}({arguments})"},
            )
        finally:
            connection.create_scalar_function(_CONVERT, None, -1)


@dataclass(frozen=True, slots=True)
class DropColumn(_ChangeModel):
    """Drop a column and its values."""

    table: str
    column: str
    op: Literal["drop-column"] = "drop-column"

    def apply_to(self, connection: Connection) -> None:
        table, column, definition = _column(connection, self)
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
        text = definition.column(column.name)
        if text.has("UNIQUE") or text.has("REFERENCES"):
            rebuild(
                connection, table, definition.with_column(column.name, text.without("UNIQUE", "REFERENCES"))
            )
        try:
            connection.execute(f"ALTER TABLE {quoted(table.name)} DROP COLUMN {quoted(column.name)}")
        except Error as error:
            raise TablesError(
                f"column {column.name} of table {table.name} is needed elsewhere: {error}",
                "Change what needs it first: a check, a unique or foreign key over several columns,"
                " a generated column, a view or a trigger.",
            ) from error


@dataclass(frozen=True, slots=True)
class SetNullable(_ChangeModel):
    """Allow or refuse null in a column."""

    table: str
    column: str
    nullable: StrictBool
    op: Literal["set-nullable"] = "set-nullable"

    def apply_to(self, connection: Connection) -> None:
        table, column, definition = _column(connection, self)
        text = definition.column(column.name).without("NOT NULL", "NULL")
        if column.nullable == self.nullable:
            return
        if self.nullable and column.primary_key:
            raise TablesError(
                f"column {column.name} is in the key of table {table.name} and always has a value"
            )
        if not self.nullable:
            refuse_missing(connection, table, column.name)
            text = text.having("NOT NULL", "NOT NULL")
        rebuild(connection, table, definition.with_column(column.name, text))


@dataclass(frozen=True, slots=True)
class SetDefault(_ChangeModel):
    """Set the default of a column: `now()` or an SQL literal (`0`, `'open'`, `true`). None drops it."""

    table: str
    column: str
    default: str | None
    op: Literal["set-default"] = "set-default"

    def apply_to(self, connection: Connection) -> None:
        table, column, definition = _column(connection, self)
        if column.generated:
            raise TablesError(f"column {column.name} of table {table.name} is computed and has no default")
        text = definition.column(column.name).without("DEFAULT")
        if self.default is not None:
            text = text.having("DEFAULT", _default_sql(connection, column.name, column.type, self.default))
        rebuild(connection, table, definition.with_column(column.name, text))


@dataclass(frozen=True, slots=True)
class SetUnique(_ChangeModel):
    """Refuse or allow duplicates in a column."""

    table: str
    column: str
    unique: StrictBool
    op: Literal["set-unique"] = "set-unique"

    def apply_to(self, connection: Connection) -> None:
        table, column, definition = _column(connection, self)
        if column.unique == self.unique:
            return
        text = definition.column(column.name)
        if self.unique:
            refuse_duplicates(connection, table, [column.name])
            rebuild(connection, table, definition.with_column(column.name, text.having("UNIQUE", "UNIQUE")))
            return
        for index in table.indexes:
            if index.unique and not index.partial and index.columns == (column.name,):
                connection.execute(f"DROP INDEX {quoted(index.name)}")
        remaining = _without(definition, "UNIQUE", (column.name,))
        rebuild(connection, table, remaining.with_column(column.name, text.without("UNIQUE")))


@dataclass(frozen=True, slots=True)
class SetPrimaryKey(_ChangeModel):
    """Set the primary key to columns in this order. An empty tuple drops it."""

    table: str
    columns: Sequence[str]
    op: Literal["set-primary-key"] = "set-primary-key"

    def apply_to(self, connection: Connection) -> None:
        table = _existing(connection, self.table)
        columns = [table.column(name) for name in self.columns]
        key = tuple(column.name for column in columns)
        if key == table.key:
            return
        if len(set(key)) < len(key):
            raise TablesError(f"the key of table {table.name} would name a column twice")
        if any(column.generated for column in columns):
            raise TablesError(f"the key of table {table.name} cannot have computed columns")
        for name in key:
            refuse_missing(connection, table, name)
        if key:
            refuse_duplicates(connection, table, key)
        definition = _without(definition_of(connection, table), "PRIMARY")
        for name in table.key:
            text = definition.column(name)
            needs = text.has("PRIMARY") and not text.has("NOT NULL")
            text = text.without("PRIMARY")
            definition = definition.with_column(name, text.having("NOT NULL", "NOT NULL") if needs else text)
        rebuild(connection, table, _with_key(definition, key))


@dataclass(frozen=True, slots=True)
class SetNote(_ChangeModel):
    """Set the note on a column, or on the table if `column` is empty. An empty note deletes it."""

    table: str
    column: Annotated[str, Field(default="")]
    note: str
    op: Literal["set-note"] = "set-note"

    def apply_to(self, connection: Connection) -> None:
        table = find(read(connection), self.table)
        if len(self.note) > notes.MAX_NOTE_LENGTH:
            raise TablesError(
                f"the note has {len(self.note)} characters", f"Maximum {notes.MAX_NOTE_LENGTH}."
            )
        column = table.column(self.column).name if self.column else ""
        notes.write(connection, table.name, column, self.note)


@dataclass(frozen=True, slots=True)
class CreateIndex(_ChangeModel):
    """Create an index. The default name is made of the table and its columns."""

    table: str
    columns: Sequence[str]
    unique: StrictBool = False
    name: str = ""
    op: Literal["create-index"] = "create-index"

    def apply_to(self, connection: Connection) -> None:
        table = _existing(connection, self.table)
        columns = [table.column(name).name for name in self.columns]
        if not columns or len(set(columns)) < len(columns):
            raise TablesError(
                f"an index of table {table.name} has no columns, or one column twice",
                "Name each column once.",
            )
        name = self.name or "_".join([table.name, *columns, "index"])[:MAX_NAME_LENGTH].strip()
        check_name(name, "an index")
        _refuse_taken(connection, name, "index")
        if self.unique:
            refuse_duplicates(connection, table, columns)
        kind = "UNIQUE INDEX" if self.unique else "INDEX"
        names = ", ".join(quoted(column) for column in columns)
        connection.execute(f"CREATE {kind} {quoted(name)} ON {quoted(table.name)} ({names})")


@dataclass(frozen=True, slots=True)
class DropIndex(_ChangeModel):
    """Drop an index."""

    name: str
    op: Literal["drop-index"] = "drop-index"

    def apply_to(self, connection: Connection) -> None:
        names = {
            fold(index.name): index.name for table in read(connection).values() for index in table.indexes
        }
        if (name := names.get(fold(self.name))) is None:
            raise TablesError(
                f"index {self.name} does not exist",
                f"Available: {', '.join(names.values())}." if names else "The project has no indexes.",
            )
        connection.execute(f"DROP INDEX {quoted(name)}")


RequestChange = (
    RenameTable
    | DropTable
    | RenameColumn
    | RetypeColumn
    | DropColumn
    | SetNullable
    | SetDefault
    | SetUnique
    | SetPrimaryKey
    | SetNote
    | CreateIndex
    | DropIndex
)


def _existing(connection: Connection, name: str) -> Table:
    """Return a table that can be changed. Raises `TablesError` for views and virtual tables."""
    table = find(read(connection), name)
    if table.kind != "table":
        raise TablesError(
            f"{table.name} is a {table.kind if table.kind == 'view' else 'virtual table'}",
            "Only tables can be changed here; a migration can drop and recreate it.",
        )
    return table


def _refuse_taken(connection: Connection, name: str, kind: str = "table") -> None:
    existing_items = rows(
        connection, "SELECT type, name FROM sqlite_schema WHERE name = ? COLLATE NOCASE", name
    )
    if existing_items:
        raise TablesError(
            f"{' '.join(existing_items[0])} already exists",
            f"Choose another name for the {kind}.",
            code="conflict",
        )


def _column_text(connection: Connection, column: Column) -> ColumnText:
    """Return the SQL of a new column, without its primary key."""
    text = declared(column.name, column.type)
    if not column.nullable or column.primary_key:
        text = text.having("NOT NULL", "NOT NULL")
    if column.default is not None:
        text = text.having("DEFAULT", _default_sql(connection, column.name, column.type, column.default))
    if column.unique and not column.primary_key:
        text = text.having("UNIQUE", "UNIQUE")
    return text


def _default_sql(connection: Connection, column: str, type: TypeName, default: str) -> str:
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


def _with_key(definition: Definition, key: Sequence[str]) -> Definition:
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
    return _with_options(definition, key)


def _with_options(definition: Definition, key: Sequence[str]) -> Definition:
    """Return a definition that has no rowids besides its key: they would differ between nodes of a fleet."""
    strict = ["STRICT"] if "STRICT" in definition.options.upper() else []
    other = ["WITHOUT ROWID"] if key and not _is_rowid(definition, key) else []
    return replace(definition, options=", ".join(strict + other))


def _is_rowid(definition: Definition, key: Sequence[str]) -> bool:
    only = definition.column(key[0]) if len(key) == 1 else None
    return only is not None and only.declared.upper() == "INTEGER" and not only.has("CHECK")


def _column(
    connection: Connection, change: DropColumn | RetypeColumn | SetNullable | SetDefault | SetUnique
) -> tuple[Table, Column, Definition]:
    """Return the table, the column and the definition that a change names. Raises `TablesError`."""
    table = _existing(connection, change.table)
    return table, table.column(change.column), definition_of(connection, table)


def _check_new_name(table: str, others: Sequence[Column], name: str) -> None:
    _check_column_name(name)
    if any(fold(each.name) == fold(name) for each in others):
        raise TablesError(
            f"table {table} already has a column {name}", "Choose another name.", code="conflict"
        )


def _add_numbers(connection: Connection, table: Table, column: Column) -> None:
    """Add an integer primary key, filled with the rowids, to a table without a key."""
    number = row_name(table)
    if table.key or not TYPES[column.type].is_rowid or number is None:
        raise TablesError(
            f"column {column.name} has no values yet and cannot be in the key of table {table.name}",
            "Add the column, give every row a value, then set the primary key.",
        )
    definition = definition_of(connection, table)
    definition = replace(definition, columns=(*definition.columns, _column_text(connection, column)))
    rebuild(connection, table, _with_key(definition, [column.name]), {column.name: number})
    notes.write(connection, table.name, column.name, column.note)


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
        sql = _default_sql(connection, change.column, change.type, default)
        bare = bare.without("DEFAULT").having("DEFAULT", sql)
    new = declared(bare.name, change.type)
    clauses = tuple(
        replace(each, sql=re.sub(r"\s+autoincrement", "", each.sql, flags=re.IGNORECASE))
        if each.kind == "PRIMARY"
        else each
        for each in bare.clauses
    )
    if bare.has("PRIMARY") and not bare.has("NOT NULL") and not TYPES[change.type].is_rowid:
        new = new.having("NOT NULL", "NOT NULL")
    return ColumnText(new.name, new.declared, (*new.clauses, *clauses))


def _without(definition: Definition, keyword: str, columns: tuple[str, ...] | None = None) -> Definition:
    """Return a definition without the table constraints of a kind, on given columns or on any."""
    remaining = []
    for sql in definition.constraints:
        parts = list(tokens(sql))
        if parts[0].is_word("CONSTRAINT"):
            parts = parts[2:]
        names = [fold(each.value) for each in parts[1:] if each.kind in ("word", "name")]
        if not parts[0].is_word(keyword) or (columns is not None and names != list(map(fold, columns))):
            remaining.append(sql)
    return replace(definition, constraints=tuple(remaining))


def check_name(name: str, subject: str) -> None:
    """Validate a name. Raises `TablesError` with a message that begins with `what`, such as "a table"."""
    invisible = (
        each for each in name if unicodedata.category(each) in _INVISIBLE or each in _DIRECTION_MARKS
    )
    reasons = {
        "it is empty": not name,
        f"it is longer than {MAX_NAME_LENGTH} characters": len(name) > MAX_NAME_LENGTH,
        "it begins or ends with a space": name != name.strip(),
        "it has an invisible character": any(invisible),
        "names that begin with sqlite_ or _svc are reserved": reserved(name),
    }
    if reason := next((text for text, is_so in reasons.items() if is_so), ""):
        raise TablesError(
            f"{subject} cannot be named {name!r}: {reason}",
            "Use letters of any script; spaces inside are allowed.",
        )


def _check_column_name(name: str) -> None:
    check_name(name, "a column")
    if fold(name) in ROW_NAMES:
        raise TablesError(
            f"a column cannot be named {name!r}: SQLite uses this name for the rowid",
            "Choose another name, such as id.",
        )
