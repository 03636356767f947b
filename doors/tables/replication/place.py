"""The place of a database file in the log: a row that each transaction of the log updates."""

from collections.abc import Mapping
from typing import NamedTuple

from doors.tables.sqlite.connections import REPLICA_TABLE, Connection, Error
from doors.tables.sqlite.errors import rows

CREATE = f"""CREATE TABLE IF NOT EXISTS {REPLICA_TABLE} (
    one INTEGER PRIMARY KEY CHECK (one = 1), log TEXT NOT NULL, sequence INTEGER NOT NULL,
    chain TEXT NOT NULL, schema_shift INTEGER NOT NULL
)"""


class Place(NamedTuple):
    """The last entry of the log `log` that the file contains, and its hash.

    `schema_shift` is the log's schema version minus that of the file.
    """

    log: str
    sequence: int
    chain: str
    schema_shift: int


def read_place(connection: Connection) -> Place:
    """Return the place of a file that has one. Raises SQLite's errors."""
    sql = f"SELECT log, sequence, chain, schema_shift FROM {REPLICA_TABLE}"
    row = connection.execute(sql).fetchone()
    return Place(*row) if row else Place("", 0, "", 0)


def store_place(connection: Connection, place: Place) -> None:
    """Store the place in the current transaction. Raises SQLite's errors."""
    connection.execute(f"INSERT OR REPLACE INTO {REPLICA_TABLE} VALUES (1, ?, ?, ?, ?)", place)


def schema_version(connection: Connection) -> int:
    """Return SQLite's counter of schema changes."""
    return int(connection.pragma("schema_version"))


def sequences_of(connection: Connection) -> Mapping[str, int]:
    """Return the last keys of tables with AUTOINCREMENT, which sessions do not record."""
    try:
        return dict(rows(connection, "SELECT name, seq FROM sqlite_sequence"))
    except Error:  # No table has AUTOINCREMENT.
        return {}
