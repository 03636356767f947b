"""What the Door tells a guest that something went wrong: problem documents (RFC 9457).

Owns the list of their codes. What SQLite says of guests' SQL is theirs to know, nothing of the host is.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from engine.door import DoorResponse, Headers

_HEADERS = (("content-type", b"application/problem+json"),)


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem: its status, and what it means."""

    status: int
    meaning: str


KINDS = {
    "bad-request": ProblemKind(400, "The request is not of the form that this address takes."),
    "bad-parameters": ProblemKind(400, "The parameters do not fit the statement."),
    "sql-error": ProblemKind(400, "SQLite can not make sense of the statement, or a value does not fit."),
    "more-than-one-statement": ProblemKind(400, "The SQL has more than one statement."),
    "writes-in-query": ProblemKind(400, "A statement that writes was sent to query."),
    "not-allowed": ProblemKind(403, "Guests may not do this."),
    "not-found": ProblemKind(404, "There is nothing at this address."),
    "method-not-allowed": ProblemKind(405, "The addresses of this Door take POST."),
    "constraint": ProblemKind(409, "A row breaks a rule of its table."),
    "too-large": ProblemKind(413, "The result, or a value, is larger than a guest may ask for."),
    "storage-damaged": ProblemKind(500, "The file of the tables is damaged."),
    "storage": ProblemKind(500, "The file of the tables can not be read or written."),
    "busy": ProblemKind(503, "Others are writing; try again in a moment."),
    "time-limit": ProblemKind(504, "The statement took longer than it may."),
    "storage-full": ProblemKind(507, "There is no room for more rows."),
}


class Problem(Exception):
    """One problem. `position` is that of a character in the SQL, counted from 1; `statement` from 0."""

    def __init__(
        self,
        code: str,
        detail: str,
        hint: str = "",
        *,
        position: int | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.hint = hint
        self.position = position
        self.statement: int | None = None
        self.more = dict(more or {})

    def response(self, request_id: str) -> DoorResponse:
        """Return the problem document that a guest gets."""
        kind = KINDS[self.code]
        document: dict[str, Any] = {
            "type": f"urn:svc:problem:tables:{self.code}",
            "title": HTTPStatus(kind.status).phrase,
            "status": kind.status,
            "code": self.code,
            "detail": self.detail,
        }
        optional = {"hint": self.hint or None, "position": self.position, "statement": self.statement}
        document |= {key: value for key, value in optional.items() if value is not None} | self.more
        document["request_id"] = request_id
        headers: Headers = _HEADERS
        if kind.status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers = (*headers, ("retry-after", b"1"))
        if kind.status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers = (*headers, ("allow", b"POST"))
        body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
        return DoorResponse(kind.status, body + b"\n", headers)
