"""Checks for tables and statements that replication cannot carry."""

import re
from collections.abc import Mapping

from doors.tables.replication.errors import ReplicationError
from doors.tables.sqlite.errors import Connection, rows

NOT_REPLICABLE = "not-replicable"
_AS_SELECT = re.compile(r"\s*create\s+table\b[^(]*?\bas\b", re.IGNORECASE)


def check_statement(sql: str) -> None:
    """Raise `ReplicationError` for a statement whose result may differ between nodes."""
    if _AS_SELECT.match(sql):
        raise ReplicationError(
            NOT_REPLICABLE,
            "CREATE TABLE … AS is not possible in a fleet: its rows may differ between nodes",
            "Write CREATE TABLE with the columns, then INSERT INTO … SELECT.",
        )


def unsound_tables(connection: Connection) -> Mapping[str, str]:
    """Return the reason for each table whose rows cannot be replicated, by its name."""
    tables = (
        "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
        " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    reasons: dict[str, str] = {}
    for name, without_rowid in rows(connection, tables):
        if reason := _unsound_key(connection, name, bool(without_rowid)):
            reasons[name] = reason
    return reasons


def _unsound_key(connection: Connection, table: str, without_rowid: bool) -> str | None:
    columns = 'SELECT name, upper(type), "notnull" FROM pragma_table_info(?) WHERE pk > 0'
    key = rows(connection, columns, table)
    if not key or (len(key) == 1 and key[0][1] == "INTEGER" and not without_rowid):
        return None
    for column, type_, not_null in key:
        if not not_null and not without_rowid:
            return (
                f"the primary key {column} of table {table} may be NULL, which a fleet does not replicate;"
                f" declare it {column} {type_} NOT NULL"
            )
    collations = (
        "SELECT x.name, x.coll FROM pragma_index_list(?) AS l, pragma_index_xinfo(l.name) AS x"
        " WHERE l.origin = 'pk' AND x.key AND upper(x.coll) <> 'BINARY'"
    )
    for column, collation in rows(connection, collations, table):
        return (
            f"the primary key {column} of table {table} has COLLATE {collation}, which a fleet does not"
            f" replicate; remove it, and create a unique index with that collation"
        )
    return None
