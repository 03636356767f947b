"""Recordings of requests and responses, stored so that they can be inspected and replayed.

A recording adds almost no cost to a request: header lists and chunks are stored as they are. Secret values
are redacted when the recording is written, on another thread.
"""

import json
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import Any

from engine.trace import Capture

Headers = list[tuple[bytes, bytes]]
MAX_BODY_BYTES = 64 << 10
"""Maximum number of body bytes stored."""
REDACTED_VALUE = "[redacted]"
REDACTED_HEADERS = frozenset(
    {
        "api-key",
        "authorization",
        "cf-access-jwt-assertion",
        "cookie",
        "proxy-authorization",
        "set-cookie",
        "x-access-token",
        "x-amz-security-token",
        "x-api-key",
        "x-auth-token",
        "x-csrf-token",
        "x-forwarded-access-token",
        "x-goog-iap-jwt-assertion",
        "x-xsrf-token",
    }
)
"""Header fields whose values are never written, independent of the manifest. Lower case."""
_OVERHEAD = 1024
_HEAD_FIELDS = ("time_ns", "method", "scheme", "authority", "target", "status")
"""Fields that a recording, its stored form and the JSON have alike."""


class BodyCapture:
    """A body in transit: its first `MAX_BODY_BYTES` bytes, its total size, and whether it is complete."""

    __slots__ = ("chunks", "ended", "size", "stored_size")

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.stored_size = 0
        self.size = 0
        self.ended = False

    def add(self, chunk: bytes, *, ended: bool) -> None:
        """Add a part of the body; it is copied only if it must be cut."""
        self.ended = ended
        if not chunk:
            return
        self.size += len(chunk)
        remaining = MAX_BODY_BYTES - self.stored_size
        if remaining > 0:
            piece = chunk if len(chunk) <= remaining else chunk[:remaining]
            self.chunks.append(bytes(piece))
            self.stored_size += len(piece)


