"""Requests and responses as they were, kept so that they can be looked at and sent anew.

Owns what of an exchange is kept, and what never is. Taking it costs a request next to nothing: header lists
and chunks are kept as they are; what is to be hidden is hidden when it is written, on another thread.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Headers = list[tuple[bytes, bytes]]
MAX_BODY_BYTES = 64 << 10
"""Bytes of a body that are kept."""
REDACTED_VALUE = "[redacted]"
REDACTED_HEADERS = frozenset(
    {
        *("authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"),
        *("x-auth-token", "x-access-token", "x-csrf-token", "x-xsrf-token", "x-amz-security-token"),
        *("x-goog-iap-jwt-assertion", "cf-access-jwt-assertion", "x-forwarded-access-token"),
    }
)
"""Header fields whose values are never written, whatever a manifest says. Lower case."""
_OVERHEAD = 1024


class BodyCapture:
    """A body as it passes: its first `MOST_BODY` bytes, how many passed, and whether it came to its end."""

    __slots__ = ("chunks", "ended", "kept", "size")

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.kept = 0
        self.size = 0
        self.ended = False

    def add(self, message: dict[str, Any]) -> None:
        """Take a piece, as ASGI says it; it is not copied unless it has to be cut."""
        chunk = message.get("body", b"")
        self.ended = not message.get("more_body", False)
        if not chunk:
            return
        self.size += len(chunk)
        room = MAX_BODY_BYTES - self.kept
        if room > 0:
            piece = chunk if len(chunk) <= room else chunk[:room]
            self.chunks.append(bytes(piece))
            self.kept += len(piece)


@dataclass(slots=True)
class Recording:
    """One request of a client and its response.

    `redact` names header fields whose values are hidden besides those of `REDACTED`, in lower case.

    `status` is 0 where no head was sent.
    """

    project: str
    request_id: str
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

    def add_response_message(self, message: dict[str, Any]) -> None:
        """Take a part of the response, as ASGI says it."""
        if message["type"] == "http.response.start":
            self.status, self.response_headers = message["status"], message["headers"]
        elif message["type"] == "http.response.body":
            self.response.add(message)

    def add_request_message(self, message: dict[str, Any]) -> None:
        """Take a part of the request, as ASGI says it."""
        if message["type"] == "http.request":
            self.body.add(message)

    @property
    def weight(self) -> int:
        """About how many bytes it takes."""
        return _OVERHEAD + self.body.kept + self.response.kept


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """A head and a body as they were kept. Hidden values are `HIDDEN`.

    `size` is how many bytes of the body passed; it `ended` unless it was given up before.
    """

    headers: tuple[tuple[str, str], ...]
    body: bytes
    size: int
    ended: bool

    @property
    def complete(self) -> bool:
        """Whether all of the body was kept."""
        return self.ended and self.size == len(self.body)


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """A recording that was kept. `status` is 0 where there was no response."""

    request_id: str
    time_ns: int
    method: str
    scheme: str
    authority: str
    target: str
    request: RecordedMessage
    status: int
    response: RecordedMessage


def to_exchange(recording: Recording) -> RecordedExchange:
    """Return what of a recording is kept, without what has to be hidden."""
    return RecordedExchange(
        recording.request_id,
        recording.time_ns,
        recording.method,
        recording.scheme,
        recording.authority,
        recording.target,
        _recorded_message(recording.headers, recording.body, recording.redact),
        recording.status,
        _recorded_message(recording.response_headers, recording.response, recording.redact),
    )


def _recorded_message(
    headers: Iterable[tuple[bytes, bytes]], body: BodyCapture, redact: frozenset[str]
) -> RecordedMessage:
    shown = []
    for name, value in headers:
        key = name.decode("latin-1").lower()
        shown.append(
            (key, REDACTED_VALUE if key in REDACTED_HEADERS or key in redact else value.decode("latin-1"))
        )
    return RecordedMessage(tuple(shown), b"".join(body.chunks), body.size, body.ended)


def encode(kept: RecordedExchange) -> tuple[str, bytes, bytes]:
    """Return what is written: all but the bodies as JSON, and the bodies."""
    head = {
        "time_ns": kept.time_ns,
        "method": kept.method,
        "scheme": kept.scheme,
        "authority": kept.authority,
        "target": kept.target,
        "headers": kept.request.headers,
        "size": kept.request.size,
        "ended": kept.request.ended,
        "status": kept.status,
        "response_headers": kept.response.headers,
        "response_size": kept.response.size,
        "response_ended": kept.response.ended,
    }
    return json.dumps(head), kept.request.body, kept.response.body


def decode(request_id: str, head: str, request: bytes, response: bytes) -> RecordedExchange:
    """Return what was written."""
    said = json.loads(head)
    return RecordedExchange(
        request_id,
        said["time_ns"],
        said["method"],
        said["scheme"],
        said["authority"],
        said["target"],
        RecordedMessage(_pairs(said["headers"]), request, said["size"], said["ended"]),
        said["status"],
        RecordedMessage(
            _pairs(said["response_headers"]), response, said["response_size"], said["response_ended"]
        ),
    )


def _pairs(headers: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in headers)
