"""Problem documents (RFC 9457) that the Door sends to guests, and their codes.

They contain SQLite's messages about the guest's SQL, and nothing about the host.
"""

from collections.abc import Mapping
from http import HTTPStatus

from engine.door import DoorResponse, Headers, ProblemKind, problem_response

KINDS = {
    "bad-request": ProblemKind(400, "The body has the wrong form."),
    "bad-parameters": ProblemKind(400, "The parameters do not fit the statement."),
    "sql-error": ProblemKind(400, "The SQL is invalid, or a value does not fit."),
    "more-than-one-statement": ProblemKind(400, "The SQL has more than one statement."),
    "writes-in-query": ProblemKind(400, "A statement that writes was sent to query."),
    "not-allowed": ProblemKind(403, "Guests are not allowed to do this."),
    "not-found": ProblemKind(404, "The path does not exist."),
    "method-not-allowed": ProblemKind(405, "Only POST is allowed."),
    "constraint": ProblemKind(409, "A row violates a constraint."),
    "key-reused": ProblemKind(409, "The idempotency key was used for another request."),
    "too-large": ProblemKind(413, "A result or a value exceeds its limit."),
    "storage-damaged": ProblemKind(500, "The database file is damaged."),
    "storage": ProblemKind(500, "The database file cannot be read or written."),
    "busy": ProblemKind(503, "Another writer is active; try again in a moment."),
    "unavailable": ProblemKind(503, "The fleet does not answer; a write may be stored or not."),
    "not-replicable": ProblemKind(400, "A fleet cannot replicate the table or the statement."),
    "time-limit": ProblemKind(504, "The statement exceeded its time limit."),
    "storage-full": ProblemKind(507, "The disk or the database is full."),
    "storage-quota": ProblemKind(507, "The tables have reached the quota of their project."),
}


class GuestProblem(Exception):
    """One problem. `position` is a character of the SQL, from 1; `statement` a batch index, from 0."""

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
        """Return the problem document."""
        kind = KINDS[self.code]
        optional = {"hint": self.hint or None, "position": self.position, "statement": self.statement}
        members = {key: value for key, value in optional.items() if value is not None} | self.more
        post: Headers = (("allow", b"POST"),) if kind.status == HTTPStatus.METHOD_NOT_ALLOWED else ()
        members["request_id"] = request_id
        return problem_response(kind.status, f"tables:{self.code}", self.detail, members, post)
