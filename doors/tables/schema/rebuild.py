"""Rebuild of a table with another definition, for changes that ALTER TABLE does not support.

The rows are staged in a table without constraints while theirs is recreated. Renaming the table instead would
make SQLite parse, and possibly rewrite, its checks and all views, triggers and foreign keys that use it.
Source: https://sqlite.org/lang_altertable.html#making_other_kinds_of_table_schema_changes
"""

from collections.abc import Mapping

from doors.tables.schema.rows import row_name
from doors.tables.sqlite.catalog import Table
from doors.tables.sqlite.errors import Connection, fold, quoted, rows, scalar
from doors.tables.sqlite.tokens import Definition, parse


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
    key_is_rowid = _key_is_rowid(connection, table.name)
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


def _key_is_rowid(connection: Connection, table: str) -> bool:
    """Return whether the primary key is the rowid: one column that is declared INTEGER."""
    key_types = rows(connection, "SELECT upper(type) FROM pragma_table_info(?) WHERE pk", table)
    return key_types == [("INTEGER",)]


def last_rowid(connection: Connection, table: Table) -> int | None:
    """Return the highest rowid that AUTOINCREMENT ever assigned, or None."""
    if not scalar(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'"):
        return None
    sequence: int | None = scalar(connection, "SELECT seq FROM sqlite_sequence WHERE name = ?", table.name)
    return sequence
