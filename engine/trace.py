"""Calls within a request, as spans of its trace: statements, Doors, other servers, waiting times.

The calls of a run, and the spans of its code, are collected in bounded lists. They are stored once, with the
record of the request.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from time import perf_counter_ns, time_ns
from typing import Literal

MAX_CALLS = 250
"""Maximum calls that a request records; further ones are counted."""
MAX_BATCH_CALLS = 50
"""Maximum statements that a batch records."""
MAX_NAME_CHARS = 1000
"""Maximum characters of the name of a call."""
MAX_SPAN_BYTES = 64 << 10
"""Maximum bytes of the names and attributes of the code's spans in a request; further spans are counted."""

MAX_CAPTURE_BYTES = 64 << 10
"""Maximum bytes of a captured request, and of a response."""
MAX_CAPTURED_BYTES = 1 << 20
"""Approximate maximum bytes that are captured of the calls of a request; further calls are not captured."""

CallKind = Literal["sql", "door", "fetch", "wait", "build", "span"]
_GOLDEN = 0x9E3779B97F4A7C15
_MAX_ID = (1 << 64) - 1


@dataclass(slots=True)
class Capture:
    """The messages of a call to a Door or another server, for recordings in development.

    `sent` is the body of the request, `received` that of the response. A call to a Door is captured if the
    Door sets `sent`; it also sets `time_ns` (Unix epoch) when it begins. A call to another server has the
    heads `request` (method, URL, fields) and `response` (status, fields). `complete` is false if a part is
    missing or was cut.
    """

    sent: bytes = b""
    received: bytes = b""
    time_ns: int = 0
    _: KW_ONLY
    complete: bool = True
    request: tuple[str, str, list[tuple[bytes, bytes]]] | None = None
    response: tuple[int, list[tuple[bytes, bytes]]] | None = None

    def cut(self, body: bytes) -> bytes:
        """Return at most `MAX_CAPTURE_BYTES` of a body."""
        if len(body) > MAX_CAPTURE_BYTES:
            self.complete = False
        return body[:MAX_CAPTURE_BYTES]

    @property
    def used(self) -> bool:
        """True if the call was captured."""
        return bool(self.sent) or self.request is not None


@dataclass(slots=True)
class Call:
    """One call. `name` is SQL text, a method with the name of a Door or the origin of a server, or a span's.

    While the request runs, `start_ns` is a time of `perf_counter_ns`, and `wall_ns` is -1 until the call
    ends. In records, `start_ns` counts from the start of the request. `parent` is the index of the enclosing
    call in the list of calls, or -1. `status` is that of the response, or 0. `statements` are those of a
    batch. `span_id` is that of a span of the code, and `parent_id` that of the parent that the code states.
    `capture` is set while the request is being recorded.
    """

    kind: CallKind
    name: str
    start_ns: int
    _: KW_ONLY
    wall_ns: int = -1
    status: int = 0
    code: str = ""
    details: dict[str, int | str] | None = None
    parent: int = -1
    statements: "list[Call] | None" = field(default=None, compare=False)
    capture: Capture | None = field(default=None, compare=False)
    span_id: str = ""
    parent_id: str = field(default="", compare=False)

    def end(self, status: int = 0, code: str = "") -> None:
        """End the call, unless it has ended."""
        if self.wall_ns < 0:
            self.wall_ns = perf_counter_ns() - self.start_ns
            self.status = status or self.status
            self.code = self.code or code


