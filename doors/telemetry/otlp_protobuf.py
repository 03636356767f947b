"""Parser of logs, traces and metrics in protobuf, and encoder of the two response messages.

The wire format of the three outer messages is parsed here and each record is decoded alone. The messages of
all signals have the same fields. An invalid record does not affect the others, and a small body with very
many records cannot exhaust memory.
"""

from collections.abc import Callable, Iterator
from typing import Any

from doors.telemetry.signals import (
    MAX_ATTRIBUTES,
    MAX_EVENTS,
    BadRecord,
    GuestMetric,
    GuestPoint,
    GuestRecord,
    GuestSpan,
    Item,
    Pairs,
    RecordBudget,
    Signal,
    Texts,
    Value,
    event_record,
    resource_attributes,
    scope_attributes,
)
from engine.measurement import MetricKind

MAX_RECORD_BYTES = 256 << 10
"""Maximum bytes of an encoded record, resource or scope."""

_METRIC_KINDS: dict[str, MetricKind] = {"gauge": "gauge", "histogram": "histogram"}
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def read(data: bytes, signal: Signal) -> Iterator[tuple[Item | BadRecord, Texts]]:
    """Yield each record, span or metric with the attributes of its scope and resource.

    Raises `ValueError` if the document is malformed, and `LimitExceeded`, possibly after some records.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    allowance = RecordBudget()

    def part(message: Any, attributes: memoryview) -> Any:
        encoded = b"".join(_fields(attributes, 1, allowance))
        try:
            return message.FromString(encoded if len(encoded) <= MAX_RECORD_BYTES else b"")
        except DecodeError:
            raise ValueError(f"a {message.DESCRIPTOR.name} in it is malformed") from None

    parsers: dict[Signal, Callable[[bytes], Item]] = {
        "logs": lambda encoded: _record(LogRecord.FromString(encoded)),
        "traces": lambda encoded: _span(Span.FromString(encoded)),
        "metrics": lambda encoded: _metric(Metric.FromString(encoded)),
    }
    parse = parsers[signal]
    for outer in _fields(memoryview(data), 1, allowance):
        allowance.take()
        shared = resource_attributes(_pairs(part(Resource, outer).attributes))
        for inner in _fields(outer, 2, allowance):
            allowance.take()
            scope = part(InstrumentationScope, inner)
            around = scope_attributes(scope.name, scope.version, _pairs(scope.attributes), shared)
            for encoded in _fields(inner, 2, allowance):
                allowance.take()
                if len(encoded) > MAX_RECORD_BYTES:
                    yield BadRecord(f"it has {len(encoded)} bytes, more than {MAX_RECORD_BYTES}"), around
                    continue
                try:
                    yield parse(bytes(encoded)), around
                except DecodeError:
                    yield BadRecord("it is malformed"), around
                except BadRecord as bad:
                    yield bad, around


def response(rejected: int, reason: str) -> bytes:
    """Return the response to any signal, empty if nothing was rejected."""
    from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as service

    partial = service.ExportLogsPartialSuccess(rejected_log_records=rejected, error_message=reason)
    message = service.ExportLogsServiceResponse(partial_success=partial if rejected else None)
    return bytes(message.SerializeToString())


def status(code: int, message: str) -> bytes:
    """Return a google.rpc.Status: its fields have the numbers and types of those of a partial success."""
    from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as service

    fields = service.ExportLogsPartialSuccess(rejected_log_records=code, error_message=message)
    return bytes(fields.SerializeToString())


def _record(record: Any) -> GuestRecord:
    return GuestRecord(
        record.time_unix_nano,
        record.observed_time_unix_nano,
        severity=record.severity_number,
        severity_text=record.severity_text,
        body=_value(record.body),
        attributes=_pairs(record.attributes),
        dropped=record.dropped_attributes_count + max(0, len(record.attributes) - MAX_ATTRIBUTES),
        trace_id=_id(record.trace_id, 16),
        span_id=_id(record.span_id, 8),
        event_name=record.event_name,
    )


def _span(span: Any) -> GuestSpan:
    trace_id, span_id = _id(span.trace_id, 16), _id(span.span_id, 8)
    if not span_id:
        raise BadRecord("span_id is not a span id")
    return GuestSpan(
        span.name,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_id(span.parent_span_id, 8),
        kind=span.kind,
        status=span.status.code,
        message=span.status.message,
        attributes=_pairs(span.attributes),
        dropped=span.dropped_attributes_count + max(0, len(span.attributes) - MAX_ATTRIBUTES),
        events=[
            event_record(
                event.name,
                event.time_unix_nano,
                _pairs(event.attributes),
                dropped=event.dropped_attributes_count + max(0, len(event.attributes) - MAX_ATTRIBUTES),
                trace_id=trace_id,
                span_id=span_id,
            )
            for event in span.events[:MAX_EVENTS]
        ],
    )


def _metric(metric: Any) -> GuestMetric:
    field = metric.WhichOneof("data") or ""
    data: Any = getattr(metric, field, None)
    if field == "sum":
        kind: MetricKind | None = "counter" if data.is_monotonic else "updown"
    else:
        kind = _METRIC_KINDS.get(field)
    points = data.data_points if data is not None else ()
    return GuestMetric(
        metric.name,
        kind,
        unit=metric.unit,
        description=metric.description,
        temporality=getattr(data, "aggregation_temporality", 0),
        points=[_point(each, kind) for each in points] or [GuestPoint(0.0)] * (kind is None),
    )


def _point(point: Any, kind: MetricKind | None) -> GuestPoint:
    attributes = _pairs(point.attributes)
    if kind is None:
        return GuestPoint(0.0)
    if kind == "histogram":
        counts = list(point.bucket_counts) or [point.count]
        return GuestPoint(point.sum, attributes=attributes, bounds=list(point.explicit_bounds), counts=counts)
    value = point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
    return GuestPoint(float(value), attributes=attributes)


def _value(value: Any) -> Value:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    inner = getattr(value, kind)
    if kind == "array_value":
        return [_value(item) for item in inner.values]
    if kind == "kvlist_value":
        return {pair.key: _value(pair.value) for pair in inner.values}
    plain: Value = inner
    return plain


def _pairs(attributes: Any) -> Pairs:
    return [(pair.key, _value(pair.value)) for pair in attributes[:MAX_ATTRIBUTES]]


def _id(raw: bytes, length: int) -> str:
    """Return an id as hex; empty if it is invalid, as in the OTLP data model."""
    return raw.hex() if len(raw) == length and any(raw) else ""


def _fields(data: memoryview, number: int, allowance: RecordBudget) -> Iterator[memoryview]:
    """Yield the length-delimited fields with a number. Raises `ValueError` and `LimitExceeded`.

    Protocol Buffers' encoding: a varint of number and wire type, then the value.
    """
    position = 0
    while position < len(data):
        allowance.pass_field()
        key, position = _read_varint(data, position)
        wire, start = key & 7, position
        if wire == _LENGTH:
            size, start = _read_varint(data, position)
            position = start + size
        elif wire == _VARINT:
            _, position = _read_varint(data, position)
        elif wire in (_FIXED64, _FIXED32):
            position += 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire} does not exist")
        if position > len(data):
            raise ValueError("it ends in the middle of a field")
        if key >> 3 == 0:
            raise ValueError("a field has the number 0")
        if wire == _LENGTH and key >> 3 == number:
            yield data[start:position]


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return a varint and the position after it. Raises `ValueError`."""
    number = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
    raise ValueError("a number in it has no end")
