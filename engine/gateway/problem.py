"""The platform's own answers: RFC 9457 problem documents, or a page for a browser.

Owns the list of error codes and what a caller is told of each: nothing of the host, and outside dev
nothing of the guest.
"""

import json
from dataclasses import dataclass
from http import HTTPStatus

from engine.errors import SvcError
from engine.gateway.error_page import page
from engine.wasm.execution.request import Headers, Send

JSON = b"application/problem+json"
HTML = b"text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of error: its status, and what it means to a caller."""

    status: int
    meaning: str


KINDS = {
    "not-found": Kind(404, "There is nothing at this address."),
    "body-too-large": Kind(413, "The request body is larger than this service takes."),
    "guest-failed": Kind(500, "The application failed while it answered."),
    "memory-limit": Kind(500, "The application needed more memory than it may use."),
    "internal": Kind(500, "The service failed while it answered."),
    "overloaded": Kind(503, "Too many requests are under way; try again in a moment."),
    "not-ready": Kind(503, "The application is not ready yet."),
    "run-limit": Kind(504, "The application took longer than it may."),
    "mount-loop": Kind(508, "The request was handed on too many times."),
}


@dataclass(frozen=True, slots=True)
class Insight:
    """What only the developer sees: a sentence, the guest's last lines, and a build that failed.

    With `building`, the page reloads itself until the first build is ready.
    """

    detail: str = ""
    lines: tuple[str, ...] = ()
    error: SvcError | None = None
    building: bool = False


def wants_page(headers: Headers) -> bool:
    """Whether the caller is a browser: it accepts HTML by name."""
    return any(name == b"accept" and b"text/html" in value for name, value in headers)


async def send_problem(
    code: str,
    request_id: str,
    *,
    html: bool,
    head: bool,
    insight: Insight | None,
    send: Send,
) -> tuple[int, int]:
    """Send the whole answer for an error code; return its status and the size of its body in bytes."""
    kind = KINDS[code]
    title = HTTPStatus(kind.status).phrase
    if html:
        body = page(kind.status, title, code, kind.meaning, request_id, insight).encode()
    else:
        detail = insight.detail if insight and insight.detail else kind.meaning
        document = {
            "type": f"urn:svc:problem:{code}",
            "title": title,
            "status": kind.status,
            "code": code,
            "detail": detail,
            "request_id": request_id,
        }
        body = json.dumps(document, ensure_ascii=False).encode() + b"\n"
    headers = [
        (b"content-type", HTML if html else JSON),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if kind.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": kind.status, "headers": headers})
    sent = b"" if head else body
    await send({"type": "http.response.body", "body": sent, "more_body": False})
    return kind.status, len(sent)
