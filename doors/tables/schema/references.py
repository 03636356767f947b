"""Detection of views, triggers and full-text indexes with broken references.

SQLite reports them only when they are used.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from doors.tables.schema.rows import ROW_NAMES
from doors.tables.sqlite.catalog import Table, read
from doors.tables.sqlite.errors import Connection, Error, TablesError, fold, quoted, rows

_OPTION = re.compile(r"\b(content|content_rowid)\s*=\s*('[^']*'|\"[^\"]*\"|\w+)", re.IGNORECASE)


@contextmanager
def unbroken(connection: Connection, subject: str, hint: str) -> Iterator[None]:
    """Raise `TablesError` if what is done within breaks a view, trigger or full-text index.

    Needs a write transaction, and leaves no changes in it.
    """
    was_valid = not find_broken(connection)
    yield
    if was_valid and (broken := find_broken(connection)):
        raise TablesError(f"{subject}: {broken}", hint)


def find_broken(connection: Connection) -> str:
    """Return the message for the first broken view, trigger or full-text index, or an empty text."""
    connection.execute("CREATE TABLE _svc_probe (a INTEGER PRIMARY KEY)")
    try:
        # Renaming any column makes SQLite check all views and most of every trigger.
        connection.execute("ALTER TABLE _svc_probe RENAME a TO b")
    except Error as error:
        return str(error)
    finally:
        connection.execute("DROP TABLE _svc_probe")
    tables = read(connection)
    virtual = rows(connection, "SELECT name, sql FROM sqlite_schema WHERE sql LIKE 'create virtual%'")
    broken = (broken_index(tables, *each) for each in virtual)
    return next(filter(None, broken), "") or _broken_trigger(connection, tables)


def index_options(sql: str) -> dict[str, str]:
    """Return where a full-text index reads its rows: `content` is empty for nowhere."""
    return {option[1].lower(): option[2].strip("'\"") for option in _OPTION.finditer(sql)}


def broken_index(tables: Mapping[str, Table], name: str, sql: str) -> str:
    """Return what a full-text index lacks of the table or view that it reads, or an empty text."""
    options = index_options(sql)
    if not (content := options.get("content")):
        return ""
    for table in tables.values():
        if fold(table.name) == fold(content):
            columns = {fold(column.name) for column in table.columns} | set(ROW_NAMES)
            needed = [
                *(column.name for column in tables[name].columns),
                options.get("content_rowid", "rowid"),
            ]
            missing = [column for column in needed if fold(column) not in columns]
            return f"full-text index {name} reads column {missing[0]} of {content}" if missing else ""
    return f"full-text index {name} reads {content}"


def _broken_trigger(connection: Connection, tables: Mapping[str, Table]) -> str:
    """Compile one statement of each kind for each table with triggers, which compiles the triggers."""
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
