"""Recording of a connection's transactions: each is appended to the log before it is committed here.

SQLite's session extension records changed rows, and statements that change the schema are recorded as text. A
trace of all statements is the only hook, so code that writes need not know about replication.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal, Protocol

from doors.tables.replication.entry import Entry, Part
from doors.tables.replication.errors import Conflict, ReplicationError
from doors.tables.replication.log_position import (
    LogPosition,
    read_log_position,
    schema_version,
    sequences_of,
    store_log_position,
)
from doors.tables.replication.soundness import NOT_REPLICABLE, check_statement, unsound_tables
from doors.tables.sqlite.connections import REPLICA_TABLE, Connection, Error, apsw

_BLANK = r"(?:\s|--[^\n]*(?:\n|\Z)|/\*(?:[^*]|\*(?!/))*(?:\*/|\Z))*"
_WORD = re.compile(rf"{_BLANK}([a-z]+)(?:{_BLANK}([a-z]+))?", re.IGNORECASE)
_TEMPORARY = re.compile(rf"{_BLANK}(?:create|drop|alter){_BLANK}\w+{_BLANK}temp\.", re.IGNORECASE)
_CACHED_SQL = 2048
EXCLUSIVE_CONFLICTS = 3
"""After so many conflicts a transaction claims the tables."""
MAX_CONFLICTS = 20

Action = Literal["rows", "schema", "begin", "commit", "rollback", ""]


class Writing(Protocol):
    """The replica of a recorder. The methods block."""

    node: str

    def before_write(self, *, exclusive: bool) -> str:
        """Wait for claims of other nodes; if `exclusive`, claim the tables and return the id of the claim."""

    def is_behind(self, log_position: LogPosition) -> bool:
        """Return whether the log has entries after a position. Raises `SvcError`."""

    def publish(self, content: bytes, log_position: LogPosition, claim: str) -> int:
        """Append an entry after a position, with a claim or none, and return its sequence.

        Raises `Conflict` and `SvcError`.
        """

    def on_written(self, log_position: LogPosition | None, claim: str) -> None:
        """Note the end of a publication, and of its claim. The position is None if the file lacks it."""

    def release(self, claim: str) -> None:
        """End a claim whose transaction changed nothing."""

    def refresh(self) -> None:
        """Wait until the copy has all entries of the log. Raises `SvcError`."""

    def wait_for_entry(self, sequence: int) -> None:
        """Wait until the copy has an entry after a sequence, which the log has. Raises `SvcError`."""


@lru_cache(4096)
def _cached_action(sql: str) -> Action:
    words = _WORD.match(sql)
    if words is None:
        return ""
    first, second = words[1].lower(), (words[2] or "").lower()
    match first:
        case "insert" | "update" | "delete" | "replace" | "with":
            return "rows"
        case "create" | "alter" | "drop" | "reindex" | "analyze":
            return "" if second.startswith("temp") or _TEMPORARY.match(sql) else "schema"
        case "begin":
            return "begin" if second in ("immediate", "exclusive") else ""
        case "commit" | "end":
            return "commit"
        case "rollback":
            return "" if second == "to" else "rollback"
    return ""


def action_of(sql: str) -> Action:
    """Return what a statement does, by its first words."""
    return _cached_action(sql if len(sql) <= _CACHED_SQL else sql[:_CACHED_SQL])


class Recorder:
    """Records one connection."""

    def __init__(self, connection: Connection, replica: Writing, *, exclusive: bool) -> None:
        self._connection, self._replica, self._exclusive = connection, replica, exclusive
        self._claim = ""
        self._conflicts = 0
        self._lost_after: int | None = None
        """The sequence of the last conflict."""
        self._refreshed = False
        """Whether the transaction began after the copy was brought up to date for another try of it."""
        # SQLite compiles DELETE without WHERE to a truncation, unless a session exists.
        self._sentinel = apsw.Session(connection, "main")
        self._session: Any = None
        self._parts: list[Part] = []
        self._changing = self._internal = False
        self._schema = 0
        self._sequences: Mapping[str, int] = {}
        self._checked_schema = -1
        self._unsound: Mapping[str, str] = {}
        self._refused: list[str] = []
        connection.exec_trace = self

    def __call__(self, cursor: Any, sql: str, _bindings: object) -> bool:
        """Record a statement that is about to run; see `exec_trace` of apsw."""
        if self._internal:
            return True
        match action_of(sql):
            case "rows":
                if self._session is None and not cursor.is_readonly:
                    with self._own_statements():
                        self._begin_changes()
                        self._begin_session()
            case "schema":
                with self._own_statements():
                    self._begin_changes()
                    check_statement(sql)
                    self._check_soundness()
                    self._end_session()
                    self._parts.append(sql)
            case "begin":
                self._discard()
                exclusive = self._exclusive or self._conflicts >= EXCLUSIVE_CONFLICTS
                self._claim = self._replica.before_write(exclusive=exclusive)
            case "commit":
                if self._connection.in_transaction:
                    with self._own_statements():
                        self._commit()
            case "rollback":
                self._discard()
                self._refreshed = False
        return True

    @contextmanager
    def _own_statements(self) -> Iterator[None]:
        connection = self._connection
        authorizer: Any = connection.authorizer
        # Another authorizer would make SQLite compile all statements again.
        flag = getattr(authorizer, "unrestricted", None)
        self._internal = True
        try:
            if flag is not None:
                authorizer.unrestricted = True
            elif authorizer is not None:
                connection.authorizer = None
            yield
        finally:
            self._internal = False
            if flag is not None:
                authorizer.unrestricted = flag
            elif authorizer is not None:
                connection.authorizer = authorizer

    def _begin_changes(self) -> None:
        if not self._changing:
            self._changing = True
            self._schema = schema_version(self._connection)
            self._sequences = sequences_of(self._connection)

    def _begin_session(self) -> None:
        self._check_soundness()
        self._session = apsw.Session(self._connection, "main")
        self._session.config(apsw.SQLITE_SESSION_OBJCONFIG_ROWID, True)
        self._session.table_filter(self._records)
        self._session.attach()

    def _check_soundness(self) -> Mapping[str, str]:
        """Return the tables that this transaction has made impossible to replicate, each with the reason."""
        schema, before = schema_version(self._connection), self._unsound
        if schema == self._checked_schema:
            return {}
        self._unsound = unsound_tables(self._connection)
        first, self._checked_schema = self._checked_schema < 0, schema
        return (
            {} if first else {table: self._unsound[table] for table in self._unsound.keys() - before.keys()}
        )

    def check_schema(self) -> None:
        """Raise `ReplicationError` if the last statement made a table that cannot be replicated."""
        with self._own_statements():
            for reason in self._check_soundness().values():
                raise ReplicationError(NOT_REPLICABLE, reason, "Nothing was changed.")

    def _records(self, table: str) -> bool:
        if table in self._unsound:
            self._refused.append(self._unsound[table])
        return table != REPLICA_TABLE

    def _end_session(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            try:
                if changes := session.changeset():
                    self._parts.append(changes)
            finally:
                session.close()

    def _commit(self) -> None:
        """Append the changes to the log and commit them; the caller's commit then ends an empty transaction.

        A transaction that violates a foreign key stays as it is: the caller's commit fails.
        """
        if not self._changing:
            self._end_unchanged()
            return
        connection = self._connection
        if connection.status(apsw.SQLITE_DBSTATUS_DEFERRED_FKS)[0]:
            return
        self._end_session()
        if self._refused:
            raise ReplicationError(NOT_REPLICABLE, self._refused[0], "Change its primary key in a migration.")
        for reason in self._check_soundness().values():
            raise ReplicationError(NOT_REPLICABLE, reason, "Nothing was changed.")
        if not self._parts:
            self._end_unchanged()
            return
        log_position = read_log_position(connection)
        now = sequences_of(connection)
        entry = Entry(
            kind="rows",
            previous=log_position.chain,
            node=self._replica.node,
            schema=self._schema + log_position.schema_shift,
            parts=tuple(self._parts),
            sequences={
                name: now.get(name)
                for name in self._sequences.keys() | now.keys()
                if self._sequences.get(name) != now.get(name)
            },
            claim=self._claim,
        )
        content = entry.encode()
        try:
            sequence = self._replica.publish(content, log_position, self._claim)
        except Conflict as conflict:
            self._lost_after = conflict.after
            raise
        claim, self._claim, self._conflicts, self._refreshed = self._claim, "", 0, False
        after: LogPosition | None = log_position.after(sequence, content)
        try:
            assert after is not None
            store_log_position(connection, after)
            connection.execute("COMMIT")
        except Error:  # The log has the transaction: it is applied later.
            after = None
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        finally:
            self._replica.on_written(after, claim)
            self._discard()
        connection.execute("BEGIN")

    def _end_unchanged(self) -> None:
        """Raise `Conflict` if the transaction may have changed nothing because the copy lacks entries."""
        log_position = read_log_position(self._connection)
        if not (self._claim or self._refreshed) and self._replica.is_behind(log_position):
            self._lost_after = None
            raise Conflict
        self._conflicts, self._refreshed = 0, False
        self._discard()

    def _discard(self) -> None:
        """Forget the changes of a transaction that ends."""
        if self._session is not None:
            self._session.close()
            self._session = None
        self._parts.clear()
        self._refused.clear()
        self._changing = False
        if self._claim:
            self._replica.release(self._claim)
            self._claim = ""

    def settle(self) -> None:
        """Prepare for another try after `Conflict`. Raises `SvcError`, and `Conflict` after too many."""
        self._conflicts += 1
        if self._conflicts > MAX_CONFLICTS:
            self._conflicts = 0
            raise Conflict
        if self._lost_after is None:
            self._replica.refresh()
            self._refreshed = True
        else:
            self._replica.wait_for_entry(self._lost_after)

    def close(self) -> None:
        """End the recording of a connection that closes."""
        self._discard()
        self._sentinel.close()
