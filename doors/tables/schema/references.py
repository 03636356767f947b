"""Detection of views and triggers with broken references, which SQLite reports only when they are used."""

from doors.tables.sqlite.catalog import read
from doors.tables.sqlite.errors import Connection, Error, quoted, rows


def find_broken(connection: Connection) -> str:
    """Return SQLite's message for the first broken view or trigger, or an empty text.

    Needs a write transaction, and leaves no changes in it.
    """
    connection.execute("CREATE TABLE _svc_probe (a)")
    try:
        # Renaming any column makes SQLite check all views and most of every trigger.
        connection.execute("ALTER TABLE _svc_probe RENAME a TO b")
    except Error as error:
        return str(error)
    finally:
        connection.execute("DROP TABLE _svc_probe")
    return _broken_trigger(connection)


def _broken_trigger(connection: Connection) -> str:
    """Compile one statement of each kind for each table with triggers, which compiles the triggers."""
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
                # A view accepts only the statements that its triggers handle.
                if tables[name].kind == "table":
                    triggers = rows(
                        connection,
                        "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?",
                        name,
                    )
                    return f"trigger {' or '.join(each[0] for each in triggers)}: {error}"
    return ""
