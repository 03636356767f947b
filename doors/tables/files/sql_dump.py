"""Dump of tables as SQL for svc and the sqlite3 shell."""

from collections.abc import Iterator

from doors.tables.files.dump_contents import Contents, Part
from doors.tables.sqlite.errors import Connection, literal, quoted

HEAD = "-- Tables of a svc project, as SQL.\nPRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n"
TAIL = "COMMIT;\n"


def dump(connection: Connection, contents: Contents) -> Iterator[tuple[str, str, int]]:
    """Yield the dump in pieces: the name of the table, the SQL, and its number of rows."""
    yield "", HEAD, 0
    for part in contents.internal:
        create_sql = part.sql.replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1)
        yield part.name, f"{create_sql};\n", 0
        yield from _rows(connection, part, "INSERT OR REPLACE")
    for part in contents.tables:
        yield part.name, f"{part.sql};\n", 0
        yield from _rows(connection, part, "INSERT")
        if part.last is not None:
            name = literal(part.name)
            yield part.name, f"DELETE FROM sqlite_sequence WHERE name = {name};\n", 0
            yield part.name, f"INSERT INTO sqlite_sequence VALUES ({name}, {part.last});\n", 0
    for part in contents.virtual:
        yield part.name, f"{part.sql};\n", 0
        yield from _rows(connection, part, "INSERT", number=True)
        if part.refill:
            yield part.name, f"{part.refill};\n", 0
    for sql in contents.dependents:
        yield "", f"{sql};\n", 0
    yield "", TAIL, 0


def _rows(
    connection: Connection, part: Part, verb: str, *, number: bool = False
) -> Iterator[tuple[str, str, int]]:
    head = f"{verb} INTO {quoted(part.name)} ({part.names(number=number)}) VALUES ("
    for row in connection.execute(part.select(number=number)):
        yield part.name, f"{head}{', '.join(map(literal, row))});\n", 1
