"""An exchange with its request id, its recording and its trace.

Spans follow W3C Trace Context (https://www.w3.org/TR/trace-context/, level 1).
"""

import os
import re
import time
from asyncio import Future, ensure_future
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from engine.door import Session
from engine.http.buffered import ResponseBytes
from engine.http.exchange import Exchange, Headers
from engine.timeline.recording import Recording
from engine.trace import RequestTrace

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_DIGITS = bytes(ord(_ALPHABET[byte & 31]) for byte in range(256))
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def request_id() -> str:
    """Return a new id of 26 characters that sorts by time (48 bits of milliseconds, 80 random bits)."""
    return _encode_timestamp(time.time_ns() // 1_000_000) + os.urandom(16).translate(_DIGITS).decode()


@lru_cache(maxsize=4)
def _encode_timestamp(milliseconds: int) -> str:
    return "".join([_PAIRS[milliseconds >> shift & 1023] for shift in (40, 30, 20, 10, 0)])


@dataclass(slots=True)
class SpanContext:
    """A span of a trace: `span_id` is its own id, `parent` that of the calling span (or empty)."""

    trace_id: str
    span_id: str
    parent: str
    flags: str

    @classmethod
    def from_header(cls, traceparent: str | None) -> "SpanContext":
        """Continue the caller's trace if its `traceparent` is valid, else start a new one."""
        random = os.urandom(24).hex()
        span, new = random[:16], random[16:]
        match = _TRACEPARENT.fullmatch(traceparent.strip()) if traceparent else None
        if match is not None:
            version, trace, parent, flags, rest = match.groups()
            usable = version != "ff" and not (version == "00" and rest)
            if usable and trace.strip("0") and parent.strip("0"):
                return cls(trace, span, parent, flags)
        return cls(new, span, "", "01")

    def child(self) -> "SpanContext":
        return SpanContext(self.trace_id, os.urandom(8).hex(), self.span_id, self.flags)

    @property
    def traceparent(self) -> str:
        """The `traceparent` value for requests that this span sends."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"


DELIVERED = b"x-svc-file"
"""Field of a guest's response that names a file, which the host sends."""
HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"transfer-encoding", b"upgrade", b"trailer"}
)
"""Header fields of one connection."""
_NOT_PASSED_ON = HOP_BY_HOP | {b"date", b"x-request-id", DELIVERED}
"""Header fields of a response that svc sets or uses, or that a connection needs."""
_HSTS = (b"strict-transport-security", b"max-age=31536000")


class TracedExchange:
    """Wraps an exchange: adds the request id to the response and records messages if `recording` is set."""

    def __init__(self, exchange: Exchange, scheme: str) -> None:
        self._exchange = exchange
        self.request = request = exchange.request
        self.body = exchange.body
        self.disconnected = exchange.disconnected
        self.id = request.id or request_id()
        self.scheme = scheme or request.scheme
        self.target = f"{request.path}?{request.query.decode('latin-1')}" if request.query else request.path
        self.header_map = dict(reversed(request.headers))
        """Header names to their first values."""
        self.authority = self.header_map.get(b"host", b"").decode("latin-1")
        self.recording: Recording | None = None
        self.trace: RequestTrace | None = None
        self.started = False
        self.hsts = False
        """Whether the response over https has `Strict-Transport-Security`, unless the guest set it."""
        self.deliver: Callable[[int, Headers], Coroutine[Any, Any, Any]] | None = None
        """Sends a file instead of a guest's response, which has this head and names it."""
        self.delivery: Future[Any] | None = None
        self._delivered: tuple[int, Headers] | None = None
        self._session: Session | None = None
        self._written = 0

    def record(self, project: str, redact: frozenset[str]) -> Recording:
        """Record the request and its response from now on."""
        self.recording = recording = Recording(
            project=project,
            request_id=self.id,
            time_ns=time.time_ns(),
            method=self.request.method,
            scheme=self.scheme,
            authority=self.authority,
            target=self.target,
            headers=self.request.headers,
            redact=redact,
        )
        body = self.body
        if body.exhausted:
            recording.body.ended = True
        else:
            body.observer = lambda part: recording.body.add(part, ended=body.exhausted)
        return recording

    def call_trace(self) -> RequestTrace | None:
        """Return the trace for the calls of a run; None if the first call creates it."""
        if self.recording is not None:
            self.trace = self.trace or RequestTrace()
            self.trace.captures = True
        return self.trace

    def begin_session(self) -> Session:
        """Return the session of the client, whose cookie the response sets if it writes before it."""
        if self._session is not None:
            return self._session
        cookies = b"; ".join(value for name, value in self.request.headers if name == b"cookie")
        if match := re.search(rb"(?:^|;) *svc-written=(\d{1,18}) *(?:;|$)", cookies):
            self._written = int(match[1])
        self._session = Session(self._written)
        return self._session

    @property
    def project(self) -> str:
        """The project that the unsent bytes of the response count for."""
        return self._exchange.project

    @project.setter
    def project(self, name: str) -> None:
        self._exchange.project = name

    @property
    def unsent(self) -> ResponseBytes:
        return self._exchange.unsent

    async def send_head(self, status: int, headers: Headers) -> None:
        """Send the status and the header fields, with `x-request-id`, without `_NOT_PASSED_ON`."""
        passed = [field for field in headers if field[0] not in _NOT_PASSED_ON]
        if len(passed) < len(headers) and self.deliver is not None and DELIVERED in dict(headers):
            self._delivered = status, headers
            return
        headers = passed
        headers.append((b"x-request-id", self.id.encode()))
        if self._session is not None and self._session.written > self._written:
            secure = "; Secure" if self.scheme == "https" else ""
            attributes = f"Path=/; Max-Age=3600; HttpOnly; SameSite=Lax{secure}"
            headers.append((b"set-cookie", f"svc-written={self._session.written}; {attributes}".encode()))
        if self.hsts and self.scheme == "https" and all(name != _HSTS[0] for name, _ in headers):
            headers.append(_HSTS)
        self.started = True
        if self.recording is not None:
            self.recording.status, self.recording.response_headers = status, headers
        await self._exchange.send_head(status, headers)

    async def send_body(self, data: bytes, *, end: bool) -> None:
        """Send a part of the body, unless the host sends it."""
        if self._delivered is not None and self.deliver is not None:
            if end:  # The guest may continue, in waitUntil for instance.
                deliver, self.deliver = self.deliver, None
                self.delivery = ensure_future(deliver(*self._delivered))
            return
        if self.recording is not None:
            self.recording.response.add(data, ended=end)
        await self._exchange.send_body(data, end=end)

    def abort(self) -> None:
        self._exchange.abort()

    def header(self, name: bytes) -> str | None:
        """Return the first value of a header field."""
        value = self.header_map.get(name)
        return None if value is None else value.decode("latin-1")
