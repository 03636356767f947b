"""The position of a database file in the log: a row that each transaction of the log updates."""

from collections.abc import Mapping
from typing import NamedTuple

from doors.tables.replication.entry import chain_of
from doors.tables.sqlite.connections import REPLICA_TABLE, Connection
from doors.tables.sqlite.errors import SqlError, rows

ENTRY_BYTES = 4096
"""Size of an entry in the log besides its content: what it costs to store and apply it."""
CREATE = f"""CREATE TABLE IF NOT EXISTS {REPLICA_TABLE} (
    one INTEGER PRIMARY KEY CHECK (one = 1), log TEXT NOT NULL, sequence INTEGER NOT NULL,
    chain TEXT NOT NULL, schema_shift INTEGER NOT NULL, logged INTEGER NOT NULL,
    lease TEXT NOT NULL DEFAULT ''
)"""


class LogPosition(NamedTuple):
    """The last entry of the log `log` that the file contains, and its hash.

    `schema_shift` is the log's schema version minus that of the file. `logged` is the size of the log up to
    there, which is the same on all nodes. `lease` is that of the node that writes to the tables after this
    entry, empty for none.
    """

    log: str
    sequence: int
    chain: str
    schema_shift: int
    logged: int
    lease: str = ""

    def after(self, sequence: int, content: bytes, lease: str | None = None) -> "LogPosition":
        """Return the position after an entry, which gives the tables to a `lease` unless that is None."""
        return self._replace(
            sequence=sequence,
            chain=chain_of(content),
            logged=self.logged + len(content) + ENTRY_BYTES,
            lease=self.lease if lease is None else lease,
        )


CLOSED = LogPosition("", -1, "", 0, 0)
"""The position of a file that is not open, or of no entry."""


def read_log_position(connection: Connection) -> LogPosition:
    """Return the position of a file that has one. Raises SQLite's errors."""
    sql = f"SELECT log, sequence, chain, schema_shift, logged, lease FROM {REPLICA_TABLE}"
    row = connection.execute(sql).fetchone()
    return LogPosition(*row) if row else LogPosition("", 0, "", 0, 0)


def store_log_position(connection: Connection, log_position: LogPosition) -> None:
    """Store the position in the current transaction. Raises SQLite's errors."""
    connection.execute(f"INSERT OR REPLACE INTO {REPLICA_TABLE} VALUES (1, ?, ?, ?, ?, ?, ?)", log_position)


def schema_version(connection: Connection) -> int:
    """Return SQLite's counter of schema changes."""
    return int(connection.pragma("schema_version"))


def sequences_of(connection: Connection) -> Mapping[str, int]:
    """Return the last keys of tables with AUTOINCREMENT, which sessions do not record."""
    try:
        return dict(rows(connection, "SELECT name, seq FROM sqlite_sequence"))
    except SqlError:  # No table has AUTOINCREMENT.
        return {}
