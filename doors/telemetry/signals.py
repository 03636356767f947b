"""The OTLP signals: log records, spans and metrics of guests, and their forms in the timeline."""

import base64
import json
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from operator import sub
from typing import Literal

from engine.door import Caller, LogEntry, Severity
from engine.measurement import MAX_COUNT, MAX_SERIES, Attributes, Measurement, MetricKind
from engine.trace import MAX_NAME_CHARS, Call

MAX_BODY_BYTES = 64 << 10
MAX_VALUE_BYTES = 8 << 10
MAX_KEY_LENGTH = 256
MAX_ATTRIBUTES = 128
MAX_ATTRIBUTE_BYTES = 64 << 10
"""Maximum bytes of the keys and values of one record's attributes together."""

MAX_SHARED = 32
MAX_SHARED_BYTES = 8 << 10
"""Maximum attributes, and bytes of them, that a record takes from its scope, and from its resource."""

MAX_PARTS = 4096
"""Maximum records, scopes and resources in one request together."""
MAX_FIELDS = 8 * MAX_PARTS
"""Maximum fields that a parser of protobuf passes to find them."""

EARLIEST_NS = 946_684_800 * 10**9
"""2000-01-01: an earlier time means that the clock was not set."""

MAX_AHEAD_NS = 24 * 3600 * 10**9
"""Maximum distance of a record's time into the future."""

_SEVERITIES: tuple[Severity, ...] = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_SEVERITY_WORDS: dict[str, Severity] = {
    **{name.lower(): name for name in _SEVERITIES},
    **{"verbose": "TRACE", "information": "INFO", "informational": "INFO", "notice": "INFO"},
    **{"warning": "WARN", "err": "ERROR", "critical": "FATAL", "alert": "FATAL", "emergency": "FATAL"},
    **{"panic": "FATAL"},
}
_HOST_PREFIXES = ("telemetry.", "process.", "host.", "os.", "service.instance.")

Value = str | bool | int | float | bytes | list["Value"] | Mapping[str, "Value"] | None
"""An OTLP AnyValue; None if it is empty."""
Pairs = Sequence[tuple[str, Value]]
Texts = Mapping[str, str]


class BadRecord(Exception):
    """An invalid record."""


class LimitExceeded(Exception):
    """A request has too many parts."""


class RecordBudget:
    """Limits the parts of one request."""

    def __init__(self) -> None:
        self._remaining = MAX_PARTS
        self._fields = MAX_FIELDS

    def take(self) -> None:
        """Count one part. Raises `LimitExceeded`."""
        self._remaining -= 1
        if self._remaining < 0:
            raise LimitExceeded

    def pass_field(self) -> None:
        """Count one field of a part, which may be skipped. Raises `LimitExceeded`."""
        self._fields -= 1
        if self._fields < 0:
            raise LimitExceeded


@dataclass(frozen=True, slots=True)
class GuestRecord:
    """The fields of opentelemetry.proto.logs.v1.LogRecord that are read; times in ns, 0 for none.

    `trace_id` and `span_id` are lower-case hex; they are the guest's claims and are not used for correlation.
    """

    time_ns: int = 0
    observed_ns: int = 0
    _: KW_ONLY
    severity: int = 0
    severity_text: str = ""
    body: Value = None
    attributes: Pairs = ()
    dropped: int = 0
    trace_id: str = ""
    span_id: str = ""
    event_name: str = ""


def entry_of(record: GuestRecord, shared: Texts, now_ns: int, caller: Caller) -> LogEntry:
    """Return the entry of a record; `shared` are the attributes of its scope and resource."""
    severity = _severity(record)
    attributes, dropped = limit_attributes(
        [*record.attributes, *_other_fields(record, severity, caller)], MAX_ATTRIBUTES, MAX_ATTRIBUTE_BYTES
    )
    if dropped + record.dropped:
        attributes["otel.dropped_attributes_count"] = str(dropped + record.dropped)
    for key, text in shared.items():
        attributes.setdefault(key, text)
    body = shorten(to_text(record.body), MAX_BODY_BYTES)
    times = (
        each for each in (record.time_ns, record.observed_ns) if EARLIEST_NS <= each <= now_ns + MAX_AHEAD_NS
    )
    return LogEntry(next(times, now_ns), severity, body, attributes, caller)


