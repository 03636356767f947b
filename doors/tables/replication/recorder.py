"""Recording of a connection's transactions: each is appended to the log before it is committed here.

SQLite's session extension records changed rows. A statement that has changed the schema is recorded as text.
A trace of all statements finds both. A transaction that changed more than that is refused in a fleet. On one
machine it is an entry without content, a gap.
"""

from collections.abc import Container, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from doors.tables.replication.copy import (
    LogPosition,
    read_log_position,
    schema_version,
    sequences_of,
    store_log_position,
)
from doors.tables.replication.entry import Entry, Origin, Part
from doors.tables.replication.errors import Conflict, ReplicationError
from doors.tables.sqlite.connections import REPLICA_TABLE, Connection, Error, apsw
from doors.tables.sqlite.errors import quoted, rows, scalar
from doors.tables.sqlite.tokens import first_word

if TYPE_CHECKING:
    from doors.tables.replication.journal import Journal
    from doors.tables.replication.replica import Replica

_ROWS = frozenset({"insert", "update", "delete", "replace", "with"})
"""First words of statements that do not change the schema. It is checked before the commit."""
_CACHED_SQL = 2048
NO_KEY = ", which has no primary key"
"""End of the reason for a gap whose parts are complete for other tables."""
_OUTSIDE = "a change outside of a transaction"
DROPPED_BYTES = 16 << 20
"""Size of a table up to which its rows are recorded when it is dropped."""
MAX_CHANGES = 256 << 20
"""Size of the changes of a transaction. On one machine, one with more is a gap."""
Unsound = tuple[str, str, bool]
"""Why a table cannot be created in a fleet, the remedy, and whether one that exists is replicated."""
_SEQUENCES = "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'"
_TABLES = "pragma_table_list AS t WHERE t.schema = 'main' AND t.type = 'table'"


_first_word = lru_cache(4096)(first_word)


