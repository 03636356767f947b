"""Rebuild of tables with another definition, and detection of views, triggers and indexes that this breaks.

SQLite reports broken ones only when they are used. ALTER TABLE does not support every change. In a rebuild,
the rows are staged in a table without constraints while theirs is recreated. Renaming the table instead would
make SQLite parse, and possibly rewrite, its checks and all views, triggers and foreign keys that use it.
Source: https://sqlite.org/lang_altertable.html#making_other_kinds_of_table_schema_changes
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from doors.tables.schema.rows import ROW_NAMES, row_name
from doors.tables.sqlite.catalog import Table, lookup, read
from doors.tables.sqlite.errors import Connection, Error, TablesError, fold, quoted, rows, scalar
from doors.tables.sqlite.tokens import Definition, parse

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
    if (table := lookup(tables, content)) is None:
        return f"full-text index {name} reads {content}"
    columns = {fold(column.name) for column in table.columns} | set(ROW_NAMES)
    needed = [*(column.name for column in tables[name].columns), options.get("content_rowid", "rowid")]
    missing = [column for column in needed if fold(column) not in columns]
    return f"full-text index {name} reads column {missing[0]} of {content}" if missing else ""


def _broken_trigger(connection: Connection, tables: Mapping[str, Table]) -> str:
    """Compile one statement of each kind for each table with triggers, which compiles the triggers."""
    for (name,) in rows(connection, "SELECT DISTINCT tbl_name FROM sqlite_schema WHERE type = 'trigger'"):
        if name not in tables:
            continue
        table = quoted(name)
        names = [quoted(column.name) for column in tables[name].stored]
        for sql in (
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(names)} FROM {table}",
            f"UPDATE {table} SET {', '.join(f'{each} = {each}' for each in names)}",
            f"DELETE FROM {table}",
        ):
            try:
                connection.execute(f"EXPLAIN {sql}").fetchone()
            except Error as error:
                # A view accepts only the statements that its triggers handle.
                if tables[name].kind == "table":
                    listing = "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?"
                    triggers = [trigger for (trigger,) in rows(connection, listing, name)]
                    return f"trigger {' or '.join(triggers)}: {error}"
    return ""


def definition_of(connection: Connection, table: Table) -> Definition:
    """Return the current definition of a table."""
    sql = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?"
    return parse(scalar(connection, sql, table.name))


def rebuild(
    connection: Connection,
    table: Table,
    definition: Definition,
    values: Mapping[str, str] | None = None,
    staging: str = "_svc_rows",
) -> list[str]:
    """Recreate a table with another definition; preserve its rows, rowids, indexes and triggers.

    `values` has the SQL expression of each column that is not copied from the old column of its name. The
    transaction must not enforce foreign keys. Return the statements that were run, except for AUTOINCREMENT.
    """
    script: list[str] = []

    def run(sql: str) -> None:
        script.append(sql)
        connection.execute(sql)

    expressions = {fold(column.name): quoted(column.name) for column in table.columns}
    expressions |= {fold(name): sql for name, sql in (values or {}).items()}
    copied = [
        column.name
        for column in definition.columns
        if fold(column.name) in expressions and not column.has("GENERATED")
    ]
    targets = [quoted(name) for name in copied]
    sources = [expressions[fold(name)] for name in copied]
    number = row_name(table)
    name = quoted(table.name)
    dependants = rows(
        connection,
        "SELECT sql FROM sqlite_schema"
        " WHERE tbl_name = ? AND type IN ('index', 'trigger') AND sql IS NOT NULL",
        table.name,
    )
    last = last_rowid(connection, table)
    staged = [f"c{at}" for at in range(len(sources))]
    # Columns without a type do not convert values.
    run(f"CREATE TABLE {staging} (place INTEGER PRIMARY KEY, {', '.join(['number', *staged])})")
    order = number or ", ".join(map(quoted, table.key))
    run(
        f"INSERT INTO {staging} ({', '.join(['number', *staged])})"
        f" SELECT {', '.join([number or 'NULL', *sources])} FROM {name}"
        + (f" ORDER BY {order}" if order else "")
    )
    run(f"DROP TABLE {name}")
    run(definition.sql(table.name))
    # The primary key is the rowid if it is one column that is declared INTEGER.
    key_types = rows(connection, "SELECT upper(type) FROM pragma_table_info(?) WHERE pk", table.name)
    key_is_rowid = key_types == [("INTEGER",)]
    if number and not key_is_rowid and "WITHOUT" not in definition.options.upper():
        targets.append(number)
        staged.append("number")
    run(f"INSERT INTO {name} ({', '.join(targets)}) SELECT {', '.join(staged)} FROM {staging} ORDER BY place")
    run(f"DROP TABLE {staging}")
    for (sql,) in dependants:
        run(sql)
    if last is not None and key_is_rowid:
        connection.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, table.name))
    return script


def last_rowid(connection: Connection, table: Table) -> int | None:
    """Return the highest rowid that AUTOINCREMENT ever assigned, or None."""
    if not scalar(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'"):
        return None
    sequence: int | None = scalar(connection, "SELECT seq FROM sqlite_sequence WHERE name = ?", table.name)
    return sequence
