"""The Door's HTTP protocol: parsing of requests, encoding of results."""

from collections.abc import Callable, Sequence
from time import perf_counter_ns, time_ns
from typing import Any, Literal, NamedTuple

from doors.tables.guest.plan import ROW_FORMS, RowForm
from doors.tables.guest.problem import GuestProblem
from doors.tables.replication.entry import UNKNOWN, Origin
from doors.tables.types.json import Value, parameters
from doors.tables.types.parse import decode, json_mistake
from engine.door import DoorRequest, DoorResponse, DoorTables
from engine.stepwise_json import MAX_STEP, TooComplex, parse
from engine.trace import MAX_BATCH_CALLS, MAX_NAME_CHARS, Call

Kind = Literal["query", "exec", "batch"]
_KINDS: dict[str, Kind] = {"/v1/query": "query", "/v1/exec": "exec", "/v1/batch": "batch"}
_VALUES = ("typed", "stored")
QUICK_VALUES = 20_000
"""Maximum values of a request that is read on the event loop."""
MAX_VALUES = 400_000
"""Maximum values in a request of more than 64 KiB."""
_SEPARATORS = (b",", b"[", b"{")
MAX_STATEMENTS = 1000
"""Maximum number of statements in a batch."""
MAX_KEY = 255
"""Maximum number of characters of an idempotency key."""
_FORM = 'The body is {"sql": "…", "params": […]}.'
_BATCH_FORM = 'The body is {"statements": [{"sql": "…", "params": […]}, …]}.'


class SqlStatement(NamedTuple):
    """One statement, with its parameters as SQLite values.

    With `stored`, the result has values as SQLite stores them, and blobs as `{"base64": "…"}`.
    """

    sql: str
    params: list[Value]
    rows: RowForm = "objects"
    stored: bool = False


class SqlRequest(NamedTuple):
    """A parsed request. A query or exec has one statement. `size` is the length of the body in bytes.

    `call` is its span in the trace of the caller's request, if that is recorded.
    """

    kind: Kind
    statements: Sequence[SqlStatement]
    size: int
    call: Call | None = None
    stale_ok: bool | None = None
    """Whether a read may miss the last writes of other nodes of a fleet; None: as those of its resource."""
    idempotency_key: str = ""
    """If not empty, the answer to a write is stored, and a repeated request gets it."""
    origin: Origin = UNKNOWN
    trusted: bool = False
    """Whether svc itself asks: its SQL can use the tables of Doors."""
    tables: DoorTables | None = None
    """The tables of a Door that its SQL names."""
    on_committed: Callable[[], None] | None = None
    """Called on the event loop after the commit of a write."""


def has_many_values(request: DoorRequest) -> bool:
    """Return whether to read a request in a thread: it may have so many values that it takes long."""
    body = request.body
    return len(body) > MAX_STEP and sum(map(body.count, _SEPARATORS)) > QUICK_VALUES


def read_request(request: DoorRequest, *, stepwise: bool = False) -> SqlRequest:
    """Parse a request, in short steps if `stepwise` is true. Raises `GuestProblem`."""
    kind = _KINDS.get(request.path)
    if kind is None:
        raise GuestProblem("not-found", f"{request.path} does not exist", f"Available: {', '.join(_KINDS)}.")
    if request.method != "POST":
        raise GuestProblem("method-not-allowed", f"{request.path} takes POST, not {request.method}")
    form = _BATCH_FORM if kind == "batch" else _FORM
    try:
        text = str(request.body, "utf-8")
        document = parse(text, MAX_VALUES, exact=True) if stepwise else decode(text)
    except UnicodeDecodeError as error:
        raise GuestProblem("bad-request", "the body is not UTF-8", form) from error
    except TooComplex as error:
        raise GuestProblem(
            "too-large", f"the body has {error}", "Send fewer rows in a request, or a json value as a text."
        ) from error
    except RecursionError as error:
        raise GuestProblem("bad-request", "the body is nested too deeply", form) from error
    except ValueError as error:
        raise GuestProblem("bad-request", f"the body is not JSON: {json_mistake(error)}", form) from error
    call = request.call
    if call is not None and (capture := call.capture) is not None:
        capture.sent, capture.time_ns = capture.cut(request.body), time_ns()
    stale_ok, key = _options(document, form)
    origin = UNKNOWN
    if kind != "query":
        origin = Origin("request", request.caller.deployment, requests=(request.caller.request_id,))
    # Digests for idempotency keys have the type of this sequence in their text.
    statements = _statements(document) if kind == "batch" else (_statement(document, form),)
    if call is not None:
        batch = f"batch of {len(statements)}"
        call.kind, call.name = "sql", batch if kind == "batch" else statements[0].sql[:MAX_NAME_CHARS]
    return SqlRequest(kind, statements, len(request.body), call, stale_ok, key, origin, request.trusted)