@dataclass(slots=True)
class Recording:
    """One client request and its response.

    `redact` names further header fields to redact, in lower case. `status` is 0 if no response head was sent.
    """

    project: str
    request_id: str
    _: KW_ONLY
    time_ns: int
    method: str
    scheme: str
    authority: str
    target: str
    headers: Headers
    redact: frozenset[str] = frozenset()
    body: BodyCapture = field(default_factory=BodyCapture)
    status: int = 0
    response_headers: Headers = field(default_factory=list)
    response: BodyCapture = field(default_factory=BodyCapture)
    captures: list[tuple[str, Capture]] = field(default_factory=list)
    """Calls to Doors, each with the id of its span."""

    @property
    def weight(self) -> int:
        """Approximate size in bytes."""
        calls = sum(_OVERHEAD + len(each.sent) + len(each.received) for _, each in self.captures)
        return _OVERHEAD + self.body.stored_size + self.response.stored_size + calls


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """A stored head and body. Redacted values are `REDACTED_VALUE`.

    `size` is the total size of the body in bytes; `ended` is false if it was aborted.
    """

    headers: tuple[tuple[str, str], ...]
    body: bytes
    size: int
    ended: bool

    @property
    def complete(self) -> bool:
        """True if the complete body was stored."""
        return self.ended and self.size == len(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A stored call: its span, the bodies of request and response, and what it changed.

    `time_ns` is when it began. `changes` are JSON values in the Door's format, as in `Capture`. For a call to
    another server, bodies are base64, `request` has `method`, `url` and `headers`, and `response` has
    `status` and `headers`. Both are None for a call to a Door.
    """

    span_id: str
    time_ns: int
    sent: str
    received: str
    changes: tuple[Any, ...]
    complete: bool
    request: dict[str, Any] | None = None
    response: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedExchange:
    """A stored recording. `status` is 0 if there was no response."""

    request_id: str
    time_ns: int
    method: str
    scheme: str
    authority: str
    target: str
    request: RecordedMessage
    status: int
    response: RecordedMessage
    calls: tuple[RecordedCall, ...] = ()


def to_exchange(recording: Recording) -> RecordedExchange:
    """Return the stored form of a recording, redacted."""
    return RecordedExchange(
        request_id=recording.request_id,
        **{name: getattr(recording, name) for name in _HEAD_FIELDS},
        request=_recorded_message(recording.headers, recording.body, recording.redact),
        response=_recorded_message(recording.response_headers, recording.response, recording.redact),
        calls=tuple(
            _recorded_call(span_id, capture, recording.redact) for span_id, capture in recording.captures
        ),
    )


def _recorded_call(span_id: str, capture: Capture, redact: frozenset[str]) -> RecordedCall:
    if capture.request is not None:
        method, url, headers = capture.request
        response = None
        if capture.response is not None:
            status, fields = capture.response
            response = {"status": status, "headers": _visible(fields, redact)}
        return RecordedCall(
            span_id=span_id,
            time_ns=capture.time_ns,
            sent=b64encode(capture.sent).decode(),
            received=b64encode(capture.received).decode(),
            changes=(),
            complete=capture.complete,
            request={"method": method, "url": url, "headers": _visible(headers, redact)},
            response=response,
        )
    return RecordedCall(
        span_id=span_id,
        time_ns=capture.time_ns,
        sent=capture.sent.decode(errors="replace"),
        received=capture.received.decode(errors="replace"),
        changes=tuple(capture.changes),
        complete=capture.complete,
    )


def _recorded_message(
    headers: Iterable[tuple[bytes, bytes]], body: BodyCapture, redact: frozenset[str]
) -> RecordedMessage:
    return RecordedMessage(tuple(_visible(headers, redact)), b"".join(body.chunks), body.size, body.ended)


def _visible(headers: Iterable[tuple[bytes, bytes]], redact: frozenset[str]) -> list[tuple[str, str]]:
    """Return header fields with lower-case names, redacted."""
    fields = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)
    return [(name, REDACTED_VALUE if _is_hidden(name, redact) else value) for name, value in fields]


def _is_hidden(name: str, redact: frozenset[str]) -> bool:
    return name in REDACTED_HEADERS or name in redact


def credentials(recording: Recording) -> tuple[tuple[str, str], ...]:
    """Return the header fields of a request that are redacted when it is written, with their values."""
    fields = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in recording.headers)
    return tuple((name, value) for name, value in fields if _is_hidden(name, recording.redact))


def with_credentials(exchange: RecordedExchange, fields: Iterable[tuple[str, str]]) -> RecordedExchange:
    """Return an exchange whose redacted request headers have the values in `fields`, in their order."""
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name, []).append(value)
    headers = tuple(
        (name, values[name].pop(0)) if value == REDACTED_VALUE and values.get(name) else (name, value)
        for name, value in exchange.request.headers
    )
    return replace(exchange, request=replace(exchange.request, headers=headers))


def encode(exchange: RecordedExchange) -> tuple[str, bytes, bytes]:
    """Return the stored form: JSON of everything but the bodies, and the two bodies."""
    request, response = exchange.request, exchange.response
    head = {name: getattr(exchange, name) for name in _HEAD_FIELDS}
    head |= {"headers": request.headers, "size": request.size, "ended": request.ended}
    head |= {
        "response_headers": response.headers,
        "response_size": response.size,
        "response_ended": response.ended,
        "calls": [asdict(call) for call in exchange.calls],
    }
    return json.dumps(head), request.body, response.body


def decode(request_id: str, head: str, request: bytes, response: bytes) -> RecordedExchange:
    """Return the exchange of a stored form."""
    fields = json.loads(head)
    return RecordedExchange(
        request_id=request_id,
        **{name: fields[name] for name in _HEAD_FIELDS},
        request=RecordedMessage(_pairs(fields["headers"]), request, fields["size"], fields["ended"]),
        response=RecordedMessage(
            _pairs(fields["response_headers"]), response, fields["response_size"], fields["response_ended"]
        ),
        calls=decode_calls(head),
    )


def decode_calls(head: str) -> tuple[RecordedCall, ...]:
    """Return the calls of a stored head."""
    calls = json.loads(head).get("calls", ())
    return tuple(RecordedCall(**{**call, "changes": tuple(call["changes"])}) for call in calls)


def _pairs(headers: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in headers)
