"""Requests of the code to other servers in a capsule."""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from engine.timeline.json_format import format_utc
from engine.timeline.recording import RecordedCall
from engine.wasm.outbound.recorded import RecordedOutbound, RecordedResponse
from svc_tui.capsule.redaction import Redactor


def fetch_document(call: RecordedCall, redactor: Redactor) -> dict[str, Any]:
    """Return a call to another server, redacted by names."""
    request = _message(call.request or {}, call.sent, redactor)
    request["url"] = redactor.target(request["url"])
    return {
        "span_id": call.span_id,
        "time": format_utc(call.time_ns),
        "request": request,
        "response": None if call.response is None else _message(call.response, call.received, redactor),
        "complete": call.complete,
    }


def _message(head: Mapping[str, Any], body: str, redactor: Redactor) -> dict[str, Any]:
    fields = redactor.headers(head["headers"])
    kind = next((value for name, value in fields if name == "content-type"), "")
    return {**head, "headers": fields, "body": _encoded(redactor.body(b64decode(body), kind))}


def _encoded(body: bytes) -> str:
    return b64encode(body).decode()


def redacted_fetch(fetch: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return a call without the values of credentials."""
    redacted = dict(fetch)
    for side in ("request", "response"):
        message = fetch[side]
        if message is not None:
            body = _encoded(redactor.data(b64decode(message["body"])))
            redacted[side] = {**message, "headers": redactor.everywhere(message["headers"]), "body": body}
    redacted["request"]["url"] = redactor.text(redacted["request"]["url"])
    return redacted


def recorded_outbound(fetches: Sequence[Mapping[str, Any]]) -> RecordedOutbound:
    """Return the other servers of a replay. Calls without a complete response are denied."""
    return RecordedOutbound(
        [
            RecordedResponse(
                method=fetch["request"]["method"],
                url=fetch["request"]["url"],
                status=fetch["response"]["status"],
                headers=tuple((name, value.encode("latin-1")) for name, value in _framed(fetch["response"])),
                body=b64decode(fetch["response"]["body"]),
            )
            for fetch in fetches
            if fetch["complete"] and fetch["response"] is not None
        ]
    )


def _framed(response: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the header fields; `content-length` is that of the body, which may be redacted."""
    length = str(len(b64decode(response["body"])))
    return [(name, length if name == "content-length" else value) for name, value in response["headers"]]
