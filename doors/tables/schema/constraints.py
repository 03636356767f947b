"""Changes of primary keys, unique columns and indexes, inside a transaction."""

from dataclasses import replace

from doors.tables.schema.change import CreateIndex, DropIndex, SetPrimaryKey, SetUnique
from doors.tables.schema.names import MAX_NAME_LENGTH, check_name
from doors.tables.schema.rebuild import definition_of, rebuild
from doors.tables.schema.rows import refuse_duplicates, refuse_missing
from doors.tables.schema.tables import existing, refuse_taken, with_key
from doors.tables.sqlite.catalog import read
from doors.tables.sqlite.create_table import Definition
from doors.tables.sqlite.errors import Connection, TablesError, fold, quoted
from doors.tables.sqlite.tokens import Token, tokens


def set_unique(connection: Connection, change: SetUnique) -> None:
    """Refuse or allow duplicates in a column."""
    table = existing(connection, change.table)
    column = table.column(change.column)
    if column.unique == change.unique:
        return
    definition = definition_of(connection, table)
    text = definition.column(column.name)
    if change.unique:
        refuse_duplicates(connection, table, [column.name])
        rebuild(connection, table, definition.with_column(column.name, text.having("UNIQUE", "UNIQUE")))
        return
    for index in table.indexes:
        if index.unique and not index.partial and index.columns == (column.name,):
            connection.execute(f"DROP INDEX {quoted(index.name)}")
    remaining = _without(definition, "UNIQUE", (column.name,))
    rebuild(connection, table, remaining.with_column(column.name, text.without("UNIQUE")))


def set_primary_key(connection: Connection, change: SetPrimaryKey) -> None:
    """Set or drop the primary key of a table.

    Raises `TablesError` if the key has computed columns or a column twice.
    """
    table = existing(connection, change.table)
    columns = [table.column(name) for name in change.columns]
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
    rebuild(connection, table, with_key(definition, key))


def _without(definition: Definition, keyword: str, columns: tuple[str, ...] | None = None) -> Definition:
    """Return a definition without the table constraints of a kind, on given columns or on any."""
    remaining = []
    for sql in definition.constraints:
        parts = list(tokens(sql))
        if parts[0].is_word("CONSTRAINT"):
            parts = parts[2:]
        if not parts[0].is_word(keyword) or (
            columns is not None and _column_names(parts) != [fold(name) for name in columns]
        ):
            remaining.append(sql)
    return replace(definition, constraints=tuple(remaining))


def _column_names(parts: list[Token]) -> list[str]:
    """Return the columns of `unique (a, b)`, folded."""
    inner = [part for part in parts if part.kind in ("word", "name") and not part.is_word("UNIQUE")]
    return [fold(part.value) for part in inner]


def create_index(connection: Connection, change: CreateIndex) -> None:
    """Create an index. Raises `TablesError` without columns, or with a column named twice."""
    table = existing(connection, change.table)
    columns = [table.column(name).name for name in change.columns]
    if not columns or len(set(columns)) < len(columns):
        raise TablesError(
            f"an index of table {table.name} has no columns, or one column twice", "Name each column once."
        )
    name = change.name or "_".join([table.name, *columns, "index"])[:MAX_NAME_LENGTH].strip()
    check_name(name, "an index")
    refuse_taken(connection, name, "index")
    if change.unique:
        refuse_duplicates(connection, table, columns)
    kind = "UNIQUE INDEX" if change.unique else "INDEX"
    names = ", ".join(quoted(column) for column in columns)
    connection.execute(f"CREATE {kind} {quoted(name)} ON {quoted(table.name)} ({names})")


def drop_index(connection: Connection, change: DropIndex) -> None:
    """Drop an index that `CREATE INDEX` made.

    Raises `TablesError` for other names, including indexes of keys and unique columns.
    """
    for table in read(connection).values():
        for index in table.indexes:
            if fold(index.name) == fold(change.name):
                connection.execute(f"DROP INDEX {quoted(index.name)}")
                return
    names = [index.name for table in read(connection).values() for index in table.indexes]
    raise TablesError(
        f"index {change.name} does not exist",
        f"Available: {', '.join(names)}." if names else "The project has no indexes.",
    )
