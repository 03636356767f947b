"""Execution of one SQL statement of an owner in a thread, with limits on time, rows and bytes."""

import asyncio
import json
import math
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from doors.tables.guest.authorizer import WRITES, GuestAuthorizer
from doors.tables.guest.errors import GUEST_ERRORS, explain_full, name_references, to_problem
from doors.tables.guest.plan import ARRAYS_HINT, Plan, TypeOf, make_plan, types_in
from doors.tables.guest.problem import GuestProblem
from doors.tables.migrations import script
from doors.tables.schema import notes
from doors.tables.schema.references import unbroken
from doors.tables.sqlite.catalog import read
from doors.tables.sqlite.connections import Connection, Cursor, apsw
from doors.tables.sqlite.errors import TablesError, atomic, transaction
from doors.tables.sqlite.tokens import ParsedStatement, first_word
from doors.tables.types.grid_cell import full_cell
from doors.tables.types.json import encode_rows, parameters
from doors.tables.types.registry import TypeName
from engine.control.project_threads import PER_PROJECT, ProjectThreads
from engine.errors import SvcError
from engine.files.sql_functions import DENIED_FUNCTIONS
from engine.files.statement_limit import MAX_WRITTEN_BYTES, StatementLimit
from engine.files.statement_memory import StatementMemory

_T = TypeVar("_T")
_threads = ProjectThreads("tables-owner", threads=64)


async def run_with_connection(
    data: Path, opened: AbstractContextManager[Connection], work: Callable[[Connection], _T]
) -> _T:
    """Return the result of `work` on an opened connection, in a thread of the project with this data folder.

    A canceled caller waits until the statement in progress has been interrupted. Raises `SvcError` when too
    many calls wait.
    """
    started, canceled = threading.Event(), threading.Event()

    def run() -> _T:
        started.set()
        if canceled.is_set():
            raise InterruptedError
        with opened as connection, StatementLimit(connection, math.inf, stopped=canceled.is_set):
            return work(connection)

    call = asyncio.ensure_future(_threads.run(str(data), run))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        canceled.set()
        if not started.is_set():
            call.cancel()  # It leaves the queue.
        await asyncio.gather(call, return_exceptions=True)  # An error that is not retrieved is logged.
        raise


TIMEOUT_SECONDS = 30.0
"""Maximum time of a statement."""
MAX_ROWS = 10_000
MAX_BYTES = 16 << 20
"""Maximum rows, and bytes of JSON, of a result. The row that exceeds the bytes is the last."""
MAX_VALUE_BYTES = 8 << 20
"""Maximum bytes of a value or row, computed ones too. It falls with the work of the statement's functions."""
MAX_READ_BYTES = MAX_WRITTEN_BYTES // PER_PROJECT
"""Maximum bytes of temporary data of a statement that reads."""
MAX_COLLECTED_BYTES = 128 << 20
"""Maximum memory of the values that a statement collects."""
_READING_PRAGMAS = """
    collation_list compile_options data_version foreign_key_check foreign_key_list freelist_count
    function_list index_info index_list index_xinfo integrity_check module_list page_count page_size
    pragma_list quick_check table_info table_list table_xinfo
"""
_READ_ONLY_PRAGMAS = frozenset(_READING_PRAGMAS.split())
"""Pragmas that only read, with any argument."""
_READS = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_RECURSIVE})
_TRANSACTION = (
    "each statement is already a transaction",
    "Put changes that belong together into one statement or one migration (`tables/*.sql`).",
)
_FILE = "other files cannot be attached", "Use `svc tables import` to copy the tables of another file."
_OTHER = (
    "this kind of statement cannot be run here",
    "Use `svc tables create`, `alter`, `index` and `drop` to change the schema.",
)
_REFUSED = {
    apsw.SQLITE_TRANSACTION: _TRANSACTION,
    apsw.SQLITE_SAVEPOINT: _TRANSACTION,
    apsw.SQLITE_ATTACH: _FILE,
    apsw.SQLITE_DETACH: _FILE,
}
"""Detail and hint of the problem with an action."""
_CODES = {"time-limit": "timeout", "busy": "unavailable"}


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of a result. The type of a computed column is empty."""

    name: str
    type: TypeName


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a statement. `rows` are in the Door's format: a blob is base64, JSON the value itself.
    With `cells` they are as in a grid.

    `truncated` is the exceeded limit of an incomplete result: rows or bytes. `changes` counts written rows;
    `last_id` is the rowid of the last inserted row.
    """

    columns: list[ResultColumn]
    rows: list[dict[str, Any]]
    truncated: Literal["rows", "bytes"] | None
    changes: int
    last_id: int


