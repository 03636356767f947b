"""Indexes made and dropped, within a transaction."""

from doors.tables.schema.change import CreateIndex, DropIndex
from doors.tables.schema.names import MAX_NAME_LENGTH, check_name
from doors.tables.schema.rows import refuse_duplicates
from doors.tables.schema.tables import existing, refuse_taken
from doors.tables.sqlite.catalog import read
from doors.tables.sqlite.errors import Connection, TablesError, fold, quoted


def create(connection: Connection, change: CreateIndex) -> None:
    """Make an index."""
    table = existing(connection, change.table)
    columns = [table.column(name).name for name in change.columns]
    if not columns or len(set(columns)) < len(columns):
        raise TablesError(
            f"an index of table {table.name} is over no column, or over one twice", "Name each column once."
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
    """Remove an index that was made by hand; those of keys and unique columns go with these."""
    for table in read(connection).values():
        for index in table.indexes:
            if fold(index.name) == fold(change.name):
                connection.execute(f"DROP INDEX {quoted(index.name)}")
                return
    names = [index.name for table in read(connection).values() for index in table.indexes]
    raise TablesError(
        f"there is no index {change.name}", f"There are {', '.join(names)}." if names else "There are none."
    )