class Recorder:
    """Records one connection."""

    def __init__(
        self, connection: Connection, replica: "Replica | Journal", *, exclusive: "Replica | None" = None
    ) -> None:
        """`exclusive` becomes the writer of a fleet for each transaction."""
        self._connection, self._replica, self._exclusive = connection, replica, exclusive
        self._acquired = self._writing = False
        # SQLite compiles DELETE without WHERE to a truncation, unless a session exists.
        self._sentinel = apsw.Session(connection, "main")
        self._session: Any = None
        self._parts: list[Part] = []
        self._origins: list[Origin] = []
        self.origin: Origin = Origin()
        self._requests: list[str] = []
        self._undo: list[tuple[int, str, bool]] = []
        self._pending: tuple[str, bytes, Mapping[int, tuple[str, str]], Mapping[str, bytes]] | None = None
        """A statement that may change the schema, the changed rows and the tables before it, and the removal
        of the rows that it drops.
        """
        self._internal = False
        self._total = 0
        """SQLite's counter of changed rows at the begin of the transaction."""
        self._schema = self._version = 0
        """The schema version at the begin of the transaction, and after its last recorded statement."""
        self._sequences: Mapping[str, int] = {}
        self._has_sequences = True
        self._checked_schema = -1
        self._unsound: Mapping[str, Unsound] = {}
        self._older: Mapping[str, Unsound] = {}
        """The unsound tables at the begin of the transaction."""
        self._refused: ReplicationError | None = None
        self._lacks = ""
        """Why the transaction is a gap, or empty."""
        self._oversized = self._outside = False
        connection.exec_trace = self
        connection.set_commit_hook(self._check_commit)

    def __call__(self, cursor: Any, sql: str, _bindings: object) -> bool:
        """Record a statement that is about to run; see `exec_trace` of apsw."""
        if self._internal:
            return True
        word = _first_word(sql[:_CACHED_SQL])
        # apsw passes the connection instead of a cursor for its own savepoints.
        writes = not getattr(cursor, "is_readonly", True)
        to_savepoint = word == "rollback" and " to " in sql.lower()
        if self._pending is not None and (word != "rollback" or to_savepoint):
            with self._own_statements():
                self._end_statement()
        if self._session is not None and not (self._replica.refuses or self._oversized):
            self._limit_changes()
        match word:
            case "begin" if not self._connection.in_transaction:
                self._discard()
                if self._outside:
                    self._refuse(_OUTSIDE)
                self._outside = False
                self._total = self._connection.total_changes()
                self._writing = writes
                if writes and self._exclusive is not None:
                    self._exclusive.acquire()
                    self._acquired = True
                elif writes and not self._replica.writes:
                    raise Conflict
            case "commit" | "end" if self._connection.in_transaction:
                with self._own_statements():
                    self._commit()
                    if not self._connection.in_transaction:
                        self._connection.execute("BEGIN")
            case "rollback" if to_savepoint:
                if any(isinstance(part, str) for part in self._parts):
                    self._refuse("a savepoint that is rolled back after a change of the schema")
            case "rollback":
                self._discard()
            case _ if writes and (self._session is None or word not in _ROWS):
                with self._own_statements():
                    self._begin_statement(sql, rows=word in _ROWS)
        return True

    def _check_commit(self) -> bool:
        written = self._connection.txn_state("main") == apsw.SQLITE_TXN_WRITE
        if written and not self._internal and self._session is not None:
            if self._replica.refuses:
                raise not_replicable(_OUTSIDE)
            self._outside = True
        return False

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

    def _limit_changes(self) -> None:
        if self._session.changeset_size + sum(map(len, self._parts)) > MAX_CHANGES:
            self._refuse("a transaction with so many changes")
            self._session.enabled, self._oversized = False, True

    def _refuse(self, reason: str, hint: str = "Nothing was changed.") -> None:
        if not self._lacks or (self._lacks.endswith(NO_KEY) and not reason.endswith(NO_KEY)):
            self._lacks = reason
        elif self._lacks.endswith(NO_KEY) and reason not in self._lacks:
            self._lacks += f"; {reason}"
        if self._replica.refuses:
            self._refused = self._refused or not_replicable(reason, hint)

    def _begin_statement(self, sql: str, *, rows: bool) -> None:
        if self._session is None:
            if self._connection.total_changes() != self._total:
                self._refuse("rows that were changed without a record")
            self._schema = self._version = schema_version(self._connection)
            if self._schema != self._checked_schema:
                self._unsound, self._checked_schema = unsound_tables(self._connection), self._schema
                self._has_sequences = scalar(self._connection, _SEQUENCES) is not None
            self._sequences = sequences_of(self._connection) if self._has_sequences else {}
            self._older = self._unsound
            self._begin_session()
        if not rows:
            tables = stored_tables(self._connection)
            self._pending = sql, self._session.changeset(), tables, self._dropped_rows(sql, tables)

    def _dropped_rows(self, sql: str, tables: Mapping[int, tuple[str, str]]) -> Mapping[str, bytes]:
        """Return the removal of all rows of each table that a statement drops, unless one is large."""
        connection, removed = self._connection, dict[str, bytes]()
        if _first_word(sql[:_CACHED_SQL]) != "drop" or connection.pragma("foreign_keys"):
            return removed
        steps = connection.execute(f"EXPLAIN {sql}").fetchall()
        dropped = {each[5] for each in steps if each[1:3] == ("DropTable", 0)}
        for name in (name for name, _ in tables.values() if name in dropped):
            reason, _, writable = self._unsound.get(name, ("", "", True))
            limit = (DROPPED_BYTES - sum(map(len, self._parts))) // connection.pragma("page_size")
            pages = connection.execute("SELECT 1 FROM dbstat WHERE name = ?", (name,))
            if not writable or reason.endswith(NO_KEY) or next(islice(pages, max(0, limit), None), None):
                continue
            self._session.enabled = False
            triggers = connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, -1)
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
            with closing(apsw.Session(connection, "main")) as session:
                session.attach(name)
                connection.execute("SAVEPOINT svc_drop")
                connection.execute(f"DELETE FROM main.{quoted(name)}")
                removed[name] = session.changeset()
                connection.execute("ROLLBACK TO svc_drop")
                connection.execute("RELEASE svc_drop")
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, triggers)
            self._session.enabled = not self._oversized
        return removed

    def _begin_session(self) -> None:
        self._session = apsw.Session(self._connection, "main")
        self._session.config(apsw.SQLITE_SESSION_OBJCONFIG_ROWID, True)
        self._session.config(apsw.SQLITE_SESSION_OBJCONFIG_SIZE, not self._replica.refuses)
        self._session.table_filter(self._records)
        self._session.attach()

    def _end_statement(self) -> None:
        """Record the pending statement if it has changed the schema."""
        assert self._pending is not None
        (sql, changes, before, dropped), self._pending = self._pending, None
        connection, version = self._connection, schema_version(self._connection)
        # Rows of ANALYZE have no key, and a statement that failed has changed none.
        analyzed = _first_word(sql[:_CACHED_SQL]) == "analyze" and self._session.changeset() != changes
        if version == self._version and not analyzed:
            return
        self._version = version
        self._session.close()
        self._begin_session()
        tables = stored_tables(connection)
        if before.keys() - tables.keys() and connection.pragma("foreign_keys"):
            self._refuse("DROP TABLE with enforced foreign keys, which changes rows of other tables")
        for name, definition in (tables[root] for root in tables.keys() - before.keys()):
            sql = definition
            if scalar(connection, f"SELECT 1 FROM main.{quoted(name)}"):
                remedy = "Write CREATE TABLE with the columns, then INSERT INTO … SELECT."
                self._refuse("CREATE TABLE … AS, whose rows may differ between nodes", remedy)
        self._unsound, self._checked_schema = unsound_tables(connection), -1
        self._has_sequences = True
        for table in self._unsound.keys() - self._older.keys():
            if self._replica.refuses:
                self._refuse(*self._unsound[table][:2])
        self._add_parts(changes, *dropped.values(), sql)
        if before != tables:
            self._undo.append((len(self._parts) - 1, *_undo_of(before, tables, dropped)))

    def _add_parts(self, *parts: Part) -> None:
        added = [part for part in parts if part]
        self._parts += added
        self._origins += [self.origin] * len(added)

    def begin_rows(self) -> None:
        """Record the rest of the transaction without a trace: its statements only change rows."""
        with self._own_statements():
            self._begin_statement("", rows=True)
        self._connection.exec_trace = None
        self._requests = []

    def write_as(self, origin: Origin, *, apart: bool) -> None:
        """Name a request that writes next, `apart` from others in the transaction, or together with them."""
        if not apart and self._requests and origin.deployment == self.origin.deployment:
            self._requests += origin.requests
            return
        if self._requests:
            with self._own_statements():
                if changes := self._session.changeset():
                    self._add_parts(changes)
                    self._session.close()
                    self._begin_session()
        self._requests = [*origin.requests]
        self.origin = origin._replace(requests=self._requests)

    def end_rows(self) -> None:
        self._connection.exec_trace = self

    def check_schema(self) -> None:
        """Raise `ReplicationError` if a statement did what cannot be replicated."""
        if self._pending is not None:
            with self._own_statements():
                self._end_statement()
        if self._refused is not None:
            raise self._refused

    def _records(self, table: str) -> bool:
        reason, remedy, writable = self._unsound.get(table, ("", "", True))
        without_key = reason.endswith(NO_KEY) and not self._replica.refuses
        if not writable or without_key:
            self._refuse(reason, remedy)
        # The planner alone uses what ANALYZE samples.
        return not without_key and table not in (REPLICA_TABLE, "sqlite_stat4")

    def commit(self) -> None:
        """Append the changes to the log and commit them, which a trace does at the caller's commit.

        A transaction without changes, or one that violates a foreign key, stays as it is.
        """
        with self._own_statements():
            self._commit()

    def _commit(self) -> None:
        connection = self._connection
        if connection.status(apsw.SQLITE_DBSTATUS_DEFERRED_FKS)[0]:
            return
        if self._session is not None:
            if not self._replica.refuses:
                self._limit_changes()
            self._add_parts(b"" if self._oversized else self._session.changeset())
            if connection.exec_trace is not None and schema_version(connection) != self._version:
                self._refuse("a change of the schema without a record")
        elif connection.total_changes() != self._total:
            self._refuse("rows that were changed without a record")
        if self._refused is not None:
            raise self._refused
        # INSERT OR IGNORE may use a key up without a row.
        reads = self._session is not None and self._has_sequences
        now = sequences_of(connection) if reads else self._sequences
        names = self._sequences.keys() | now.keys()
        sequences = {name: now.get(name) for name in names if self._sequences.get(name) != now.get(name)}
        if not self._parts and not sequences and not self._lacks:
            if self._writing and not self._replica.writes:  # Nothing may fit because the copy lacks entries.
                raise Conflict
            self._discard()
            return
        log_position = read_log_position(connection)
        entry = Entry(
            kind="gap" if self._lacks else "rows",
            previous=log_position.chain,
            node=self._replica.node,
            schema=self._schema + log_position.schema_shift,
            parts=() if self._oversized else self._parts,
            undo=() if self._oversized else self._undo,
            lacks=self._lacks,
            sequences=sequences,
            origins=self._origins
            if any(each is not self.origin for each in self._origins)
            else [self.origin],
        )
        content = entry.encode()
        published = self._replica.publish(content, log_position)
        after: LogPosition | None = published
        if self._session is not None:
            self._session.enabled = False
        try:
            store_log_position(connection, published)
            connection.execute("COMMIT")
        except Error:
            after = None
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if not self._replica.refuses:  # The log of a fleet has the transaction: it is applied later.
                raise
        finally:
            self._replica.on_written(after)
            self._discard()

    def _discard(self) -> None:
        """Forget the changes of a transaction that ends."""
        if self._session is not None:
            self._session.close()
        self._parts.clear()
        self._origins.clear()
        self._undo.clear()
        self._session = self._pending = self._refused = None
        self._writing = self._oversized = False
        self._lacks = ""
        if self._acquired and self._exclusive is not None:
            self._acquired = False
            self._exclusive.release()

    def close(self) -> None:
        """Forget what was not committed, and close all connections."""
        with closing(self._replica), closing(self._sentinel):
            self._discard()