def resource_attributes(attributes: Pairs) -> Texts:
    """Return the attributes of a resource, without those of the host."""
    pairs = [
        (key, value)
        for key, value in attributes
        if not key.startswith(_HOST_PREFIXES)
        and not (key == "service.name" and isinstance(value, str) and value.startswith("unknown_service"))
    ]
    return limit_attributes(pairs, MAX_SHARED, MAX_SHARED_BYTES)[0]


def scope_attributes(name: object, version: object, attributes: Pairs, resource: Texts) -> Texts:
    """Return the attributes of a scope, merged over those of its resource."""
    names = (("otel.scope.name", name), ("otel.scope.version", version))
    pairs = [*((key, value) for key, value in names if value and isinstance(value, str)), *attributes]
    limited = limit_attributes(pairs, MAX_SHARED, MAX_SHARED_BYTES)[0]
    return {**limited, **{key: text for key, text in resource.items() if key not in limited}}


def _severity(record: GuestRecord) -> Severity:
    """Return the severity of SeverityNumber 1–24, four to a name; without one, by its text."""
    if 1 <= record.severity <= 24:
        return _SEVERITIES[(record.severity - 1) // 4]
    return _SEVERITY_WORDS.get(record.severity_text.strip().lower(), "INFO")


def _other_fields(record: GuestRecord, severity: Severity, caller: Caller) -> Pairs:
    """Return the other fields of a record as attributes, without those that the entry has."""
    text = record.severity_text.strip()
    fields = (
        ("event.name", record.event_name),
        ("severity_text", text if text.upper() != severity else ""),
        ("trace_id", record.trace_id if record.trace_id != caller.trace_id else ""),
        ("span_id", record.span_id if record.span_id != caller.span_id else ""),
    )
    return [(key, value) for key, value in fields if value]


def limit_attributes(pairs: Pairs, max_count: int, max_bytes: int) -> tuple[dict[str, str], int]:
    """Return attributes as text, the first of each key, and the number of those beyond the limits."""
    texts: dict[str, str] = {}
    dropped = size = 0
    for raw, value in pairs:
        key = clean(raw)
        if key in texts:
            continue
        text = shorten(to_text(value), MAX_VALUE_BYTES)
        bytes_more = len(key.encode()) + len(text.encode())
        if not 0 < len(key) <= MAX_KEY_LENGTH or len(texts) == max_count or size + bytes_more > max_bytes:
            dropped += 1
            continue
        texts[key] = text
        size += bytes_more
    return texts, dropped


def clean(text: str) -> str:
    """Return the text with U+FFFD for the halves of surrogate pairs that JSON can smuggle in."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def shorten(raw: str, limit: int) -> str:
    """Return the text in at most `limit` bytes of UTF-8, with a mark if it was cut."""
    text = clean(raw)
    if len(text) * 4 <= limit or len(data := text.encode()) <= limit:
        return text
    return f"{data[:limit].decode(errors='ignore')}… ({len(data)} bytes)"


def to_text(value: Value) -> str:
    """Return a value as text: bytes as base64, arrays and maps as JSON, None as empty text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        # As in JavaScript: 1e3 is `1000`; NaN and infinities have names.
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        if value.is_integer() and abs(value) < 2**53:
            return str(int(value))
        return repr(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is not an AnyValue")


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


MAX_METRIC_NAME_CHARS = 255
MAX_UNIT_CHARS = 63
MAX_DESCRIPTION_BYTES = 200
MAX_POINT_ATTRIBUTES = 16
MAX_POINT_ATTRIBUTE_BYTES = 1 << 10
"""Maximum attributes, and bytes of them, of one data point."""
MAX_POINTS = MAX_SERIES
"""Maximum data points of a request."""
MAX_BOUNDS = 64
"""Maximum bounds of a histogram."""
MAX_REMEMBERED = 10_000
"""Maximum cumulative values of a project that are remembered, for requests that export more than once."""

UNSPECIFIED, DELTA, CUMULATIVE = 0, 1, 2
"""AggregationTemporality by number."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]*")


@dataclass(frozen=True, slots=True)
class GuestPoint:
    """A data point. Of a histogram, `value` is the sum, and `counts` has one more element than `bounds`."""

    value: float
    _: KW_ONLY
    attributes: Pairs = ()
    bounds: Sequence[float] = ()
    counts: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class GuestMetric:
    """The fields of opentelemetry.proto.metrics.v1.Metric that are read.

    `kind` is empty for one that is not supported. `temporality` is the number of AggregationTemporality.
    """

    name: str
    kind: MetricKind | None
    _: KW_ONLY
    unit: str = ""
    description: str = ""
    temporality: int = UNSPECIFIED
    points: Sequence[GuestPoint] = ()


def measurements(metric: GuestMetric) -> Iterator[Measurement | BadRecord]:
    """Yield the measurement of each data point of a metric, or why it is rejected."""
    problem = _problem(metric)
    for point in metric.points:
        bad = problem or _problem_of_point(metric, point)
        if bad:
            yield BadRecord(f"{shorten(metric.name, 80)} {bad}")
            continue
        assert metric.kind is not None
        texts, _ = limit_attributes(point.attributes, MAX_POINT_ATTRIBUTES, MAX_POINT_ATTRIBUTE_BYTES)
        yield Measurement(
            metric.name,
            metric.kind,
            point.value,
            unit=shorten(metric.unit, MAX_UNIT_CHARS),
            description=shorten(metric.description, MAX_DESCRIPTION_BYTES),
            attributes=tuple(sorted(texts.items())),
            bounds=tuple(point.bounds),
            counts=tuple(point.counts),
        )


def _problem(metric: GuestMetric) -> str:
    if len(metric.name) > MAX_METRIC_NAME_CHARS or not _NAME.fullmatch(metric.name):
        return "is not a valid name for a metric"
    if metric.kind is None:
        return "is not a gauge, a sum or a histogram with explicit bounds"
    if metric.kind != "gauge" and metric.temporality not in (DELTA, CUMULATIVE):
        return "has no aggregation temporality"
    return ""


def _problem_of_point(metric: GuestMetric, point: GuestPoint) -> str:
    if not math.isfinite(point.value):
        return "has a value that is not finite"
    if metric.kind == "counter" and point.value < 0:
        return "is monotonic and has a negative value"
    if metric.kind != "histogram":
        return ""
    bounds = point.bounds
    if len(bounds) > MAX_BOUNDS:
        return f"has more than {MAX_BOUNDS} bounds"
    if len(point.counts) != len(bounds) + 1 or min(point.counts) < 0:
        return "has other bucket counts than bounds"
    if max(point.counts) > MAX_COUNT:
        return "has a bucket count above 2^53"
    if not all(map(math.isfinite, bounds)) or any(a >= b for a, b in pairwise(bounds)):
        return "has bounds that do not increase"
    return ""


class CumulativeValues:
    """The last cumulative values of requests. Call it from any thread.

    Each request runs in an instance of its own, whose cumulative values start at zero. So the last values of
    each request are subtracted, and what remains is added to the series of all requests.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[tuple[str, str, str, Attributes], Measurement] = OrderedDict()

    def added(self, caller: Caller, measurement: Measurement) -> Measurement:
        """Return what a cumulative measurement adds to the previous one of the same request."""
        key = (caller.request_id, caller.resource, measurement.name, measurement.attributes)
        with self._lock:
            before = self._values.pop(key, None)
            self._values[key] = measurement
            if len(self._values) > MAX_REMEMBERED:
                self._values.popitem(last=False)
        if before is None or before.bounds != measurement.bounds or before.kind != measurement.kind:
            return measurement
        counts = tuple(map(sub, measurement.counts, before.counts))
        value = measurement.value - before.value
        if min(counts, default=0) < 0 or (measurement.kind == "counter" and value < 0):
            return measurement  # It was reset.
        return Measurement(  # `replace` would take three times as long.
            measurement.name,
            measurement.kind,
            value,
            unit=measurement.unit,
            description=measurement.description,
            attributes=measurement.attributes,
            bounds=measurement.bounds,
            counts=counts,
        )


Signal = Literal["logs", "traces", "metrics"]
Item = GuestRecord | GuestSpan | GuestMetric
SIGNALS: dict[str, Signal] = {
    "/v1/logs": "logs",
    "/v1/traces": "traces",
    "/v1/metrics": "metrics",
    "/": "logs",
}
"""Signals by path. An exporter of logs may use the address of the Door as it is."""
MESSAGES: dict[Signal, str] = {
    "logs": "ExportLogsServiceRequest",
    "traces": "ExportTraceServiceRequest",
    "metrics": "ExportMetricsServiceRequest",
}
"""Names of the messages that requests have."""
REJECTED: dict[Signal, str] = {
    "logs": "rejectedLogRecords",
    "traces": "rejectedSpans",
    "metrics": "rejectedDataPoints",
}
"""Names of the number of rejected parts in responses."""
