"""How the control API says that something went wrong: RFC 9457 problem documents, one for each `SvcError`.

Owns which status an error code has.
"""

import logging
from collections.abc import Mapping
from typing import Any

from quart import Response, json
from quart_schema import RequestSchemaValidationError
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException

from engine.control.auth.login_throttle import TooManyAttempts
from engine.errors import SvcError

STATUS: Mapping[str, int] = {
    "unauthenticated": 401,
    "forbidden": 403,
    "not-found": 404,
    "deployment": 404,
    "conflict": 409,
    "changed": 409,
    "blob-missing": 409,
    "upload-busy": 409,
    "gone": 410,
    "body-too-large": 413,
    "slow": 408,
    "too-many-attempts": 429,
    "internal": 500,
    "bucket": 503,
    "bucket-closed": 503,
    "unavailable": 503,
}
"""Every code that is not here is the caller's mistake: 422."""
_TITLES = {404: "the control API has nothing at this path", 405: "the control API has no such method there"}
DEFAULT_STATUS = 422
_log = logging.getLogger("svc.control")


class NotFound(SvcError):
    """There is no such thing, or the caller may not know of it."""

    code = "not-found"


class BodyTooLarge(SvcError):
    """A request is longer than its route takes."""

    code = "body-too-large"

    def __init__(self, most: int) -> None:
        super().__init__(f"the request is longer than {most} bytes")


def problem_members(error: SvcError) -> dict[str, Any]:
    """Return the members of the problem document of an error; the log has what callers are not told."""
    if error.public_message != error.message:
        _log.error("%s (%s)", error.message, error.hint)
    found = {
        "title": error.public_message,
        "status": STATUS.get(error.code, DEFAULT_STATUS),
        "code": error.code,
    }
    return found | ({"hint": error.hint} if error.hint else {})


def problem_response(error: SvcError, **more: Any) -> Response:
    """Return the problem document of an error; `more` are members that say more."""
    document = problem_members(error) | more
    status = document["status"]
    response = Response(json.dumps(document), status, content_type="application/problem+json")
    if isinstance(error, TooManyAttempts):
        response.headers["retry-after"] = str(error.retry_after)
    if status == 401:
        response.headers["www-authenticate"] = 'Bearer realm="svc"'
    return response


def from_http(error: HTTPException) -> Response:
    """Return the problem document for what the framework refuses: unknown paths, methods, large bodies."""
    codes = {404: "not-found", 405: "method-not-allowed", 413: "body-too-large"}
    status = error.code or 500
    members = {
        "title": _TITLES.get(status, error.name),
        "status": status,
        "code": codes.get(status, "bad-request"),
        "hint": "/openapi.json says what there is.",
    }
    headers = [
        (name, value) for name, value in error.get_headers() if name.lower() in ("allow", "retry-after")
    ]
    return Response(json.dumps(members), status, Headers(headers), content_type="application/problem+json")


def from_validation(error: RequestSchemaValidationError) -> Response:
    """Return the problem document for a body or a query that has not the form that the API says."""
    found = error.validation_error
    details = (
        found.errors(include_url=False, include_context=False, include_input=False)
        if hasattr(found, "errors")
        else [{"loc": (), "msg": str(found)}]
    )
    first = details[0] if details else {"loc": (), "msg": "it has another form"}
    place = ".".join(str(part) for part in first["loc"]) or "the request"
    return problem_response(
        SvcError(f"{place}: {first['msg']}", "/openapi.json says what is expected.", code="invalid")
    )
