"""Problem documents (RFC 9457) that the crypto Door sends to guests, and their codes."""

import json
from dataclasses import dataclass
from http import HTTPStatus

from engine.door import DoorResponse, Headers

HEADERS: Headers = (("content-type", b"application/problem+json"),)


@dataclass(frozen=True, slots=True)
class CryptoProblemKind:
    """The HTTP status and the meaning of a problem code."""

    status: HTTPStatus
    meaning: str


KINDS = {
    "bad-request": CryptoProblemKind(HTTPStatus.BAD_REQUEST, "The body has the wrong form."),
    "data-error": CryptoProblemKind(HTTPStatus.BAD_REQUEST, "A key is invalid, or of another type."),
    "operation-error": CryptoProblemKind(
        HTTPStatus.BAD_REQUEST, "The operation failed: wrong ciphertext, or parameters that do not fit."
    ),
    "not-supported": CryptoProblemKind(
        HTTPStatus.BAD_REQUEST, "The algorithm, curve or hash is not available."
    ),
    "not-found": CryptoProblemKind(HTTPStatus.NOT_FOUND, "The path does not exist."),
    "method-not-allowed": CryptoProblemKind(HTTPStatus.METHOD_NOT_ALLOWED, "Only POST is allowed."),
    "too-large": CryptoProblemKind(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The input exceeds its limit."),
    "too-expensive": CryptoProblemKind(
        HTTPStatus.UNPROCESSABLE_ENTITY, "A parameter exceeds its limit, or the run has too little time left."
    ),
    "busy": CryptoProblemKind(HTTPStatus.SERVICE_UNAVAILABLE, "Too much of the project's work is queued."),
}


class CryptoProblem(Exception):
    """A refused request. `code` is one of `KINDS`."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail

    def response(self) -> DoorResponse:
        """Return the problem document."""
        status = KINDS[self.code].status
        document = {
            "type": f"urn:svc:problem:crypto:{self.code}",
            "title": status.phrase,
            "status": status,
            "code": self.code,
            "detail": self.detail,
        }
        headers = HEADERS
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers = (*headers, ("retry-after", b"1"))
        return DoorResponse(status, json.dumps(document).encode(), headers)
