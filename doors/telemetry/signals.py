"""The OTLP signals: log records, spans and metrics of guests, and their forms in the timeline."""

import base64
import json
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from operator import sub
from typing import Any, Literal

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
    """A request has too many parts: the text is the maximum."""


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
"""StatusCode of a span that failed."""

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

_METRIC_KINDS: dict[str, MetricKind] = {"gauge": "gauge", "sum": "updown", "histogram": "histogram"}
"""Supported kinds by the name of the field with their data."""
_DELTA, _CUMULATIVE = 1, 2
"""AggregationTemporality by number."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]*")
Signal = Literal["logs", "traces", "metrics"]
_PARTS: dict[Signal, str] = {"logs": "record", "traces": "span", "metrics": "metric"}
Point = tuple[float, Sequence[float], Sequence[int]]
"""Value, bounds and counts of a data point. Of a histogram, the value is the sum."""


class Reader:
    """One request: its valid parts in the forms of the timeline, and the number of the others.

    A subclass finds the messages of its encoding, and reads their fields by the names that these have in
    JSON. Ids are lower-case hex or empty, times in ns or 0. Ids of the guest are not used for correlation.
    """

    span_id: str
    """The name of the field, for messages."""
    string: Callable[[Any, str], str]
    integer: Callable[[Any, str], int]
    number: Callable[[Any, str], int]
    """Returns the number of an enum's value."""
    identifier: Callable[[Any, str, int], str]
    """Returns an id with a number of hex digits."""
    items: Callable[[Any, str], Sequence[Any]]
    child: Callable[[Any, str], Any]
    message: Callable[[Any, str], Any]
    """Returns an item as a message."""
    pairs: Callable[[Sequence[Any]], Pairs]
    body: Callable[[Any], Value]
    is_true: Callable[[Any, str], bool]
    metric: Callable[[Any], tuple[str, Any]]
    """Returns the name of the field with the data of a metric, and the data."""
    point: Callable[[Any, MetricKind | None], Point]
    parse: Callable[[Any], Any]
    """Returns the message of an encoded record, span or metric. Raises `BadRecord` and `ValueError`."""
    read: Callable[[bytes], None]
    """Adds all parts of a document. Raises `ValueError` if it is malformed, and `LimitExceeded`."""

    def __init__(self, signal: Signal, caller: Caller, now_ns: int) -> None:
        self.signal, self._caller, self._now_ns = signal, caller, now_ns
        self.entries: list[LogEntry] = []
        self.spans: list[Call] = []
        self.points: list[tuple[Measurement, bool]] = []
        """Measurements, and whether they are totals of their request."""
        self.measurements: list[Measurement] = []
        self.rejected = 0
        self.reason = ""
        """The reason for the first rejected part."""
        self.most = f"{MAX_PARTS} {_PARTS[signal]}s"
        self._taken = self._count = 0
        add = {"logs": self._add_record, "traces": self._add_span, "metrics": self._add_metric}
        self._add: Callable[[Any, Texts], None] = add[signal]

    def reject(self, reason: str, count: int = 1) -> None:
        """Count rejected parts."""
        self.rejected += count
        self.reason = self.reason or reason

    def take(self) -> None:
        """Count one part. Raises `LimitExceeded`."""
        self._taken += 1
        if self._taken > MAX_PARTS:
            raise LimitExceeded(self.most)

    def add(self, item: Any, shared: Texts) -> None:
        """Add a record, span or metric; `shared` are the attributes of its scope and resource.

        Raises `LimitExceeded`.
        """
        self.take()
        self._count += 1
        try:
            self._add(self.parse(item), shared)
        except (BadRecord, ValueError) as bad:
            self.reject(f"{_PARTS[self.signal]} {self._count}: {bad}")
        if len(self.entries) > MAX_PARTS:
            raise LimitExceeded(self.most)

    def _attributes(self, message: Any) -> tuple[Pairs, int]:
        """Return the attributes of a record, span or event, and the number of those that were dropped."""
        items, dropped = self.items(message, "attributes"), self.integer(message, "droppedAttributesCount")
        return self.pairs(items[:MAX_ATTRIBUTES]), max(0, dropped) + max(0, len(items) - MAX_ATTRIBUTES)

    def _add_record(self, message: Any, shared: Texts) -> None:
        """Add a record. A severity of 1–24, four to a name, precedes its text."""
        attributes = self._attributes(message)
        number, text = self.number(message, "severityNumber"), self.string(message, "severityText").strip()
        severity = _SEVERITY_WORDS.get(text.lower(), "INFO")
        if 1 <= number <= 24:
            severity = _SEVERITIES[(number - 1) // 4]
        times = self.integer(message, "timeUnixNano"), self.integer(message, "observedTimeUnixNano")
        body = self.body(message)
        trace_id, span_id = self.identifier(message, "traceId", 32), self.identifier(message, "spanId", 16)
        other = {"event.name": self.string(message, "eventName")}
        other["severity_text"] = text if text.upper() != severity else ""
        other |= self._ids(trace_id, span_id)
        self.entries.append(self._entry(times, severity, body, attributes, other, shared))

    def _add_span(self, message: Any, shared: Texts) -> None:
        (pairs, dropped), events = self._attributes(message), self.items(message, "events")
        status = self.child(message, "status")
        trace_id, span_id = self.identifier(message, "traceId", 32), self.identifier(message, "spanId", 16)
        if not span_id:
            raise BadRecord(f"{self.span_id} is not a span id")
        kind = self.number(message, "kind")
        other = {
            "span.kind": KINDS[kind] if 1 < kind < len(KINDS) else "",
            "otel.status_description": self.string(status, "message"),
            "trace_id": self._ids(trace_id, span_id)["trace_id"],
        }
        pairs = [*_present(other), *pairs, *shared.items()]
        entries = [
            self._event(self.message(each, "an event"), trace_id, span_id) for each in events[:MAX_EVENTS]
        ]
        start_ns = self.integer(message, "startTimeUnixNano")
        call = Call(
            "span",
            shorten(self.string(message, "name"), MAX_NAME_CHARS),
            start_ns,
            wall_ns=max(0, self.integer(message, "endTimeUnixNano") - start_ns),
            code="error" if self.number(status, "code") == _ERROR else "",
            details={**_counted(pairs, dropped, MAX_SPAN_ATTRIBUTES, MAX_SPAN_ATTRIBUTE_BYTES)},
            span_id=span_id,
            parent_id=self.identifier(message, "parentSpanId", 16),
        )
        self.spans.append(call)
        self.entries += entries

    def _event(self, message: Any, trace_id: str, span_id: str) -> LogEntry:
        """Return the log record of an event of a span. That of an exception is an error with its message."""
        attributes, name = self._attributes(message), self.string(message, "name")
        severity: Severity = "INFO"
        body = name
        if name == "exception":
            texts = {key: value for key, value in attributes[0] if isinstance(value, str)}
            severity, body = "ERROR", texts.get("exception.message") or texts.get("exception.type") or name
        times = (self.integer(message, "timeUnixNano"),)
        other = {"event.name": name, **self._ids(trace_id, span_id)}
        return self._entry(times, severity, body, attributes, other, {})

    def _ids(self, trace_id: str, span_id: str) -> Texts:
        """Return the ids that are not those of the request."""
        caller = self._caller
        return {
            "trace_id": trace_id if trace_id != caller.trace_id else "",
            "span_id": span_id if span_id != caller.span_id else "",
        }

    def _entry(
        self,
        times: Sequence[int],
        severity: Severity,
        body: Value,
        attributes: tuple[Pairs, int],
        other: Texts,
        shared: Texts,
    ) -> LogEntry:
        """Return an entry at the first possible time; `other` fields and those `shared` become attributes."""
        pairs, dropped = attributes
        texts = _counted([*pairs, *_present(other)], dropped, MAX_ATTRIBUTES, MAX_ATTRIBUTE_BYTES)
        for key, text in shared.items():
            texts.setdefault(key, text)
        latest_ns = self._now_ns + MAX_AHEAD_NS
        time_ns = next((each for each in times if EARLIEST_NS <= each <= latest_ns), self._now_ns)
        return LogEntry(time_ns, severity, shorten(to_text(body), MAX_BODY_BYTES), texts, self._caller)

    def _add_metric(self, message: Any, _shared: Texts) -> None:
        """Add the measurement of each data point, or count it as rejected. Raises `LimitExceeded`."""
        name, (field, data) = self.string(message, "name"), self.metric(message)
        kind = _METRIC_KINDS.get(field)
        if kind == "updown" and self.is_true(data, "isMonotonic"):
            kind = "counter"
        unit = shorten(self.string(message, "unit"), MAX_UNIT_CHARS)
        description = shorten(self.string(message, "description"), MAX_DESCRIPTION_BYTES)
        temporality, problem = self.number(data, "aggregationTemporality"), ""
        if len(name) > MAX_METRIC_NAME_CHARS or not _NAME.fullmatch(name):
            problem = "is not a valid name for a metric"
        elif kind is None:
            problem = "is not a gauge, a sum or a histogram with explicit bounds"
        elif kind != "gauge" and temporality not in (_DELTA, _CUMULATIVE):
            problem = "has no aggregation temporality"
        points = []
        for each in self.items(data, "dataPoints"):
            point = self.message(each, "a data point")
            pairs = self.pairs(self.items(point, "attributes")[:MAX_ATTRIBUTES])
            points.append((pairs, self.point(point, kind)))
        if kind is None and not points:
            points.append(((), (0.0, (), ())))
        for pairs, (value, bounds, counts) in points:
            if bad := problem or _problem_of_point(kind, value, bounds, counts):
                self.reject(f"metric {self._count}: {shorten(name, 80)} {bad}")
                continue
            assert kind is not None
            texts, _ = limit_attributes(pairs, MAX_POINT_ATTRIBUTES, MAX_POINT_ATTRIBUTE_BYTES)
            measurement = Measurement(
                name,
                kind,
                value,
                unit=unit,
                description=description,
                attributes=tuple(sorted(texts.items())),
                bounds=tuple(bounds),
                counts=tuple(counts),
            )
            self.points.append((measurement, temporality == _CUMULATIVE and kind != "gauge"))
        if len(self.points) + self.rejected > MAX_POINTS:
            raise LimitExceeded(f"{MAX_POINTS} data points")


def _present(texts: Texts) -> Pairs:
    return [(key, text) for key, text in texts.items() if text]


def _counted(pairs: Pairs, dropped: int, max_count: int, max_bytes: int) -> dict[str, str]:
    """Return attributes as `limit_attributes` does, with the number of all that were dropped."""
    texts, more = limit_attributes(pairs, max_count, max_bytes)
    if dropped + more:
        texts["otel.dropped_attributes_count"] = str(dropped + more)
    return texts


def _problem_of_point(
    kind: MetricKind | None, value: float, bounds: Sequence[float], counts: Sequence[int]
) -> str:
    if not math.isfinite(value):
        return "has a value that is not finite"
    if kind == "counter" and value < 0:
        return "is monotonic and has a negative value"
    if kind != "histogram":
        return ""
    if len(bounds) > MAX_BOUNDS:
        return f"has more than {MAX_BOUNDS} bounds"
    if len(counts) != len(bounds) + 1 or min(counts) < 0:
        return "has other bucket counts than bounds"
    if max(counts) > MAX_COUNT:
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