def changes_schema(sql: str) -> bool:
    """Return whether a statement begins like a schema change."""
    return first_word(sql) in ("create", "alter", "drop")


def run(
    connection: Connection, sql: str, params: Sequence[Any], *, write: bool, limit: int, cells: bool = False
) -> bytes:
    """Run a statement and return a `Result` as JSON. Raises `SvcError`, and then nothing was changed."""
    if changes_schema(sql):
        if not write:
            raise _to_error(_reads_only())
        return _change_schema(connection, sql, params)
    memory = StatementMemory(connection, MAX_COLLECTED_BYTES)
    authorizer = _OwnerAuthorizer(writes=write)
    max_written = MAX_WRITTEN_BYTES if write else MAX_READ_BYTES  # Only one writes at a time, several read.
    limits = StatementLimit(connection, TIMEOUT_SECONDS, written=max_written, memory=memory)
    try:
        with atomic(connection, "begin immediate" if write else "begin"), limits:
            types = types_in(read(connection))
            connection.authorizer = authorizer
            try:
                plan = _make_plan(connection, authorizer, sql, types)
                connection.limit(apsw.SQLITE_LIMIT_LENGTH, min(plan.max_value, MAX_VALUE_BYTES))
                connection.set_last_insert_rowid(0)
                values = plan.bind(parameters(list(params)))
                with memory if plan.collects else nullcontext():
                    rows, truncated = _rows(connection, plan, values, limit, cells)
            finally:
                connection.authorizer = None
            changes = connection.changes() if plan.writes else 0
            return _document(plan, rows, truncated, changes, connection.last_insert_rowid())
    except (GuestProblem, *GUEST_ERRORS) as error:
        reason = ""
        if limits.oversized:
            reason = f"the statement wrote more than {max_written >> 20} MiB of temporary data"
            hint = "Sort, group or write fewer rows at once."
        elif memory.oversized:
            reason = f"the statement collected more than {MAX_COLLECTED_BYTES >> 20} MiB"
            hint = "Collect fewer values, or smaller ones: add a WHERE."
        elif isinstance(error, apsw.TooBigError):
            max_bytes = connection.limit(apsw.SQLITE_LIMIT_LENGTH)
            reason = f"a value or a row has more than {max_bytes:,} bytes"
            hint = "Call fewer functions in the statement, or read the value with `svc tables export`."
        if reason:
            raise TablesError(reason, hint, code="too-large") from error
        problem = to_problem(error, sql, authorizer.refusal, list(params))
        name_references(problem, connection, sql)
        raise _to_error(explain_full(problem, Path(connection.filename))) from error


def _make_plan(connection: Connection, authorizer: GuestAuthorizer, sql: str, types: TypeOf) -> Plan:
    try:
        return make_plan(connection, authorizer, sql, types)
    except GuestProblem as problem:
        if problem.code == "more-than-one-statement":
            problem.hint = "Run them one by one, or together as a migration with `svc tables migrate`."
        if problem.code == "not-allowed" and authorizer.refusal is None:
            raise GuestProblem("not-allowed", *_OTHER) from problem
        raise


