"""Conversion of records of the timeline, and of metrics of the service, into values of the OpenTelemetry SDK.

Ids are those of the timeline. Attributes have the names of OpenTelemetry's semantic conventions, or begin
with `svc.`.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context
from opentelemetry.trace.status import Status, StatusCode

from engine.metrics.families import Distribution, Family, Labels
from engine.timeline.record import LineRecord, Record, RequestRecord, StructuredRecord, failed, level
from engine.timeline.stored_record import SEVERITY_NUMBERS
from engine.trace import Call, span_ids

_Owner = tuple[str, str]


def metrics_data(families: Sequence[Family], started_ns: int, now_ns: int) -> MetricsData:
    """Return the metrics by resource. Counters began at `started_ns`; the values are those of `now_ns`."""
    owners: dict[_Owner, list[Metric]] = {}
    for family in families:
        points: dict[_Owner, list[tuple[Labels, float | Distribution]]] = {}
        for labels, value in family.points:
            owner = labels.get("project", ""), labels.get("resource", "")
            points.setdefault(owner, []).append((labels, value))
        for owner, of_owner in points.items():
            owners.setdefault(owner, []).append(_metric(family, of_owner, started_ns, now_ns))
    return MetricsData(
        [
            ResourceMetrics(resource_of(*owner), [ScopeMetrics(SCOPE, metrics, "")], "")
            for owner, metrics in owners.items()
        ]
    )


def _metric(
    family: Family, points: list[tuple[Labels, float | Distribution]], started_ns: int, now_ns: int
) -> Metric:
    data: Any
    if family.kind == "histogram":
        data = Histogram(
            [_histogram(labels, value, started_ns, now_ns) for labels, value in points],
            AggregationTemporality.CUMULATIVE,
        )
    else:
        numbers = [
            NumberDataPoint(_attributes(labels), 0 if family.kind == "gauge" else started_ns, now_ns, value)
            for labels, value in points
            if not isinstance(value, Distribution)
        ]
        if family.kind == "gauge":
            data = Gauge(numbers)
        else:
            data = Sum(numbers, AggregationTemporality.CUMULATIVE, family.kind == "counter")
    return Metric(family.name, family.help, family.unit, data)


def _histogram(labels: Labels, value: Any, started_ns: int, now_ns: int) -> HistogramDataPoint:
    unknown: Any = None  # Minimum and maximum are not recorded.
    return HistogramDataPoint(
        _attributes(labels),
        started_ns,
        now_ns,
        sum(value.counts),
        value.sum,
        value.counts,
        value.bounds,
        unknown,
        unknown,
    )


def _attributes(labels: Labels) -> dict[str, str]:
    return {key: text for key, text in labels.items() if key not in ("project", "resource")}


SCOPE = InstrumentationScope("svc")
SERVICE = "svc"
"""`service.name` of records that belong to no project."""
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_KINDS = {
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
}
_STATED = frozenset({"span.kind", "otel.status_description"})
"""Attributes of the code's spans that are fields of OTLP."""
_UNSET = Status(StatusCode.UNSET)


@lru_cache(maxsize=1024)
def resource_of(project: str, resource: str) -> Resource:
    """Return the OpenTelemetry resource of a resource of a project; both may be empty."""
    name = "/".join(filter(None, (project, resource))) or SERVICE
    names = {"service.name": name, "svc.project": project, "svc.resource": resource}
    return Resource({key: value for key, value in names.items() if value})


