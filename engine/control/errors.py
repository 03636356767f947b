"""RFC 9457 problem documents for errors, and the HTTP status of each error code."""

import logging
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from quart import Response, json
from quart_schema import RequestSchemaValidationError
from werkzeug.exceptions import HTTPException

from engine.errors import SvcError

STATUS: Mapping[str, int] = {
    "unauthenticated": 401,
    "forbidden": 403,
    "not-found": 404,
    "deployment": 404,
    "conflict": 409,
    "changed": 409,
    "domain-taken": 409,
    "blob-missing": 409,
    "upload-busy": 409,
    "gone": 410,
    "precondition": 412,
    "body-too-large": 413,
    "range": 416,
    "slow": 408,
    "too-many-attempts": 429,
    "internal": 500,
    "file-damaged": 500,
    "storage-full": 507,
    "storage-quota": 507,
    "busy": 503,
    "bucket": 503,
    "bucket-closed": 503,
    "bucket-refused": 503,
    "bucket-unavailable": 503,
    "unavailable": 503,
}
"""HTTP status by error code. Every other code is a client error: 422."""
_TITLES = {404: "the control API has no such path", 405: "the control API does not support this method here"}
DEFAULT_STATUS = 422
MAX_DETAILED_ERRORS = 1000
"""Maximum mistakes in a request of which the first is described."""
_log = logging.getLogger("svc.control")


class NotFound(SvcError):
    """The object does not exist, or the caller may not see it."""

    code = "not-found"


class TooManyAttempts(SvcError):
    """The caller must wait before the next attempt; `retry_after` is in seconds."""

    code = "too-many-attempts"

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message, f"Try again in {retry_after} s.")
        self.retry_after = retry_after


def problem_members(error: SvcError) -> dict[str, Any]:
    """Return an error's problem document. Details that callers may not see go to the log only."""
    if error.public_message != error.message:
        _log.error("%s (%s)", error.message, error.hint)
    document = {
        "title": error.public_message,
        "status": STATUS.get(error.code, DEFAULT_STATUS),
        "code": error.code,
    }
    return document | ({"hint": error.hint} if error.hint else {})


def problem_response(error: SvcError, **more: Any) -> Response:
    """Return an error as a response. `more` are additional members of the document."""
    document = problem_members(error) | more
    status = document["status"]
    response = Response(json.dumps(document), status, content_type="application/problem+json")
    if isinstance(error, TooManyAttempts):
        response.headers["retry-after"] = str(error.retry_after)
    if status == 401:
        response.headers["www-authenticate"] = 'Bearer realm="svc"'
    return response


def from_http(error: HTTPException) -> Response:
    """Return the problem response for a framework error: unknown path, wrong method, large body."""
    codes = {404: "not-found", 405: "method-not-allowed", 413: "body-too-large"}
    status = error.code or 500
    title, hint = _TITLES.get(status, error.name), "/openapi.json lists all paths and methods."
    answer = SvcError(title, hint, code=codes.get(status, "bad-request"))
    response = problem_response(answer, status=status)
    for name, value in error.get_headers():
        if name.lower() in ("allow", "retry-after"):
            response.headers[name] = value
    return response


def from_validation(error: RequestSchemaValidationError) -> Response:
    """Return the problem response for a body or query that does not match its schema."""
    cause = error.validation_error
    if not isinstance(cause, ValidationError):
        message = f"the request: {cause}"
    elif cause.error_count() > MAX_DETAILED_ERRORS:
        message = f"the request does not match its schema in {cause.error_count()} places"
    else:
        first = cause.errors(include_url=False, include_context=False, include_input=False)[0]
        message = f"{'.'.join(map(str, first['loc'])) or 'the request'}: {first['msg']}"
    return problem_response(SvcError(message, "/openapi.json has the schema.", code="invalid"))
