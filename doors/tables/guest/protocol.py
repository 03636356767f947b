"""The Door's wire: what requests mean, and how results are written. `docs/tables.md` describes it."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from doors.tables.guest.problem import Problem
from doors.tables.types.json import Value, parameters
from doors.tables.types.parse import decoder
from engine.door import DoorRequest, DoorResponse

Kind = Literal["query", "exec", "batch"]
_KINDS: dict[str, Kind] = {"/v1/query": "query", "/v1/exec": "exec", "/v1/batch": "batch"}
_ONE = {"sql", "params"}
MAX_STATEMENTS = 1000
"""How many statements a batch has at most."""
_FORM = 'The body is {"sql": "…", "params": […]}.'
_BATCH_FORM = 'The body is {"statements": [{"sql": "…", "params": […]}, …]}.'


class Statement(NamedTuple):
    """One statement, with values as SQLite takes them."""

    sql: str
    params: list[Value]


class Request(NamedTuple):
    """What a guest wants done; a query and an exec have one statement. `size`: bytes of its body."""

    kind: Kind
    statements: Sequence[Statement]
    size: int


def read_request(request: DoorRequest) -> Request:
    """Return what a request means. Raises `Problem`."""
    kind = _KINDS.get(request.path)
    if kind is None:
        raise Problem("not-found", f"there is nothing at {request.path}", f"There are {', '.join(_KINDS)}.")
    if request.method != "POST":
        raise Problem("method-not-allowed", f"{request.path} takes POST, not {request.method}")
    form = _BATCH_FORM if kind == "batch" else _FORM
    try:
        document = decoder.decode(str(request.body, "utf-8"))
    except UnicodeDecodeError as error:
        raise Problem("bad-request", "the body is not UTF-8", form) from error
    except RecursionError as error:
        raise Problem("bad-request", "the body is nested too deeply", form) from error
    except ValueError as error:
        raise Problem("bad-request", f"the body is not JSON: {error}", form) from error
    if kind == "batch":
        return Request(kind, _statements(document), len(request.body))
    return Request(kind, (_statement(document, form),), len(request.body))


def _statements(document: Any) -> list[Statement]:
    if (
        type(document) is not dict
        or document.keys() != {"statements"}
        or type(document["statements"]) is not list
    ):
        raise Problem("bad-request", "the body is no batch", _BATCH_FORM)
    found = document["statements"]
    if len(found) > MAX_STATEMENTS:
        raise Problem(
            "too-large",
            f"the batch has {len(found)} statements, and {MAX_STATEMENTS} is the most",
            "Send it in parts; each is a transaction of its own.",
        )
    statements = []
    for index, each in enumerate(found):
        try:
            statements.append(_statement(each, _BATCH_FORM))
        except Problem as problem:
            problem.statement = index
            raise
    return statements


def _statement(document: Any, form: str) -> Statement:
    if type(document) is not dict:
        raise Problem("bad-request", "a statement is a JSON object", form)
    sql = document.get("sql")
    params = document.get("params", [])
    if len(document) > 1 and not document.keys() <= _ONE:
        unknown = ", ".join(sorted(document.keys() - _ONE))
        raise Problem("bad-request", f"a statement has no {unknown}", form)
    if type(sql) is not str:
        raise Problem("bad-request", "sql is missing, or not a string", form)
    if type(params) is not list:
        raise Problem("bad-request", "params is not an array", form)
    return Statement(sql, parameters(params))


def result(changes: int, last_id: int, rows: bytes) -> bytes:
    """Write what one statement did: `rows` is a JSON array, empty when it gives none."""
    if rows:
        return b'{"changes":%d,"last_id":%d,"rows":%b}' % (changes, last_id, rows)
    return b'{"changes":%d,"last_id":%d}' % (changes, last_id)


def query_response(rows: bytes) -> DoorResponse:
    """Write the answer to a query."""
    return DoorResponse(200, b'{"rows":%b}' % rows)


def response(kind: Kind, results: Sequence[bytes]) -> DoorResponse:
    """Write the answer to an exec or a batch."""
    return DoorResponse(200, b'{"results":[%b]}' % b",".join(results) if kind == "batch" else results[0])
