"""Calls within a request, as spans of its trace: statements, Doors, other servers, waiting times.

The calls of a run are collected in a bounded list, and stored once, with the record of the request.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from time import perf_counter_ns
from typing import Literal

MAX_CALLS = 250
"""Maximum calls that a request records; further ones are counted."""
MAX_BATCH_CALLS = 50
"""Maximum statements that a batch records."""
MAX_NAME_CHARS = 1000
"""Maximum characters of the name of a call."""

CallKind = Literal["sql", "door", "fetch", "wait", "build"]
_GOLDEN = 0x9E3779B97F4A7C15
_MAX_ID = (1 << 64) - 1


@dataclass(slots=True)
class Call:
    """One call. `name` is SQL text, or a method with the name of a Door or the origin of a server.

    While the request runs, `start_ns` is a time of `perf_counter_ns`, and `wall_ns` is -1 until the call
    ends. In records, `start_ns` counts from the start of the request. `parent` is the index of the enclosing
    call in the list of calls, or -1. `status` is that of the response, or 0. `statements` are those of a
    batch.
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

    def end(self, status: int = 0, code: str = "") -> None:
        """End the call, unless it has ended."""
        if self.wall_ns < 0:
            self.wall_ns = perf_counter_ns() - self.start_ns
            self.status = status or self.status
            self.code = self.code or code


class RequestTrace:
    """The calls of one request in the order of their starts. `omitted` counts those above the maximum."""

    __slots__ = ("calls", "omitted")

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.omitted = 0

    def begin(self, kind: CallKind, name: str) -> Call | None:
        """Start a call; return None above `MAX_CALLS`."""
        if len(self.calls) >= MAX_CALLS:
            self.omitted += 1
            return None
        call = Call(kind, name, perf_counter_ns())
        self.calls.append(call)
        return call

    @contextmanager
    def measure(self, kind: CallKind, name: str) -> Iterator[None]:
        """Record what the code in this context takes, as a call."""
        call = self.begin(kind, name)
        try:
            yield
        finally:
            if call is not None:
                call.end()

    def finish(self, started_ns: int) -> tuple[Call, ...]:
        """End the trace of a request that started at a time of `perf_counter_ns`.

        Returns its calls, and then the statements of batches.
        """
        calls = self.calls.copy()  # Statements follow, so that the index of a call stays.
        for parent, call in enumerate(self.calls):
            for statement in call.statements or ():
                statement.parent = parent
                calls.append(statement)
        self.omitted += max(0, len(calls) - MAX_CALLS)
        del calls[MAX_CALLS:]
        for call in calls:
            call.end(0, "unfinished")
            call.start_ns -= started_ns
        return tuple(calls)


def call_id(span_id: str, index: int) -> str:
    """Return the span id of the call with an index, of a request's span."""
    return f"{(int(span_id, 16) + (index + 1) * _GOLDEN) & _MAX_ID or 1:016x}"


def traceparent(parent: str, trace: RequestTrace, call: Call) -> str:
    """Return the `traceparent` that the latest call of a trace sends, given that of the request's span."""
    version, trace_id, span_id, flags = parent.split("-")
    return f"{version}-{trace_id}-{call_id(span_id, len(trace.calls) - 1)}-{flags}"


def name_chars(calls: Iterable[Call]) -> int:
    """Return the total length of the names of calls."""
    return sum(len(call.name) for call in calls)
