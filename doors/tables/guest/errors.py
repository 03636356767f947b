"""What SQLite and Python say when a statement fails, as a `Problem` for the guest that sent it."""

import re
from collections.abc import Callable, Sequence

from doors.tables.guest.problem import Problem
from doors.tables.sqlite.connections import MAX_SQL, MAX_VALUE, apsw
from doors.tables.sqlite.errors import INTEGERS
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
"""What SQLite says of the check of a logical type: the name, where that is what the check begins with."""
_HALF = re.compile("[\ud800-\udfff]")

GUEST_ERRORS = (apsw.Error, OverflowError, UnicodeError)
"""What compiling and running a statement may raise that is the guest's to know."""


def to_problem(
    error: Exception, sql: str, refusal: Problem | None = None, params: Sequence[Value] = ()
) -> Problem:
    """Return an error as a problem; `refusal` is what the sandbox said of the statement."""
    match error:
        case Problem():
            return error
        case apsw.AuthError() if refusal is not None:
            return refusal
        case UnicodeDecodeError():
            return Problem(
                "sql-error", "the result has text that is not UTF-8", "Read it as a blob: CAST(… AS blob)."
            )
        case UnicodeEncodeError():
            return _not_unicode(sql, params)
        case OverflowError():
            which = _first(params, lambda value: isinstance(value, int) and value not in INTEGERS)
            return Problem("bad-parameters", f"{which} is an integer of more than 64 bits")
        case apsw.ConstraintError():
            kind = constraint_kind(error)
            more = {"constraint": kind}
            return Problem("constraint", str(error), _remedy(kind, str(error)), more=more)
        case apsw.InterruptError():
            return Problem(
                "time-limit",
                "the statement took longer than it may",
                "An index, or a LIMIT, may spare it most of its work.",
            )
        case apsw.TooBigError():
            return _too_big(sql)
    return _storage(error) or _statement(error, sql)


def constraint_kind(error: Exception) -> str:
    """Return which rule an error of SQLite says a row breaks: `unique`, `not-null`, …, or `other`."""
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


def _storage(error: Exception) -> Problem | None:
    match error:
        case apsw.CorruptError() | apsw.NotADBError():
            return Problem("storage-damaged", f"the tables of this Project can not be used: {error}")
        case apsw.FullError():
            return Problem("storage-full", "there is no room for more rows: nothing was written")
        case apsw.BusyError() | apsw.LockedError():
            return Problem("busy", "another writer holds the tables: nothing was written")
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() | apsw.IOError():
            return Problem("storage", f"the tables of this Project can not be read or written: {error}")
    return None


def _statement(error: Exception, sql: str) -> Problem:
    message = str(error)
    hint = ""
    if message.startswith("no such table"):
        hint = "The Project's tables/*.sql migrations make tables, and svc tables list tells which there are."
    offset = getattr(error, "error_offset", -1)
    return Problem("sql-error", message, hint, position=position_at(sql, offset) if offset >= 0 else None)


def position_at(sql: str, offset: int) -> int:
    """Return the position of a character, counted from 1, by its offset in bytes of UTF-8."""
    return len(sql.encode()[:offset].decode(errors="ignore")) + 1


def _not_unicode(sql: str, params: Sequence[Value]) -> Problem:
    if half := _HALF.search(sql):
        return Problem("sql-error", "the SQL has half of a surrogate pair", position=half.start() + 1)
    which = _first(params, lambda value: isinstance(value, str) and _HALF.search(value) is not None)
    return Problem("bad-parameters", f"{which} has half of a surrogate pair, which is no text")


def _first(params: Sequence[Value], wrong: Callable[[Value], bool]) -> str:
    """Return which parameter is the first that is wrong."""
    return next((f"${number}" for number, value in enumerate(params, 1) if wrong(value)), "a parameter")


def _too_big(sql: str) -> Problem:
    if len(sql.encode()) > MAX_SQL:
        return Problem(
            "too-large",
            f"the statement has more than {MAX_SQL} bytes",
            "Values go into params; many rows into the statements of /v1/batch.",
        )
    return Problem("too-large", f"a value or a row has more than {MAX_VALUE} bytes")
