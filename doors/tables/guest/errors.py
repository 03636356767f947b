"""Translation of errors of SQLite and Python into problem documents for guests."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from doors.tables.guest.problem import GuestProblem
from doors.tables.sqlite.connections import MAX_SQL, MAX_VALUE, QUOTA_HINT, Connection, apsw, exceeds_quota
from doors.tables.sqlite.errors import INTEGERS, fold, used_tables
from doors.tables.types.json import Value

_CONSTRAINTS = {
    apsw.SQLITE_CONSTRAINT_UNIQUE: "unique",
    apsw.SQLITE_CONSTRAINT_PRIMARYKEY: "primary-key",
    apsw.SQLITE_CONSTRAINT_ROWID: "primary-key",
    apsw.SQLITE_CONSTRAINT_NOTNULL: "not-null",
    apsw.SQLITE_CONSTRAINT_CHECK: "check",
    apsw.SQLITE_CONSTRAINT_FOREIGNKEY: "foreign-key",
    apsw.SQLITE_CONSTRAINT_DATATYPE: "type",
    apsw.SQLITE_CONSTRAINT_TRIGGER: "trigger",
}
_OF_A_TYPE = re.compile(r"CHECK constraint failed: (?:[^\W\d]\w*|json_valid\(.*\))")
"""SQLite's message for a violated check of a column type, which contains the start of the check."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_FOREIGN_KEYS = """
select m.name, group_concat(f."from", ', '), f."table", f.on_delete
from sqlite_schema m join pragma_foreign_key_list(m.name) f
where m.type = 'table' group by m.name, f.id order by m.name, f.id desc
"""

GUEST_ERRORS = (apsw.Error, OverflowError, UnicodeError)
"""Errors of compiling and running a statement that are reported to the guest."""


def to_problem(
    error: Exception, sql: str, refusal: GuestProblem | None = None, params: Sequence[Value] = ()
) -> GuestProblem:
    """Return the problem for an error. `refusal` is the authorizer's problem with the statement."""
    match error:
        case GuestProblem():
            return error
        case apsw.AuthError() if refusal is not None:
            return refusal
        case UnicodeDecodeError():
            return GuestProblem(
                "sql-error", "the result has text that is not UTF-8", "Read it as a blob: CAST(… AS blob)."
            )
        case UnicodeEncodeError():
            if surrogate := _SURROGATE.search(sql):
                detail = "the SQL has half of a surrogate pair"
                return GuestProblem("sql-error", detail, position=surrogate.start() + 1)
            parameter = _first_parameter(
                params, lambda value: isinstance(value, str) and _SURROGATE.search(value) is not None
            )
            return GuestProblem("bad-parameters", f"{parameter} has half of a surrogate pair")
        case OverflowError():
            parameter = _first_parameter(
                params, lambda value: isinstance(value, int) and value not in INTEGERS
            )
            return GuestProblem("bad-parameters", f"{parameter} is an integer of more than 64 bits")
        case apsw.ConstraintError():
            kind = constraint_kind(error)
            more = {"constraint": kind}
            return GuestProblem("constraint", str(error), _remedy(kind, str(error)), more=more)
        case apsw.InterruptError():
            detail = "the statement exceeded its time limit"
            return GuestProblem("time-limit", detail, "Add an index or a LIMIT.")
        case apsw.TooBigError():
            if len(sql.encode()) > MAX_SQL:
                return GuestProblem(
                    "too-large",
                    f"the statement has more than {MAX_SQL} bytes",
                    "Values go into params; many rows into the statements of /v1/batch.",
                )
            subject = _first_parameter(params, _is_too_big, "a value or a row")
            return GuestProblem("too-large", f"{subject} has more than {MAX_VALUE} bytes")
        case apsw.CorruptError() | apsw.NotADBError():
            return GuestProblem("storage-damaged", f"cannot use the tables of this project: {error}")
        case apsw.FullError():
            return GuestProblem("storage-full", "the disk or the database is full; nothing was written")
        case apsw.BusyError() | apsw.LockedError():
            return GuestProblem("busy", "database busy: another writer is active; nothing was written")
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() | apsw.IOError():
            return GuestProblem("storage", f"cannot read or write the tables of this project: {error}")
    hint = ""
    if str(error).startswith("no such table"):
        hint = "Create it with a migration tables/*.sql; `svc tables list` lists the tables."
    offset = getattr(error, "error_offset", -1)
    position = len(sql.encode()[:offset].decode(errors="ignore")) + 1 if offset >= 0 else None
    return GuestProblem("sql-error", str(error), hint, position=position)


def explain_full(problem: GuestProblem, path: Path) -> GuestProblem:
    """Return the problem, or another one if the quota of the database file is why it is full."""
    if problem.code == "storage-full" and (reason := exceeds_quota(path)):
        return GuestProblem("storage-quota", f"{reason}; nothing was written", QUOTA_HINT)
    return problem


def constraint_kind(error: Exception) -> str:
    """Return the violated constraint of an SQLite error: `unique`, `not-null`, …, or `other`."""
    return _CONSTRAINTS.get(getattr(error, "extendedresult", 0), "other")


def _remedy(kind: str, message: str) -> str:
    if kind == "type":
        return 'Columns hold values of their own type; a blob is the parameter {"base64": "…"}.'
    if kind == "check" and _OF_A_TYPE.fullmatch(message):
        return (
            "A boolean column takes true and false, a timestamp column moments such as"
            " 2026-01-02T03:04:05.678Z, a json column JSON."
        )
    return ""


def _first_parameter(
    params: Sequence[Value], is_invalid: Callable[[Value], bool], otherwise: str = "a parameter"
) -> str:
    return next((f"${number}" for number, value in enumerate(params, 1) if is_invalid(value)), otherwise)


def _is_too_big(value: Value) -> bool:
    data = value.encode(errors="replace") if isinstance(value, str) else value
    return isinstance(data, bytes) and len(data) > MAX_VALUE


def name_references(problem: GuestProblem, connection: Connection, sql: str) -> None:
    """Add the foreign keys that a statement can violate to the problem, if one of them is violated."""
    if problem.more.get("constraint") != "foreign-key":
        return
    used = used_tables(connection, sql)
    inserted = {table for action, table in used if action == apsw.SQLITE_INSERT}
    updated = {table for action, table in used if action == apsw.SQLITE_UPDATE}
    removed = {table for action, table in used if action == apsw.SQLITE_DELETE} | updated
    if "replace" in sql.lower():
        removed |= inserted
    texts = []
    for table, columns, parent, on_delete in connection.execute(_FOREIGN_KEYS):
        if fold(parent) in removed and on_delete not in ("NO ACTION", "RESTRICT"):
            return  # The violation may be that of a row that SQLite changes in turn.
        if fold(table) in inserted | updated or fold(parent) in removed:
            texts.append(f"{table}.{columns} refers to {parent}")
    if texts:
        problem.detail += f": {' or '.join(texts)}"
