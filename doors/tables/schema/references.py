"""Whether every view and every trigger finds what it names: SQLite itself asks only when they are used."""

from doors.tables.sqlite.catalog import read
from doors.tables.sqlite.errors import Connection, Error, quoted, rows


def find_broken(connection: Connection) -> str:
    """Return what SQLite says of the first view or trigger that leads nowhere, or an empty text.

    To be called in a transaction with the right to write. Nothing of it stays.
    """
    connection.execute("CREATE TABLE _svc_probe (a)")
    try:
        # It looks at all views, and at most of every trigger, when a column of whatever table is renamed.
        connection.execute("ALTER TABLE _svc_probe RENAME a TO b")
    except Error as error:
        return str(error)
    finally:
        connection.execute("DROP TABLE _svc_probe")
    return _broken_trigger(connection)


def _broken_trigger(connection: Connection) -> str:
    """Compile one statement of each kind for each table that has triggers, and with it the triggers."""
    tables = read(connection)
    for (name,) in rows(connection, "SELECT DISTINCT tbl_name FROM sqlite_schema WHERE type = 'trigger'"):
        if name not in tables:
            continue
        table = quoted(name)
        names = [quoted(column.name) for column in tables[name].columns if not column.generated]
        statements = [f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(names)} FROM {table}"]
        statements += [f"UPDATE {table} SET {', '.join(f'{each} = {each}' for each in names)}"]
        statements += [f"DELETE FROM {table}"]
        for sql in statements:
            try:
                connection.execute(f"EXPLAIN {sql}").fetchone()
            except Error as error:
                # A view takes only what its triggers are there for.
                if tables[name].kind == "table":
                    triggers = rows(
                        connection,
                        "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?",
                        name,
                    )
                    return f"trigger {' or '.join(each[0] for each in triggers)}: {error}"
    return ""
