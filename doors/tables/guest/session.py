"""A connection for guests' statements: it plans them, runs them with limits and encodes rows as JSON.

Plans are cached until any connection or process changes the schema.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from time import perf_counter_ns
from typing import Any

from doors.tables.guest import introspection
from doors.tables.guest.authorizer import GuestAuthorizer
from doors.tables.guest.errors import GUEST_ERRORS, name_references, to_problem
from doors.tables.guest.plan import Plan, RowFormat, TypeOf, make_plan, types_in
from doors.tables.guest.problem import GuestProblem
from doors.tables.guest.protocol import SqlRequest, SqlStatement, add_statement, result
from doors.tables.sqlite import catalog
from doors.tables.sqlite.connections import NO_VALUES, Clock, Connection, apsw
from doors.tables.types.json import Value, encode_rows
from engine.door import DoorTables
from engine.files.statement_limit import MAX_WRITTEN_BYTES, StatementLimit
from engine.files.statement_memory import MAX_COLLECTED_BYTES, StatementMemory

MAX_ROWS = 10_000
MAX_RESULT = 4 << 20
"""Maximum rows, and bytes of JSON, of a response."""
MAX_TRUSTED_VALUE = 2 << 20
"""Maximum bytes of a value or a row in statements of svc itself."""
MAX_PLANS = 512
MAX_CACHED_SQL = 8192
"""Maximum number of cached plans, and characters of a statement that is cached."""
_CHUNK = 16
"""Rows that are buffered before encoding. This many rows of the maximum size fit in memory."""


def never() -> bool:
    """Return False: no client is watched."""
    return False


class StepLimit(StatementLimit):
    """Limit of a statement: it stops at a deadline, in seconds of `perf_counter`.

    It also stops when the client has disconnected, when the statement wrote too many bytes, and after its
    turn if others wait. Without a deadline, as for internal SQL, it never stops. `memory` is that of the
    statements on a thread, which are watched.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, math.inf)
        self.deadline = 0.0
        self.preempted = False
        self.turn_end = math.inf
        self.waiting: Callable[[], bool] = never

    def is_over_limit(self) -> bool:
        """Return whether to stop."""
        if self.deadline == math.inf:
            return False
        now = time.perf_counter()
        if now > self.turn_end and self.waiting():
            self.preempted = True
        return self.preempted or self.oversized or self.stopped() or now > self.deadline


