"""Index changes, inside a transaction."""

from doors.tables.schema.change import CreateIndex, DropIndex
from doors.tables.schema.names import MAX_NAME_LENGTH, check_name
from doors.tables.schema.rows import refuse_duplicates
from doors.tables.schema.tables import existing, refuse_taken
from doors.tables.sqlite.catalog import read
from doors.tables.sqlite.errors import Connection, TablesError, fold, quoted


def create(connection: Connection, change: CreateIndex) -> None:
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


def drop(connection: Connection, change: DropIndex) -> None:
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