def _undo_of(
    before: Mapping[int, tuple[str, str]], after: Mapping[int, tuple[str, str]], dropped: Container[str]
) -> tuple[str, bool]:
    """Return statements that undo a change of tables, and whether rows are then as they were."""
    both = before.keys() & after.keys()
    if renamed := [(after[root][0], before[root][0]) for root in both if before[root][0] != after[root][0]]:
        return ";".join(f"ALTER TABLE {quoted(new)} RENAME TO {quoted(old)}" for new, old in renamed), True
    missing = [before[root] for root in before.keys() - after.keys()]
    changed = [before[root] for root in both if before[root] != after[root]]
    names = [after[root][0] for root in after.keys() - before.keys()] + [
        name for name, _ in missing + changed
    ]
    steps = [f"DROP TABLE IF EXISTS {quoted(name)}" for name in names] + [sql for _, sql in missing + changed]
    return ";".join(steps), not changed and all(name in dropped for name, _ in missing)


def not_replicable(reason: str, hint: str = "Nothing was changed.") -> ReplicationError:
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
        reason = f"table {table}{NO_KEY}"
        remedy = f"Add id INTEGER PRIMARY KEY to the CREATE TABLE of {table}."
        unsound[table] = reason, remedy, not hides_rowid
    return unsound