def _options(document: Any, form: str) -> tuple[bool | None, str]:
    """Remove and return `stale_ok` and `idempotency_key`."""
    if type(document) is not dict:
        return None, ""
    stale_ok = document.pop("stale_ok", None)
    if stale_ok is not None and type(stale_ok) is not bool:
        raise GuestProblem("bad-request", "stale_ok is not true or false", form)
    if "idempotency_key" not in document:
        return stale_ok, ""
    key = document.pop("idempotency_key")
    if type(key) is str and len(key) > MAX_KEY:
        message = f"idempotency_key has {len(key)} characters; the maximum is {MAX_KEY}"
        raise GuestProblem("bad-request", message, "Use its SHA-256.")
    if type(key) is not str or not key or not key.isprintable():
        raise GuestProblem("bad-request", "idempotency_key is not a string of printable characters", form)
    return stale_ok, key


def describe(request: SqlRequest, rows: int, began_ns: int, transaction: str, shared: int = 1) -> None:
    """Set the details of the span of a request, whose statements began at `began_ns` and have run.

    `shared` is the number of requests in the transaction.
    """
    call = request.call
    if call is None:
        return
    details: dict[str, int | str] = {"transaction": transaction}
    if request.kind != "batch":
        details = {"params": len(request.statements[0].params), "rows": rows, "transaction": transaction}
    if shared > 1:
        details["shared"] = shared
    details["wait_ns"], details["run_ns"] = began_ns - call.start_ns, perf_counter_ns() - began_ns
    call.details = details


def add_statement(call: Call, statement: SqlStatement, started_ns: int, rows: int) -> None:
    """Add a statement of a batch, which ends now, to the span of the batch."""
    if call.statements is None:
        call.statements = []
    if len(call.statements) < MAX_BATCH_CALLS:
        span = Call("sql", statement.sql[:MAX_NAME_CHARS], started_ns)
        span.details = {"params": len(statement.params), "rows": rows}
        span.end()
        call.statements.append(span)


def _statements(document: Any) -> list[SqlStatement]:
    if (
        type(document) is not dict
        or document.keys() != {"statements"}
        or type(document["statements"]) is not list
    ):
        raise GuestProblem("bad-request", "the body is not a batch", _BATCH_FORM)
    items = document["statements"]
    if len(items) > MAX_STATEMENTS:
        raise GuestProblem(
            "too-large",
            f"the batch has {len(items)} statements; the maximum is {MAX_STATEMENTS}",
            "Split it into several batches, each its own transaction.",
        )
    statements = []
    for index, each in enumerate(items):
        try:
            statements.append(_statement(each, _BATCH_FORM))
        except GuestProblem as problem:
            problem.statement = index
            raise
    return statements


def _statement(document: Any, form: str) -> SqlStatement:
    if type(document) is not dict:
        raise GuestProblem("bad-request", "a statement is not a JSON object", form)
    sql = document.pop("sql", None)
    params = document.pop("params", [])
    rows, stored = _result_form(document, form) if document else ("objects", False)
    if type(sql) is not str:
        raise GuestProblem("bad-request", "sql is missing or not a string", form)
    if type(params) is not list:
        raise GuestProblem("bad-request", "params is not an array", form)
    return SqlStatement(sql, parameters(params), rows, stored)


def _result_form(document: Any, form: str) -> tuple[RowForm, bool]:
    """Return the members of a statement besides `sql` and `params`."""
    rows, values = document.pop("rows", "objects"), document.pop("values", "typed")
    if document:
        raise GuestProblem("bad-request", f"a statement has no {', '.join(sorted(document))}", form)
    for name, value, known in (("rows", rows, ROW_FORMS), ("values", values, _VALUES)):
        if value not in known:
            raise GuestProblem("bad-request", f"{name} is not one of {', '.join(known)}", form)
    return rows, values == "stored"


def result(changes: int, last_id: int, rows: bytes) -> bytes:
    """Return the JSON result of one statement. `rows` is a JSON array, empty without a result set."""
    if rows:
        return b'{"changes":%d,"last_id":%d,"rows":%b}' % (changes, last_id, rows)
    return b'{"changes":%d,"last_id":%d}' % (changes, last_id)


def response(kind: Kind, results: Sequence[bytes]) -> DoorResponse:
    """Return the response to an exec or a batch."""
    return DoorResponse(200, b'{"results":[%b]}' % b",".join(results) if kind == "batch" else results[0])