class GuestSession:
    """A connection of guests. Use it from one thread at a time; its methods raise only `GuestProblem`."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        *,
        writes: bool,
        steps: int = 0,
        tables: Sequence[DoorTables] = (),
    ) -> None:
        """Use a connection. SQLite checks the limits every `steps` steps of a statement.

        Without `steps`, the session is one of a thread: its statements are watched, and those that collect
        values have limited memory.
        """
        self.connection = connection
        """The connection, for use by the owner of the session."""
        self._clock = clock
        self._authorizer = GuestAuthorizer(writes=writes, tables=tables)
        self._limit = StepLimit(connection)
        self._plans = lru_cache(MAX_PLANS)(self._compile)
        self._max_value = connection.limit(apsw.SQLITE_LIMIT_LENGTH)
        self._type_of: TypeOf | None = None
        self._schema = self._data_version = -1
        self.thread = 0
        """The system's number of the thread that runs statements."""
        self.request_number = 0
        self._seconds = math.inf
        self.running = False
        self.row_count = 0
        """Rows of the result of the last statement, or rows that it changed."""
        introspection.register(connection, self._read_all)
        connection.authorizer = self._authorizer
        if steps:
            connection.set_progress_handler(self._limit.is_over_limit, steps)
        else:
            self._limit.memory = StatementMemory(connection)

    def begin(self, seconds: float, turn: float = math.inf) -> None:
        """Start a request with a time limit. After `turn` seconds it is preempted if others wait."""
        self._clock.tick()
        limit, now = self._limit, time.perf_counter()
        limit.deadline, limit.turn_end, self._seconds = now + seconds, now + turn, seconds
        limit.oversized = limit.preempted = False
        if limit.memory is not None:
            limit.watch()
        self.request_number += 1
        self.running = True

    def end(self) -> bool:
        """End a request; return whether it was preempted."""
        self.running = False
        self._limit.unwatch()
        return self._limit.preempted

    def yield_to(self, waiting: Callable[[], bool]) -> None:
        """Set the function that returns whether others wait."""
        self._limit.waiting = waiting

    def stop_writing(self, request_number: int) -> None:
        """Stop a request that wrote too many bytes, if it is still running; callable from any thread."""
        if self.running and request_number == self.request_number:
            self._limit.oversized = True

    def watch(self, disconnected: Callable[[], bool]) -> None:
        """Stop statements once `disconnected` returns true, until the next call."""
        self._limit.stopped = disconnected

    def trust(self, trusted: bool) -> None:
        """Set whether the statements from now on are those of svc itself."""
        self._authorizer.trusted = trusted

    def plan(self, sql: str) -> Plan | None:
        """Return the plan of a statement; None if it writes on a read-only session."""
        plan = self._plans if len(sql) <= MAX_CACHED_SQL else self._compile
        return plan(sql, self._authorizer.trusted)

    def _compile(self, sql: str, _trusted: bool) -> Plan | None:
        sql = introspection.redirect(sql)
        try:
            plan = make_plan(self.connection, self._authorizer, sql, self._column_type)
            return replace(plan, heavy=True) if self._authorizer.counts and self._counts_all(sql) else plan
        except (GuestProblem, *GUEST_ERRORS) as error:
            problem = self._authorizer.refusal or to_problem(error, sql)
            if problem.code == "writes-in-query":
                return None
            raise problem from error

    def _counts_all(self, sql: str) -> bool:
        """Return whether a statement counts a whole table in one step, which cannot be interrupted."""
        steps = self.connection.execute(sql, NO_VALUES, can_cache=False, explain=1)
        return any(opcode == "Count" for _, opcode, *_ in steps)

    def rows(self, plan: Plan, statement: SqlStatement, max_bytes: int = MAX_RESULT) -> bytes:
        """Run a statement; return its rows as a JSON array of at most `max_bytes`, then further members."""
        most = MAX_TRUSTED_VALUE if self._authorizer.trusted else min(plan.max_value, self._max_value)
        if most != self._max_value:
            self.connection.limit(apsw.SQLITE_LIMIT_LENGTH, most)
        try:
            if plan.collects and self._limit.memory is not None:
                with self._limit.memory:
                    return self._rows(plan, statement, max_bytes)
            return self._rows(plan, statement, max_bytes)
        finally:
            if most != self._max_value:
                self.connection.limit(apsw.SQLITE_LIMIT_LENGTH, self._max_value)

    def _rows(self, plan: Plan, statement: SqlStatement, max_bytes: int) -> bytes:
        row_format = plan.format(statement.rows, stored=statement.stored)
        self._authorizer.refusal = None
        try:
            cursor = self.connection.execute(plan.sql, plan.bind(statement.params))
        except (GuestProblem, *GUEST_ERRORS) as error:
            raise self._problem(error, plan.sql, statement.params) from error
        if not plan.names:
            self.row_count = self.connection.changes() if plan.writes else 0
            return b"[]"
        try:
            rows = list(islice(cursor, _CHUNK))
            self.row_count = len(rows)
            text = encode_rows(row_format.names, row_format.converters, rows)
            if len(rows) == _CHUNK:
                text = self._encode_rest(row_format, cursor, text, max_bytes)
        except BaseException as error:
            cursor.close(True)
            if isinstance(error, GUEST_ERRORS):
                raise self._problem(error, plan.sql) from error
            raise
        if len(text) + len(row_format.members) > max_bytes:
            raise _too_large()
        return b"[%b]%b" % (text, row_format.members)

    def run(self, request: SqlRequest, max_bytes: int) -> list[bytes]:
        """Run the statements of an exec or a batch; return their results, of at most `max_bytes`."""
        results: list[bytes] = []
        last_id = 0
        call = request.call if request.kind == "batch" else None
        if call is not None:
            call.statements = None  # An earlier attempt may have added some.
        try:
            for statement in request.statements:
                began = perf_counter_ns()
                plan = self.plan(statement.sql)
                assert plan is not None
                self.connection.set_last_insert_rowid(last_id if plan.reads_last_id else 0)
                rows = self.rows(plan, statement, max_bytes)
                max_bytes -= len(rows)
                changes, inserted = 0, 0
                if plan.writes:
                    changes, inserted = self.connection.changes(), self.connection.last_insert_rowid()
                last_id = inserted or last_id
                results.append(result(changes, inserted, rows if plan.names else b""))
                if call is not None:
                    add_statement(call, statement, began, self.row_count)
        except GuestProblem as problem:
            if request.kind == "batch":
                problem.statement = len(results)
            raise
        return results

    def _problem(self, error: Exception, sql: str, params: Sequence[Value] = ()) -> GuestProblem:
        if isinstance(error, apsw.InterruptError):
            return self._interrupted()
        max_value = self.connection.limit(apsw.SQLITE_LIMIT_LENGTH)
        if max_value < self._max_value and isinstance(error, apsw.TooBigError):
            return GuestProblem(
                "too-large",
                f"a value or a row of this statement has more than {max_value} bytes",
                "The limit of a statement falls with its length and its calls of functions: shorten it.",
            )
        problem = to_problem(error, sql, self._authorizer.refusal, params)
        with self.unbounded():
            name_references(problem, self.connection, sql)
        return problem

    def _interrupted(self) -> GuestProblem:
        if self._limit.oversized:
            return GuestProblem(
                "too-large",
                f"the running statements of the project wrote more than {MAX_WRITTEN_BYTES >> 20} MiB"
                " of temporary data",
                "Sort, group or write fewer rows at once.",
            )
        if self._limit.memory is not None and self._limit.memory.oversized:
            return GuestProblem(
                "too-large",
                f"the statement collected more than {MAX_COLLECTED_BYTES >> 20} MiB",
                "Collect fewer values, or smaller ones: add a WHERE.",
            )
        if not self._authorizer.writes:
            detail = f"the read exceeded its time limit of {self._seconds:g} s"
            return GuestProblem("time-limit", detail, "Add an index or a LIMIT.")
        return GuestProblem(
            "time-limit",
            f"the write exceeded its time limit of {self._seconds:g} s; nothing was written",
            "Write fewer rows in a request, such as 1,000 at a time, or add an index for its WHERE.",
        )

    def _encode_rest(self, row_format: RowFormat, cursor: Any, first: bytes, max_bytes: int) -> bytes:
        pieces = [first]
        count, size = _CHUNK, len(first)
        while rows := list(islice(cursor, _CHUNK)):
            pieces.append(encode_rows(row_format.names, row_format.converters, rows))
            count += len(rows)
            size += len(pieces[-1]) + 1
            if count > MAX_ROWS or size > max_bytes:
                raise _too_large()
        self.row_count = count
        return b",".join(pieces)

    def _read_all(self, sql: str) -> list[Any]:
        with self.unbounded():
            return self.connection.execute(sql).fetchall()

    def execute(self, sql: str) -> Any:
        """Run an internal statement without limits; return the first value of its first row."""
        row = self.row(sql)
        return row[0] if row else None

    def row(self, sql: str, *values: Value) -> Any:
        """Run an internal statement without limits; return its first row, or None."""
        with self.unbounded():
            return self.connection.execute(sql, values).fetchone()

    def unbounded(self) -> "_Unbounded":
        """Return a context of internal statements, which have no limits. It raises `GuestProblem`."""
        return _Unbounded(self._limit, self._authorizer)

    def refresh_schema(self) -> bool:
        """Return whether the schema is unchanged since the last call; if not, clear the cached plans.

        `data_version` changes at the start of a transaction if another connection wrote. So if it did not
        change while statements ran, they ran on the schema of the last call.
        """
        data = self.connection.data_version()
        if data == self._data_version:
            return True
        schema = self.execute("pragma schema_version")
        self._data_version = self.connection.data_version()
        if schema == self._schema:
            return True
        # SQLite reloads the schema when a statement runs, and planning runs none.
        self.execute("select 1 from sqlite_schema limit 1")
        self._schema = schema
        self._plans.cache_clear()
        self._type_of = None
        return False

    def _column_type(self, table: str, column: str) -> str:
        if self._type_of is None:
            with self.unbounded():
                self._type_of = types_in(catalog.read(self.connection))
        return self._type_of(table, column)

    def close(self) -> None:
        self.connection.close(True)


class _Unbounded:
    __slots__ = ("_authorizer", "_deadline", "_limit")

    def __init__(self, limit: StepLimit, authorizer: GuestAuthorizer) -> None:
        self._limit = limit
        self._authorizer = authorizer

    def __enter__(self) -> None:
        with self._limit.lock:
            self._deadline, self._limit.deadline = self._limit.deadline, math.inf
        self._authorizer.unrestricted = True

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._authorizer.unrestricted = False
        self._limit.deadline = self._deadline
        if isinstance(error, GUEST_ERRORS):
            raise to_problem(error, "") from error


def _too_large() -> GuestProblem:
    return GuestProblem(
        "too-large",
        f"the result has more than {MAX_ROWS} rows or {MAX_RESULT >> 20} MiB",
        "Select fewer columns, or read pages: WHERE id > $1 ORDER BY id LIMIT 100.",
    )
