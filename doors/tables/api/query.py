"""Execution of one SQL statement of an owner, with limits on time, rows and bytes."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from doors.tables.api.owner_authorizer import OwnerAuthorizer, kind_refused, reads_only
from doors.tables.guest.errors import GUEST_ERRORS, to_problem
from doors.tables.guest.plan import Plan, make_plan, types_in
from doors.tables.guest.problem import GuestProblem
from doors.tables.migrations import script
from doors.tables.schema import notes
from doors.tables.schema.references import find_broken
from doors.tables.sqlite.catalog import read
from doors.tables.sqlite.connections import Connection, Cursor
from doors.tables.sqlite.errors import TablesError, transaction
from doors.tables.sqlite.tokens import ParsedStatement, tokens
from doors.tables.types.json import encode_rows, parameters
from doors.tables.types.registry import TypeName
from engine.errors import SvcError

TIMEOUT_SECONDS = 30.0
"""Maximum time of a statement."""
MAX_ROWS = 10_000
MAX_BYTES = 16 << 20
"""Maximum rows, and bytes of JSON, of a result. The row that exceeds the bytes is the last."""
_STEPS_PER_CHECK = 20_000
_SCHEMA_WORDS = ("CREATE", "ALTER", "DROP")
_CODES = {"time-limit": "timeout", "busy": "unavailable"}


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of a result. The type of a computed column is empty."""

    name: str
    type: TypeName


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a statement. `rows` are in the Door's format: a blob is base64, JSON the value itself.

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
    first = next(tokens(sql), None)
    return first is not None and first.is_word(*_SCHEMA_WORDS)


def run(connection: Connection, sql: str, params: Sequence[Any], *, write: bool, limit: int) -> bytes:
    """Run a statement and return a `Result` as JSON. Raises `SvcError`, and then nothing was changed."""
    if changes_schema(sql):
        if not write:
            raise _refused(reads_only())
        return _change(connection, sql, params)
    rights = OwnerAuthorizer(writes=write)
    try:
        connection.authorizer = rights
        with _deadline(connection), _transaction(connection, rights, write):
            plan = _plan(connection, rights, sql)
            connection.set_last_insert_rowid(0)
            rows, truncated = _rows(connection, plan, plan.bind(parameters(list(params))), limit)
            changed = connection.changes() if plan.writes else 0
            return _document(plan, rows, truncated, changed, connection.last_insert_rowid())
    except (GuestProblem, *GUEST_ERRORS) as error:
        raise _refused(to_problem(error, sql, rights.refusal)) from error
    finally:
        connection.authorizer = None


def _plan(connection: Connection, rights: OwnerAuthorizer, sql: str) -> Plan:
    rights.lifted = True
    types = types_in(read(connection))
    rights.lifted = False
    try:
        return make_plan(connection, rights, sql, types)
    except GuestProblem as problem:
        if problem.code == "more-than-one-statement":
            problem.hint = "Run them one by one; several that belong together are for `svc tables migrate`."
        if problem.code == "not-allowed" and rights.refusal is None:
            raise kind_refused() from problem
        raise


@contextmanager
def _deadline(connection: Connection) -> Iterator[None]:
    end = time.monotonic() + TIMEOUT_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS_PER_CHECK)
    try:
        yield
    finally:
        connection.set_progress_handler(None)


@contextmanager
def _transaction(connection: Connection, rights: OwnerAuthorizer, write: bool) -> Iterator[None]:
    _ours(connection, rights, "begin immediate" if write else "begin")
    try:
        yield
        _ours(connection, rights, "commit")
    except BaseException:
        if connection.in_transaction:
            _ours(connection, rights, "rollback")
        raise


def _ours(connection: Connection, rights: OwnerAuthorizer, sql: str) -> None:
    rights.lifted = True
    connection.execute(sql)
    rights.lifted = False


def _rows(
    connection: Connection, plan: Plan, values: Sequence[Any], limit: int
) -> tuple[list[bytes], Literal["rows", "bytes"] | None]:
    found: list[bytes] = []
    truncated: Literal["rows", "bytes"] | None = None
    size = 0
    cursor: Cursor = connection.execute(plan.sql, values)
    try:
        for row in cursor:
            if len(found) >= limit:
                truncated = "rows"
            elif size > MAX_BYTES:
                truncated = "bytes"
            if truncated is not None:
                break
            found.append(encode_rows(plan.names, plan.converters, [row]))
            size += len(found[-1])
    finally:
        cursor.close(True)
    return found, truncated


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


def _change(connection: Connection, sql: str, params: Sequence[Any]) -> bytes:
    """Change the schema by the rules of migrations."""
    if params:
        raise TablesError(
            "a statement that changes the schema takes no parameters", "Write the value into it."
        )
    with transaction(connection, "the tables were not changed"):
        sound = not find_broken(connection)
        script.run(connection, "SQL", [ParsedStatement(1, sql)], seconds=TIMEOUT_SECONDS)
        if sound and (now := find_broken(connection)):
            raise TablesError(
                f"a view or trigger needs what the statement removes: {now}",
                "Drop that view or trigger first, and create it again after the change.",
            )
        notes.delete_orphans(connection)
    return _document(None, [], None, 0, 0)


def _refused(problem: GuestProblem) -> SvcError:
    where = f", at character {problem.position} of the SQL" if problem.position else ""
    hint = problem.hint.replace("/v1/batch", "`svc tables import`")
    return SvcError(f"{problem.detail}{where}", hint, code=_CODES.get(problem.code, problem.code))
