"""Checks for tables that replication cannot carry."""

from collections.abc import Mapping

from doors.tables.replication.errors import ReplicationError
from doors.tables.sqlite.errors import Connection, rows

Unsound = tuple[str, str, bool]
"""Why a table cannot be created in a fleet, the remedy, and whether one that exists is replicated."""
_TABLES = "pragma_table_list AS t WHERE t.schema = 'main' AND t.type = 'table'"


def not_replicable(reason: str, hint: str = "Nothing was changed.") -> ReplicationError:
    """Return the error of a transaction or table."""
    return ReplicationError("not-replicable", f"a fleet does not replicate {reason}", hint)


def stored_tables(connection: Connection) -> Mapping[int, tuple[str, str]]:
    """Return name and definition of each table by its root page, which a rename does not change."""
    sql = (
        "SELECT s.rootpage, s.name, s.sql FROM sqlite_schema AS s, "
        f"{_TABLES} AND t.name = s.name AND s.type = 'table' AND s.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    return {root: (name, sql) for root, name, sql in rows(connection, sql)}


def unsound_tables(connection: Connection) -> Mapping[str, Unsound]:
    """Return the tables that cannot be created in a fleet, by name."""
    keys = (
        'SELECT t.name, t.wr, c.name, c."notnull", upper(x.coll)'
        " FROM pragma_index_list(t.name, 'main') AS l, pragma_index_xinfo(l.name, 'main') AS x,"
        f" pragma_table_info(t.name, 'main') AS c, {_TABLES}"
        " AND l.origin = 'pk' AND x.key AND c.cid = x.cid"
    )
    unsound: dict[str, Unsound] = {}
    for table, without_rowid, column, not_null, collation in rows(connection, keys):
        if collation != "BINARY":
            reason = f"the COLLATE {collation} of the primary key {column} of table {table}"
            remedy = f"Remove it from {column}, and create a unique index with that collation."
            unsound[table] = reason, remedy, False
        elif not without_rowid and (table not in unsound or not not_null):
            reason = f"the rowids that table {table} has besides its primary key"
            remedy = f"Add WITHOUT ROWID to the CREATE TABLE of {table}."
            unsound[table] = reason, remedy, bool(not_null)
    # Sessions of SQLite 3.54 record updates of more than a hundred rows of such tables wrongly.
    without_key = (
        "SELECT t.name, max(c.name = '_rowid_' COLLATE NOCASE) FROM"
        f" pragma_table_info(t.name, 'main') AS c, {_TABLES} AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        " GROUP BY t.name HAVING max(c.pk) = 0"
    )
    for table, hides_rowid in rows(connection, without_key):
        reason = f"table {table}, which has no primary key"
        remedy = f"Add id INTEGER PRIMARY KEY to the CREATE TABLE of {table}."
        unsound[table] = reason, remedy, not hides_rowid
    return unsound
