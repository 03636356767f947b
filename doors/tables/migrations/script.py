"""Execution of an owner's SQL scripts: migrations and imported dumps.

A script has full access to the project's tables. It cannot use other files, connection settings or svc's
own tables. Statements that begin and commit a transaction, and pragmas about foreign keys, are skipped. Every
error names the file and line.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice

from doors.tables.replication.errors import ReplicationError
from doors.tables.schema import notes
from doors.tables.sqlite.catalog import reserved
from doors.tables.sqlite.connections import apsw, recorder_of
from doors.tables.sqlite.errors import Connection, Error, FullError, InterruptError, TablesError, rows
from doors.tables.sqlite.tokens import ParsedStatement, StatementTooLong, tokens
from engine.files.sql_functions import DENIED_FUNCTIONS, lower_limit
from engine.files.statement_limit import StatementLimit
from engine.files.statement_memory import COLLECTING_FUNCTIONS, StatementMemory

MAX_COLLECTED_BYTES = 256 << 20
"""Maximum memory of a statement: of the values that it collects, and of its compiled form."""
MAX_STATEMENT_BYTES = 32 << 20
"""Maximum characters of one statement."""
TIMEOUT_SECONDS = 300.0
"""Time limit of one statement, so that an endless one does not block other writers forever."""

_LONG_CHARACTERS = 1 << 20
"""Characters of a statement whose compiled form may take much memory."""
_PRAGMAS = ("data_version", "page_size", "quick_check")
"""Read-only pragmas that FTS5, R*Tree and ALTER TABLE use internally."""
_MODULES = ("fts5", "fts5vocab", "rtree", "rtree_i32", "geopoly")
_SKIPPED_PRAGMAS = ("foreign_keys", "defer_foreign_keys", "foreign_key_check")
"""Pragmas that dumps and generated migrations have; svc checks foreign keys once, at the end."""
_ONE_TRANSACTION = "Remove the line: the whole file is already one transaction."
_DUMP_HINT = "Remove the line. If it is from a dump with a full-text index, import the database file itself."
_NOT_TEMPORARY = "Create it without TEMP, and drop it at the end."
_HINTS = {
    apsw.SQLITE_TRANSACTION: ("begins or ends a transaction", _ONE_TRANSACTION),
    apsw.SQLITE_SAVEPOINT: ("begins or ends a transaction", _ONE_TRANSACTION),
    apsw.SQLITE_PRAGMA: ("has a PRAGMA", _DUMP_HINT),
    apsw.SQLITE_ATTACH: ("attaches another file", "Only the project's own tables can be used."),
    apsw.SQLITE_DETACH: ("detaches a file", "Only the project's own tables can be used."),
} | {
    getattr(apsw, f"SQLITE_CREATE_TEMP_{kind}"): ("creates a temporary object", _NOT_TEMPORARY)
    for kind in ("TABLE", "VIEW", "TRIGGER", "INDEX")
}
_KINDS = ("TABLE", "INDEX", "TRIGGER", "VIEW", "VTABLE")
_ACTIONS_WITH_NAME = {apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE} | {
    getattr(apsw, f"SQLITE_{verb}_{kind}") for verb in ("CREATE", "DROP") for kind in _KINDS
}


_ITEMS = "SELECT type, name FROM sqlite_schema"


def run(connection: Connection, name: str, script: Iterable[ParsedStatement], **limits: float) -> None:
    """Run all statements. Arguments and errors are those of `run_steps`."""
    for _ in run_steps(connection, name, script, **limits):  # type: ignore[arg-type]
        pass


def run_steps(
    connection: Connection,
    name: str,
    script: Iterable[ParsedStatement],
    *,
    allow_internal: bool = False,
    seconds: float = TIMEOUT_SECONDS,
    deadline: float = math.inf,
) -> Iterator[int]:
    """Run statements in the caller's transaction; yield the number of completed ones after each.

    `name` is the file name for messages; if empty, they have the line alone. With `allow_internal` the script
    may create and fill svc's own tables, as dumps do. `seconds` is the time limit of each statement, and
    `deadline` that of all, in seconds of `monotonic`. Raises `TablesError`.
    """
    before, altered = set(rows(connection, _ITEMS)), list[str]()
    with _restricted(connection, notes.INTERNAL_TABLES if allow_internal else ()) as refusals:
        try:
            for count, statement in enumerate(script, 1):
                end = min(deadline, time.monotonic() + seconds)
                if _run_statement(connection, name, statement, refusals, end):
                    altered.append(statement.sql)
                yield count
        except StatementTooLong as error:
            raise TablesError(
                f"{_location(name, error.line)}: the statement exceeds {MAX_STATEMENT_BYTES} characters",
                "Split it, or close an open quote.",
            ) from None
    for sql in altered:
        _rename_notes(connection, sql)
    for kind, item in set(rows(connection, _ITEMS)) - before:
        if reserved(item) and item not in notes.INTERNAL_TABLES and not item.startswith("sqlite_"):
            raise TablesError(
                f"{name or 'the file'}: the {kind} {item} has a reserved name", "Choose another name."
            )


def _run_statement(
    connection: Connection, name: str, statement: ParsedStatement, refusals: "_Refusals", end: float
) -> bool:
    """Run a statement. Return whether it is an ALTER TABLE."""
    nul = statement.sql.find("\0")

    def failure(reason: str, hint: str, offset: int = 0, code: str = TablesError.code) -> TablesError:
        line = statement.line + statement.sql.count("\n", 0, offset)
        return TablesError(f"{_location(name, line)}: {reason}", hint, code=code)

    if nul >= 0:
        raise failure("the SQL has a NUL character", "Remove it, or use char(0).", nul)
    words = [token.value.lower() for token in islice(tokens(statement.sql), 5)]
    if _is_skipped(words):
        return False
    if words[:1] == ["pragma"]:
        reason, hint = _HINTS[apsw.SQLITE_PRAGMA]
        raise failure(f"the statement {reason}", hint)
    refusals.clear()
    seconds = end - time.monotonic()
    if seconds < 0:
        hint = "Nothing was changed. Split the migrations."
        raise failure("the time limit has passed", hint, code="timeout")
    memory = StatementMemory(connection, MAX_COLLECTED_BYTES)
    length = connection.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_STATEMENT_BYTES)
    try:
        with StatementLimit(connection, seconds, memory=memory), ExitStack() as turn:
            refusals.turn = lambda: turn.enter_context(memory)
            if len(statement.sql) > _LONG_CHARACTERS:
                refusals.take_turn()
            for _ in connection.execute(statement.sql):
                pass
        if (recorder := recorder_of(connection)) is not None:
            recorder.check_schema()
    except apsw.AuthError:
        reason, hint = refusals[0] if refusals else ("is not allowed in scripts", "")
        raise failure(f"the statement {reason}", hint) from None
    except FullError:
        raise
    except ReplicationError as error:
        raise failure(error.message, error.hint, code=error.code) from error
    except InterruptError:
        if memory.oversized:
            message = f"the statement takes more than {MAX_COLLECTED_BYTES >> 20} MiB of memory"
            raise failure(message, "Nothing was changed. Collect fewer values.", code="too-large") from None
        message = f"the statement took longer than {seconds:.0f} s"
        hint = "Nothing was changed. Check that it terminates, or split it."
        raise failure(message, hint, code="timeout") from None
    except (Error, UnicodeDecodeError) as error:
        offset = len(
            statement.sql.encode()[: max(getattr(error, "error_offset", 0), 0)].decode(errors="ignore")
        )
        raise failure(str(error), _hint(str(error)), offset) from error
    finally:
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, length)
    return words[:1] == ["alter"]


def _is_skipped(words: Sequence[str]) -> bool:
    """Return whether a statement, given its first words, is about the transaction or foreign keys."""
    match words:
        case ["begin" | "commit" | "end", *more]:
            return set(more) <= {"deferred", "immediate", "exclusive", "transaction"}
        case ["pragma", _, ".", name, *_] | ["pragma", name, *_]:
            return name in _SKIPPED_PRAGMAS
    return False


def _location(name: str, line: int) -> str:
    return f"{name}:{line}" if name else f"line {line}"


def _hint(message: str) -> str:
    if "already exists" in message:
        record = "if it was made by hand here, `svc tables migration NAME` records this file as applied"
        return f"Choose another name, or drop the existing object first; {record}."
    if message.startswith(("error in view", "error in trigger")):
        kind = message.split()[2]
        return f"Drop the {kind} before the change, and create it again after it. Nothing was changed."
    if message.endswith("may not be modified"):
        return _DUMP_HINT
    return "Nothing was changed. Correct it, then try again."


class _Refusals(list[tuple[str, str]]):
    """The refusals of a statement, each a reason and a hint. `turn` takes its turn to collect values."""

    turn: Callable[[], object] | None = None

    def take_turn(self) -> None:
        """Wait for the turn of the statement, once."""
        turn, self.turn = self.turn, None
        if turn is not None:
            turn()


@contextmanager
def _restricted(connection: Connection, internal_tables: tuple[str, ...]) -> Iterator[_Refusals]:
    """Restrict a connection to scripts. Yields the refusals."""
    refusals = _Refusals()

    def refuse(reason: str, hint: str) -> int:
        refusals.append((reason, hint))
        return apsw.SQLITE_DENY

    def authorize(
        code: int, first: str | None, second: str | None, _database: str | None, _by: str | None
    ) -> int:
        if code == apsw.SQLITE_PRAGMA and first == "table_xinfo" and second:
            return apsw.SQLITE_OK  # Recording of changed rows reads it. `_run_statement` refuses PRAGMA.
        if code == apsw.SQLITE_PRAGMA and first in _PRAGMAS and (second is None or first == "quick_check"):
            return apsw.SQLITE_OK
        if code in _HINTS:
            return refuse(*_HINTS[code])
        if code == apsw.SQLITE_FUNCTION and (second or "").lower() in DENIED_FUNCTIONS:
            return refuse(f"calls {second}", "Scripts cannot call this function.")
        if code == apsw.SQLITE_FUNCTION and second:
            lower_limit(connection, second.lower())
            if second.lower() in COLLECTING_FUNCTIONS:
                refusals.take_turn()
        if code == apsw.SQLITE_CREATE_VTABLE and (second or "").lower() not in _MODULES:
            return refuse(f"uses the module {second}", f"Available: {', '.join(_MODULES)}.")
        table = second if code == apsw.SQLITE_ALTER_TABLE else first if code in _ACTIONS_WITH_NAME else None
        if table is not None and table.lower().startswith("_svc") and table not in internal_tables:
            return refuse(f"uses {table}", "Names that begin with _svc are reserved.")
        return apsw.SQLITE_OK

    connection.authorizer = authorize
    try:
        yield refusals
    finally:
        connection.authorizer = None


def _rename_notes(connection: Connection, sql: str) -> None:
    """Rename the table or the column of notes as a statement that begins with ALTER has done."""
    names = [token.value for token in tokens(sql) if token.text != ";"]
    if names[3] == ".":
        del names[2:4]
    if names[3].lower() != "rename":
        return
    match names[2:]:
        case [table, _, _, new]:
            notes.rename_table(connection, table, new)
        case [table, _, *_, old, _, new]:
            notes.rename_column(connection, table, old, new)