def _rows(
    connection: Connection, plan: Plan, values: Sequence[Any], limit: int, cells: bool
) -> tuple[list[bytes], Literal["rows", "bytes"] | None]:
    encoded: list[bytes] = []
    truncated: Literal["rows", "bytes"] | None = None
    size = 0
    names, converters, _ = plan.format()
    if cells:
        converters = tuple((index, partial(full_cell, name=type)) for index, type in enumerate(plan.types))
    cursor: Cursor = connection.execute(plan.sql, values)
    try:
        for row in cursor:
            if len(encoded) >= limit:
                truncated = "rows"
            elif size > MAX_BYTES:
                truncated = "bytes"
            if truncated is not None:
                break
            encoded.append(encode_rows(names, converters, [row]))
            size += len(encoded[-1])
    finally:
        cursor.close(True)
    return encoded, truncated


def _document(
    plan: Plan | None, rows: list[bytes], truncated: str | None, changes: int, last_id: int
) -> bytes:
    pairs = zip(plan.names, plan.types, strict=True) if plan else ()
    columns = [{"name": name, "type": type} for name, type in pairs]
    return b'{"columns":%b,"rows":[%b],"truncated":%b,"changes":%d,"last_id":%d}' % (
        json.dumps(columns).encode(),
        b",".join(rows),
        json.dumps(truncated).encode(),
        changes,
        last_id,
    )


def _change_schema(connection: Connection, sql: str, params: Sequence[Any]) -> bytes:
    if params:
        raise TablesError(
            "a statement that changes the schema takes no parameters", "Write the value into it."
        )
    subject = "something needs what the statement removes"
    hint = "Drop that view, trigger or index first, and create it again after the change."
    with transaction(connection, "the tables were not changed"), unbroken(connection, subject, hint):
        script.run(connection, "SQL", [ParsedStatement(1, sql)], seconds=TIMEOUT_SECONDS)
        notes.delete_orphans(connection)
    return _document(None, [], None, 0, 0)


def _to_error(problem: GuestProblem) -> SvcError:
    position = f", at character {problem.position} of the SQL" if problem.position else ""
    hint = problem.hint.removesuffix(ARRAYS_HINT).replace("/v1/batch", "`svc tables import`")
    return SvcError(f"{problem.detail}{position}", hint, code=_CODES.get(problem.code, problem.code))


class _OwnerAuthorizer(GuestAuthorizer):
    """The SQLite authorizer for one statement of an owner, which may read everything, and write rows.

    Settings, other files and transactions are refused with a hint at the alternative.
    """

    __slots__ = ()

    def _check(self, action: int, first: str, second: str) -> GuestProblem | None:
        if action in _READS:
            return None
        if action == apsw.SQLITE_FUNCTION:
            self.work.add(second.lower())
            if second.lower() in DENIED_FUNCTIONS:
                return GuestProblem("not-allowed", f"{second.lower()}() cannot be called here")
            return None
        if action == apsw.SQLITE_PRAGMA:
            if first.lower() in _READ_ONLY_PRAGMAS:
                return None
            available = f"Available: {', '.join(sorted(_READ_ONLY_PRAGMAS))}."
            return GuestProblem(
                "not-allowed",
                f"PRAGMA {first} cannot be used here",
                f"svc manages the settings of the database. {available}",
            )
        if action not in WRITES or first.lower().startswith("sqlite_"):
            return GuestProblem("not-allowed", *_REFUSED.get(action, _OTHER))
        if not self.writes:
            return _reads_only()
        if first.lower().startswith("_svc"):
            hint = "`svc tables alter T note …` writes notes."
            return GuestProblem("not-allowed", f"{first} is svc's own", hint)
        return None


def _reads_only() -> GuestProblem:
    return GuestProblem(
        "writes-in-query",
        "the statement writes, but the request only reads",
        'Pass `--write` to `svc tables query`, "write": true to the API, or `--allow-writes` to `svc mcp`.',
    )
