"""Conversion of an OTLP span into a call of the request's trace, and of its events into log entries."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from doors.telemetry.record import GuestRecord, Pairs, Texts, limit_attributes, shorten
from engine.trace import MAX_NAME_CHARS, Call

MAX_SPAN_ATTRIBUTES = 32
MAX_SPAN_ATTRIBUTE_BYTES = 4 << 10
"""Maximum attributes, and bytes of them, of one span."""
MAX_EVENTS = 128
"""Maximum events of one span."""

KINDS = ("", "internal", "server", "client", "producer", "consumer")
"""SpanKind by number."""
_ERROR = 2


@dataclass(frozen=True, slots=True)
class GuestSpan:
    """The fields of opentelemetry.proto.trace.v1.Span that are read; times in ns, ids in hex or empty.

    `kind` and `status` are the numbers of SpanKind and StatusCode.
    """

    name: str
    start_ns: int
    end_ns: int
    _: KW_ONLY
    trace_id: str = ""
    span_id: str = ""
    parent_id: str = ""
    kind: int = 0
    status: int = 0
    message: str = ""
    attributes: Pairs = ()
    dropped: int = 0
    events: Sequence[GuestRecord] = ()


def call_of(span: GuestSpan, shared: Texts, trace_id: str) -> Call:
    """Return the call of a span in the trace of a request; `shared` are those of its scope and resource."""
    other = (
        ("span.kind", KINDS[span.kind] if 1 < span.kind < len(KINDS) else ""),
        ("otel.status_description", span.message),
        ("trace_id", span.trace_id if span.trace_id != trace_id else ""),
    )
    pairs = [*((key, value) for key, value in other if value), *span.attributes, *shared.items()]
    attributes, dropped = limit_attributes(pairs, MAX_SPAN_ATTRIBUTES, MAX_SPAN_ATTRIBUTE_BYTES)
    if dropped + span.dropped:
        attributes["otel.dropped_attributes_count"] = str(dropped + span.dropped)
    return Call(
        "span",
        shorten(span.name, MAX_NAME_CHARS),
        span.start_ns,
        wall_ns=max(0, span.end_ns - span.start_ns),
        code="error" if span.status == _ERROR else "",
        details={**attributes},
        span_id=span.span_id,
        parent_id=span.parent_id,
    )


def event_record(
    name: str, time_ns: int, attributes: Pairs, *, dropped: int, trace_id: str, span_id: str
) -> GuestRecord:
    """Return the log record of an event of a span. That of an exception is an error with its message."""
    texts = {key: value for key, value in attributes if isinstance(value, str)}
    failed = name == "exception"
    return GuestRecord(
        time_ns,
        severity_text="error" if failed else "info",
        body=texts.get("exception.message") or texts.get("exception.type") or name if failed else name,
        attributes=attributes,
        dropped=dropped,
        trace_id=trace_id,
        span_id=span_id,
        event_name=name,
    )