def spans(project: str, record: RequestRecord) -> Iterator[ReadableSpan]:
    """Yield the span of a request, and those of its calls."""
    trace_id = int(record.trace_id, 16)
    resource = resource_of(project, record.resource)
    own = _context(trace_id, record.span_id)
    attributes: dict[str, Any] = {
        "http.request.method": record.method,
        "url.path": record.target.partition("?")[0],
        "url.query": record.target.partition("?")[2],
        "http.response.status_code": record.status,
        "http.request.body.size": record.bytes_in,
        "http.response.body.size": record.bytes_out,
        "error.type": record.code,
        "svc.request_id": record.request_id,
        "svc.compute_ns": record.compute_ns,
        "svc.peak_memory": record.peak_memory,
        "svc.calls_omitted": record.calls_omitted or None,
    }
    yield ReadableSpan(
        f"{record.method} {record.resource}".rstrip(),
        own,
        _context(trace_id, record.parent, is_remote=record.root) if record.parent else None,
        resource,
        _clean(attributes),
        kind=SpanKind.SERVER,
        status=_status(record.detail or record.code) if failed(record) else _UNSET,
        start_time=record.time_ns,
        end_time=record.time_ns + record.wall_ns,
        instrumentation_scope=SCOPE,
    )
    ids = span_ids(record.span_id, record.calls)
    for call, span_id in zip(record.calls, ids, strict=True):
        parent = own if call.parent < 0 else _context(trace_id, ids[call.parent])
        yield _span_of_call(record, call, _context(trace_id, span_id), parent, resource)


def log_record(project: str, record: Record) -> ReadableLogRecord:
    """Return the log record of a record that is not a request."""
    severity, context = level(record), Context()
    attributes: dict[str, Any] = {"svc.request_id": getattr(record, "request_id", "")}
    if isinstance(record, StructuredRecord):
        attributes |= record.attributes
        body = record.body
    else:
        body = record.text  # type: ignore[union-attr]
        if isinstance(record, LineRecord):
            attributes["log.iostream"] = record.stream
    if isinstance(record, (StructuredRecord, LineRecord)) and record.trace_id and record.span_id:
        span = NonRecordingSpan(_context(int(record.trace_id, 16), record.span_id))
        context = set_span_in_context(span, context)
    converted = LogRecord(
        timestamp=record.time_ns,
        observed_timestamp=record.time_ns,
        context=context,
        severity_text=severity,
        severity_number=SeverityNumber(SEVERITY_NUMBERS[severity]),
        body=_text(body),
        attributes=_clean(attributes),
    )
    return ReadableLogRecord(converted, resource_of(project, record.resource), SCOPE)


def _span_of_call(
    record: RequestRecord, call: Call, context: SpanContext, parent: SpanContext, resource: Resource
) -> ReadableSpan:
    details: dict[str, Any] = dict(call.details or {})
    name, kind, description = call.name, SpanKind.INTERNAL, call.code
    attributes: dict[str, Any]
    if call.kind == "span":
        kind = _KINDS.get(str(details.get("span.kind", "")), kind)
        description = str(details.get("otel.status_description", ""))
        attributes = {key: value for key, value in details.items() if key not in _STATED}
    else:
        attributes = {f"svc.{key}": value for key, value in details.items()}
        attributes["error.type"] = call.code
    if call.kind == "sql":
        words = call.name.split(None, 1)
        name, kind = words[0].upper() if words else "SQL", SpanKind.CLIENT
        attributes |= {"db.system.name": "sqlite", "db.query.text": call.name}
    elif call.kind == "fetch":
        method, _, origin = call.name.partition(" ")
        kind = SpanKind.CLIENT
        attributes |= {"http.request.method": method, "server.address": origin.rpartition("://")[2]}
    if call.status:
        attributes["http.response.status_code"] = call.status
    start_ns = record.time_ns + call.start_ns
    return ReadableSpan(
        _text(name),
        context,
        parent,
        resource,
        _clean(attributes),
        kind=kind,
        status=_status(description) if call.code else _UNSET,
        start_time=start_ns,
        end_time=start_ns + max(call.wall_ns, 0),
        instrumentation_scope=SCOPE,
    )


def _status(description: str) -> Status:
    return Status(StatusCode.ERROR, _text(description) or None)


def _context(trace_id: int, span_id: str, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(trace_id, int(span_id, 16), is_remote, _SAMPLED)


def _clean(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes that have a value, with texts that UTF-8 can encode."""
    return {
        _text(key): _text(value) if isinstance(value, str) else value
        for key, value in attributes.items()
        if value not in (None, "")
    }


def _text(text: str) -> str:
    return text if text.isascii() else text.encode(errors="replace").decode()
