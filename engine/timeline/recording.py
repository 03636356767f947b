"""Requests and responses as they were, kept so that they can be looked at and sent anew.

Owns what of an exchange is kept, and what never is. Taking it costs a request next to nothing: header lists
and chunks are kept as they are; what is to be hidden is hidden when it is written, on another thread.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Headers = list[tuple[bytes, bytes]]
MOST_BODY = 64 << 10
"""Bytes of a body that are kept."""
HIDDEN = "[redacted]"
REDACTED = frozenset(
    {
        *("authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"),
        *("x-auth-token", "x-access-token", "x-csrf-token", "x-xsrf-token", "x-amz-security-token"),
        *("x-goog-iap-jwt-assertion", "cf-access-jwt-assertion", "x-forwarded-access-token"),
    }
)
"""Header fields whose values are never written, whatever a manifest says. Lower case."""
_OVERHEAD = 1024


class Body:
    """A body as it passes: its first `MOST_BODY` bytes, and how many there were."""

    __slots__ = ("chunks", "kept", "size")

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.kept = 0
        self.size = 0

    def add(self, chunk: bytes) -> None:
        """Take a piece; it is not copied unless it has to be cut."""
        if not chunk:
            return
        self.size += len(chunk)
        room = MOST_BODY - self.kept
        if room > 0:
            piece = chunk if len(chunk) <= room else chunk[:room]
            self.chunks.append(bytes(piece))
            self.kept += len(piece)


@dataclass(slots=True)
class Recording:
    """One request of a client and its response. `redact` names header fields besides `REDACTED`, lower case.

    `status` is 0 where no head was sent; `complete` says that the response came to its end.
    """

    request_id: str
    time_ns: int
    method: str
    scheme: str
    authority: str
    target: str
    headers: Headers
    redact: frozenset[str] = frozenset()
    body: Body = field(default_factory=Body)
    status: int = 0
    response_headers: Headers = field(default_factory=list)
    response: Body = field(default_factory=Body)
    complete: bool = False

    def sent(self, message: dict[str, Any]) -> None:
        """Take a part of the response, as ASGI says it."""
        if message["type"] == "http.response.start":
            self.status, self.response_headers = message["status"], message["headers"]
        elif message["type"] == "http.response.body":
            self.response.add(message.get("body", b""))
            self.complete = not message.get("more_body", False)

    def received(self, message: dict[str, Any]) -> None:
        """Take a part of the request, as ASGI says it."""
        if message["type"] == "http.request":
            self.body.add(message.get("body", b""))

    @property
    def weight(self) -> int:
        """About how many bytes it takes."""
        return _OVERHEAD + self.body.kept + self.response.kept


@dataclass(frozen=True, slots=True)
class Sent:
    """A head and a body as they were kept. Hidden values are `HIDDEN`; `size` is that of the whole body."""

    headers: tuple[tuple[str, str], ...]
    body: bytes
    size: int

    @property
    def cut(self) -> bool:
        """Whether a part of the body was not kept."""
        return self.size > len(self.body)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A recording that was kept. `status` is 0 where there was no response."""

    request_id: str
    time_ns: int
    method: str
    scheme: str
    authority: str
    target: str
    request: Sent
    status: int
    response: Sent
    complete: bool


def exchange(recording: Recording) -> Exchange:
    """Return what of a recording is kept, without what has to be hidden."""
    return Exchange(
        recording.request_id,
        recording.time_ns,
        recording.method,
        recording.scheme,
        recording.authority,
        recording.target,
        _sent(recording.headers, recording.body, recording.redact),
        recording.status,
        _sent(recording.response_headers, recording.response, recording.redact),
        recording.complete,
    )


def _sent(headers: Iterable[tuple[bytes, bytes]], body: Body, redact: frozenset[str]) -> Sent:
    shown = []
    for name, value in headers:
        key = name.decode("latin-1").lower()
        shown.append((key, HIDDEN if key in REDACTED or key in redact else value.decode("latin-1")))
    return Sent(tuple(shown), b"".join(body.chunks), body.size)


def encode(kept: Exchange) -> tuple[str, bytes, bytes]:
    """Return what is written: all but the bodies as JSON, and the bodies."""
    head = {
        "time_ns": kept.time_ns,
        "method": kept.method,
        "scheme": kept.scheme,
        "authority": kept.authority,
        "target": kept.target,
        "headers": kept.request.headers,
        "size": kept.request.size,
        "status": kept.status,
        "response_headers": kept.response.headers,
        "response_size": kept.response.size,
        "complete": kept.complete,
    }
    return json.dumps(head), kept.request.body, kept.response.body


def decode(request_id: str, head: str, request: bytes, response: bytes) -> Exchange:
    """Return what was written."""
    said = json.loads(head)
    return Exchange(
        request_id,
        said["time_ns"],
        said["method"],
        said["scheme"],
        said["authority"],
        said["target"],
        Sent(tuple((name, value) for name, value in said["headers"]), request, said["size"]),
        said["status"],
        Sent(
            tuple((name, value) for name, value in said["response_headers"]), response, said["response_size"]
        ),
        said["complete"],
    )
