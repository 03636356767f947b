"""The platform's error responses: RFC 9457 problem documents, or an HTML page for a browser.

Outside development, they contain no details of the host or the guest.
"""

import json
from dataclasses import dataclass
from http import HTTPStatus

from engine.gateway.error_page import DebugDetail, render_error_page
from engine.http.exchange import Exchange, Headers

JSON = b"application/problem+json"
HTML = b"text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """The HTTP status of an error code, and its explanation for clients."""

    status: int
    meaning: str


PROBLEM_TYPES = {
    "invalid-host": ProblemType(400, "The Host header is not a host name and a port."),
    "not-found": ProblemType(404, "No resource or file matches this address."),
    "unknown-host": ProblemType(404, "No project and no resource of this service has this host name."),
    "body-too-large": ProblemType(413, "The request body exceeds the size limit of this service."),
    "guest-failed": ProblemType(500, "The application failed during this request."),
    "memory-limit": ProblemType(500, "The application exceeded its memory limit."),
    "rate-limited": ProblemType(429, "Too many requests from your address. Try again later."),
    "quota-exceeded": ProblemType(429, "The application has reached its quota. Try again in a moment."),
    "internal": ProblemType(500, "The service failed during this request."),
    "unavailable": ProblemType(503, "The application lacks its data at the moment. Try again later."),
    "overloaded": ProblemType(503, "Too many requests are in progress. Try again in a moment."),
    "not-ready": ProblemType(503, "The application is not ready yet."),
    "run-limit": ProblemType(504, "The application exceeded its time limit."),
    "mount-loop": ProblemType(508, "The request passed through too many mounts."),
}


def wants_page(headers: Headers) -> bool:
    """Return whether the client is a browser: its `Accept` header names `text/html`."""
    return any(name == b"accept" and b"text/html" in value for name, value in headers)


async def send_problem(
    exchange: Exchange,
    code: str,
    request_id: str,
    *,
    html: bool,
    debug: DebugDetail | None,
    retry_after: int = 1,
) -> tuple[int, int]:
    """Send the response for an error code; return its status and the size of its body in bytes.

    `retry_after` is in seconds, for the codes after which a client should retry.
    """
    problem = PROBLEM_TYPES[code]
    title = HTTPStatus(problem.status).phrase
    if html:
        page = render_error_page(problem.status, title, code, problem.meaning, request_id, debug)
        body = page.encode()
    else:
        document = {
            "type": f"urn:svc:problem:{code}",
            "title": title,
            "status": problem.status,
            "code": code,
            "detail": debug.detail if debug and debug.detail else problem.meaning,
            "request_id": request_id,
        }
        body = json.dumps(document, ensure_ascii=False).encode() + b"\n"
    headers = [
        (b"content-type", HTML if html else JSON),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if problem.status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        headers.append((b"retry-after", b"%d" % retry_after))
    payload = b"" if exchange.request.method == "HEAD" else body
    await exchange.send_head(problem.status, headers)
    await exchange.send_body(payload, end=True)
    return problem.status, len(payload)
