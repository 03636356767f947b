"""The SQLite authorizer for guests' SQL: an allow-list of actions, checked when a statement is compiled.

Source: https://www.sqlite.org/c3ref/set_authorizer.html
"""

from collections.abc import Sequence

from doors.tables.guest import introspection
from doors.tables.guest.problem import GuestProblem
from doors.tables.sqlite.connections import apsw
from engine.door import DoorTables
from engine.files.sql_functions import DENIED_FUNCTIONS, Work

_HIDDEN = ("sqlite_", "_svc", "pragma_")
"""Name prefixes of tables that guests can neither read nor write."""
_DESCRIBING = frozenset({introspection.SCHEMA_TABLE, *(f"pragma_{name}" for name in introspection.PRAGMAS)})
"""Tables that only describe the schema. Each of their rows takes longer than one of a table on disk."""
_INTERNALS = frozenset({"dbstat", "carray", "bytecode", "tables_used", "fts3tokenize", "fts4aux"})
_HEAVY = frozenset({"glob", "instr", "like", "ltrim", "match", "regexp", "replace", "rtrim", "trim", "unhex"})
"""Functions that cannot be interrupted and may take long on large values."""
_QUICK_WORK = 16
"""Work of the calls of a statement on the event loop."""
_READS = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE})
WRITES = frozenset({apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE})
_TRANSACTION = (
    "guests cannot begin or end transactions; a batch is one transaction",
    "Every request is one transaction. Send statements that belong together to /v1/batch: batch in the guest"
    " libraries.",
)
_FILE = "guests cannot use ATTACH and DETACH", "A resource can use only the tables of its own project."
_SCHEMA = (
    "guests cannot change the schema; use migrations (tables/*.sql)",
    "Change tables with migrations (tables/*.sql) or `svc tables`.",
)
_REFUSED = {
    apsw.SQLITE_TRANSACTION: _TRANSACTION,
    apsw.SQLITE_SAVEPOINT: _TRANSACTION,
    apsw.SQLITE_ATTACH: _FILE,
    apsw.SQLITE_DETACH: _FILE,
}
"""Detail and hint of the problem with an action. All others change the schema."""


class GuestAuthorizer:
    """The authorizer of one connection. Use from the thread that compiles the statements.

    `refusal` is the problem of the last statement if it was refused. `heavy` is true if it calls a slow
    function or reads the schema, `counts` if it calls `count`, `reads_last_id` if it calls
    `last_insert_rowid`; `action_count` is its number of actions, `work` that of its calls.
    While `unrestricted` is true, everything is allowed, for svc's own SQL, and so are statements of a
    `trusted` request.
    """

    __slots__ = (
        "action_count",
        "counts",
        "heavy",
        "reads_last_id",
        "refusal",
        "tables",
        "trusted",
        "unrestricted",
        "work",
        "writes",
    )

    def __init__(self, *, writes: bool, tables: Sequence[DoorTables] = ()) -> None:
        """With `writes`, statements may change rows, and insert into the inlets of the `tables` of Doors."""
        self.writes, self.tables = writes, tables
        self.unrestricted = self.trusted = False
        self.begin()

    def begin(self) -> None:
        """Reset the state of the previous statement."""
        self.refusal: GuestProblem | None = None
        self.heavy = self.counts = self.reads_last_id = False
        self.action_count = 0
        self.work = Work()

    def __call__(
        self, action: int, first: str | None, second: str | None, database: str | None, inner: str | None
    ) -> int:
        """Return SQLite's code for allowing or denying an action on the named objects."""
        if self.unrestricted:
            return apsw.SQLITE_OK
        self.action_count += 1
        refusal = self._check(action, first or "", second or "")
        if refusal is None or self.trusted or self._enters(action, first or "", second or "", inner or ""):
            return apsw.SQLITE_OK
        if self.refusal is None:
            self.refusal = refusal
        return apsw.SQLITE_DENY

    def _enters(self, action: int, first: str, second: str, trigger: str) -> bool:
        """Return whether an action inserts into an inlet, or belongs to its triggers.

        The record of a transaction asks for the columns of a table when it first changes.
        """
        return self.writes and any(
            trigger.startswith(each.prefix)
            or (action == apsw.SQLITE_INSERT and first == each.inlet)
            or (action == apsw.SQLITE_PRAGMA and first == "table_xinfo" and second.startswith(each.prefix))
            for each in self.tables
        )

    def _check(self, action: int, first: str, second: str) -> GuestProblem | None:
        if action in _READS:
            return None
        if action == apsw.SQLITE_READ:
            if first.lower() in _DESCRIBING:
                self.heavy = True
                return None
            return _hidden(first)
        if action == apsw.SQLITE_FUNCTION:
            return self._function(second.lower())
        if action in WRITES:
            if first.lower().startswith(("sqlite_", introspection.SCHEMA_TABLE)):
                return GuestProblem("not-allowed", *_SCHEMA)
            if not self.writes:
                return writes_in_query()
            return _hidden(first)
        if action == apsw.SQLITE_PRAGMA:
            return self._pragma(first.lower(), second)
        return GuestProblem("not-allowed", *_REFUSED.get(action, _SCHEMA))

    def _pragma(self, name: str, argument: str) -> GuestProblem | None:
        if name in introspection.PRAGMAS and argument:
            self.heavy = True
            own = argument.lower().removeprefix("sqlite_autoindex_").startswith("_svc")
            return _hidden(argument) if own else None
        if name == "data_version" and not argument:
            return None  # FTS5 uses it internally to detect changes of its index.
        return GuestProblem(
            "not-allowed",
            "guests cannot use this PRAGMA",
            "svc manages the settings of the database. PRAGMA table_info(T), `svc tables show` and"
            " sqlite_schema describe the tables.",
        )

    def _function(self, name: str) -> GuestProblem | None:
        if name in DENIED_FUNCTIONS or (name.startswith("sqlite_") and name != "sqlite_version"):
            return GuestProblem("not-allowed", f"guests cannot call the function {name}()")
        self.work.add(name)
        self.heavy = self.heavy or name in _HEAVY or self.work.calls > _QUICK_WORK
        self.counts = self.counts or name == "count"
        self.reads_last_id = self.reads_last_id or name == "last_insert_rowid"
        return None


def _hidden(table: str) -> GuestProblem | None:
    name = table.lower()
    if name.startswith(_HIDDEN) or name in _INTERNALS:
        return GuestProblem(
            "not-allowed",
            f"guests cannot use the table {table}",
            "Use sqlite_schema, or `svc tables list` and `svc tables show`, to see the tables.",
        )
    return None


def writes_in_query() -> GuestProblem:
    """Return the problem of a statement that writes in a read-only request."""
    return GuestProblem(
        "writes-in-query",
        "the statement writes, but query only reads",
        "Send it to /v1/exec: exec in the guest libraries.",
    )
