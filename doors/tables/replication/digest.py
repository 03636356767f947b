"""A hash of the schema and the rows of a copy, which is equal on all nodes at an entry of the log."""

import marshal
import time
from hashlib import sha256
from itertools import islice
from typing import Any

from doors.tables.sqlite.connections import REPLICA_TABLE, Connection
from doors.tables.sqlite.errors import quoted, rows

CHUNK_ROWS = 500
_AS_BYTES = "typeof({0}), iif(typeof({0}) = 'text', CAST({0} AS BLOB), {0})"
"""A column that may have text that is not Unicode."""
_FORMAT = 2
"""Version of `marshal` whose bytes depend on the values alone."""


def digest_of(connection: Connection) -> str:
    """Return the hash of what a transaction sees; empty if SQLite finds an error in the file.

    Rests as long as it works, because it holds the interpreter's lock. Raises SQLite's errors.
    """
    if rows(connection, "PRAGMA integrity_check(1)") != [("ok",)]:
        return ""
    digest = sha256()
    schema = (
        "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name <> ? AND name NOT LIKE 'sqlite\\_%'"
        " ESCAPE '\\' ORDER BY type, name"
    )
    definitions = rows(connection, schema, REPLICA_TABLE)
    digest.update(marshal.dumps(definitions, _FORMAT))
    tables = "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'shadow')"
    for table, without_rowid in sorted(rows(connection, tables)):
        if table == REPLICA_TABLE or table.startswith("sqlite_"):
            continue
        key = "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk"
        columns = [quoted(name) for (name,) in rows(connection, key, table)]
        stored = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden <> 2"  # Others are computed by a query.
        names = [quoted(name) for (name,) in rows(connection, stored, table)]
        rowid = [] if columns or without_rowid else ["rowid"]
        order = f"FROM {quoted(table)} ORDER BY {', '.join(columns) or 'rowid'}"
        before = digest.copy()
        try:
            _add_rows(digest, connection, f"SELECT {', '.join(rowid + names)} {order}")
        except UnicodeDecodeError:
            digest = before
            values = [*rowid, *map(_AS_BYTES.format, names)]
            _add_rows(digest, connection, f"SELECT {', '.join(values)} {order}")
    return digest.hexdigest()


def _add_rows(digest: Any, connection: Connection, sql: str) -> None:
    cursor = connection.execute(sql)
    began = time.monotonic()
    while chunk := list(islice(cursor, CHUNK_ROWS)):
        digest.update(marshal.dumps(chunk, _FORMAT))
        time.sleep(time.monotonic() - began)
        began = time.monotonic()