class RequestTrace:
    """The calls of one request in the order of their starts. `omitted` counts those above the maximum.

    If `captures` is set, calls have a `Capture`.
    """

    __slots__ = ("_captured", "_ended", "_span_bytes", "_spans", "calls", "captures", "omitted")

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.omitted = 0
        self.captures = False
        self._captured = 0
        self._spans: list[Call] = []
        self._span_bytes = 0
        self._ended = False

    def add_spans(self, spans: Iterable[Call]) -> int:
        """Add spans of the code, with start times of the Unix epoch; return how many are over a limit.

        Raises `TraceEnded` after the end of the request.
        """
        if self._ended:
            raise TraceEnded
        omitted, since_epoch = 0, time_ns() - perf_counter_ns()
        for span in spans:
            size = len(json.dumps([span.name, span.details], ensure_ascii=False).encode(errors="replace"))
            if (
                len(self.calls) + len(self._spans) >= MAX_CALLS
                or self._span_bytes + size > MAX_SPAN_BYTES
                or any(span.span_id == other.span_id for other in self._spans)
            ):
                omitted += 1
                continue
            self._span_bytes += size
            span.start_ns -= since_epoch
            self._spans.append(span)
        self.omitted += omitted
        return omitted

    def begin(self, kind: CallKind, name: str) -> Call | None:
        """Start a call; return None above `MAX_CALLS`."""
        if len(self.calls) >= MAX_CALLS:
            self.omitted += 1
            return None
        call = Call(kind, name, perf_counter_ns())
        if self.captures:
            last = self.calls[-1].capture if self.calls else None
            self._captured += len(last.sent) + len(last.received) if last is not None else 0
            if self._captured < MAX_CAPTURED_BYTES:
                call.capture = Capture()
        self.calls.append(call)
        return call

    def take_captures(self) -> list[tuple[int, Capture]]:
        """Remove the captures from the calls; return the used ones, with the index of their call."""
        captures = []
        for index, call in enumerate(self.calls):
            if call.capture is not None and call.capture.used:
                captures.append((index, call.capture))
            call.capture = None
        return captures

    @contextmanager
    def measure(self, kind: CallKind, name: str) -> Iterator[None]:
        """Record what the code in this context takes, as a call."""
        call = self.begin(kind, name)
        try:
            yield
        finally:
            if call is not None:
                call.end()

    def finish(self, started_ns: int, span_id: str) -> tuple[Call, ...]:
        """End the trace of a request that started at a time of `perf_counter_ns`, and has a span id.

        Returns its calls, then the statements of batches, and then the spans of the code.
        """
        self._ended = True
        calls = self.calls.copy()  # Statements follow, so that the index of a call stays.
        for parent, call in enumerate(self.calls):
            for statement in call.statements or ():
                statement.parent = parent
                calls.append(statement)
        calls += self._spans
        self.omitted += max(0, len(calls) - MAX_CALLS)
        del calls[MAX_CALLS:]
        now_ns = perf_counter_ns()
        for call in calls:
            call.end(0, "unfinished")
            if call.kind == "span":  # Its times are those of the code.
                end_ns = min(max(call.start_ns + call.wall_ns, started_ns), now_ns)
                call.start_ns = min(max(call.start_ns, started_ns), now_ns)
                call.wall_ns = max(end_ns - call.start_ns, 0)
            call.start_ns -= started_ns
        if self._spans:
            _resolve_parents(calls, span_id)
        return tuple(calls)


class TraceEnded(Exception):
    """The request has ended, and its calls are recorded."""


def _resolve_parents(calls: Sequence[Call], request_span: str) -> None:
    """Set the parents that the code states. The request's span replaces unknown ones and those in cycles."""
    known = {request_span, *(call_id(request_span, index) for index in range(len(calls)))}
    for call in calls:
        if call.span_id in known:
            call.span_id = ""
    indexes = {call.span_id: index for index, call in enumerate(calls) if call.span_id}
    for call in calls:
        if call.parent_id:
            call.parent = indexes.get(call.parent_id, -1)
    for index, call in enumerate(calls):
        ancestor, remaining = call.parent, len(calls)
        while ancestor >= 0 and ancestor != index and remaining:
            ancestor, remaining = calls[ancestor].parent, remaining - 1
        if ancestor == index:
            call.parent = -1


def call_id(span_id: str, index: int) -> str:
    """Return the span id of the call with an index, of a request's span."""
    return f"{(int(span_id, 16) + (index + 1) * _GOLDEN) & _MAX_ID or 1:016x}"


def traceparent(parent: str, trace: RequestTrace, call: Call) -> str:
    """Return the `traceparent` that the latest call of a trace sends, given that of the request's span."""
    version, trace_id, span_id, flags = parent.split("-")
    return f"{version}-{trace_id}-{call_id(span_id, len(trace.calls) - 1)}-{flags}"


def span_ids(span_id: str, calls: Sequence[Call]) -> list[str]:
    """Return the span ids of the calls of a request's span."""
    return [call.span_id or call_id(span_id, index) for index, call in enumerate(calls)]


def text_chars(calls: Iterable[Call]) -> int:
    """Return the total length of the names of calls, and of the attributes of the code's spans."""
    return sum(
        len(call.name)
        + (
            sum(len(key) + len(str(text)) for key, text in (call.details or {}).items())
            if call.span_id
            else 0
        )
        for call in calls
    )
