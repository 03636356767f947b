"""Parser of logs, traces and metrics in OTLP's JSON: hex ids, enums as numbers, 64-bit numbers or text.

Each record is parsed alone, so an invalid one does not affect the others. Unknown fields are ignored, and
null is a field's default (OTLP specification, "JSON Protobuf Encoding"; otherwise proto3's JSON mapping).
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from typing import Any

from doors.telemetry.signals import (
    KINDS,
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
from engine.stepwise_json import MAX_STEP, TooComplex, parse

MAX_DEPTH = 64
"""Maximum nesting of arrays and maps. The limit of protobuf is lower."""
MAX_VALUES = 1_000_000
"""Maximum values of a document."""

_NAMES = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_SPAN_KINDS = tuple(f"SPAN_KIND_{kind.upper() or 'UNSPECIFIED'}" for kind in KINDS)
_METRIC_KINDS: dict[str, MetricKind] = {"gauge": "gauge", "histogram": "histogram"}
_TEMPORALITIES = tuple(f"AGGREGATION_TEMPORALITY_{name}" for name in ("UNSPECIFIED", "DELTA", "CUMULATIVE"))
_STATUS_CODES = tuple(f"STATUS_CODE_{name}" for name in ("UNSET", "OK", "ERROR"))
_SEVERITIES = {
    f"SEVERITY_NUMBER_{name}{step or ''}": 1 + 4 * i + max(step - 1, 0)
    for i, name in enumerate(_NAMES)
    for step in (0, 2, 3, 4)
}


def read(data: bytes, signal: Signal) -> Iterator[tuple[Item | BadRecord, Texts]]:
    """Yield each record, span or metric with the attributes of its scope and resource.

    Raises `ValueError` if the document is malformed, and `LimitExceeded`, possibly after some records.
    """
    try:
        document = json.loads(data) if len(data) <= MAX_STEP else parse(data.decode(), MAX_VALUES)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError:
        raise
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except TooComplex as error:
        raise ValueError(f"it has {error}") from None
    except ValueError:  # Python's text for a long number advises programmers.
        raise ValueError("a number has too many digits") from None
    allowance = RecordBudget()
    outer_name, inner_name, item_name = _NAMES_OF[signal]
    parse_item = _PARSERS[signal]
    if outer_name not in _object(document, "the document"):
        for other, (name, *_) in _NAMES_OF.items():
            if name in document:
                raise ValueError(f"it has {name}: send it to /v1/{other}")
    for outer_item in _list(document, outer_name):
        allowance.take()
        outer = _object(outer_item, outer_name)
        shared = resource_attributes(_valid_attributes(_object(outer.get("resource"), "resource")))
        for inner_item in _list(outer, inner_name):
            allowance.take()
            inner = _object(inner_item, inner_name)
            scope = _object(inner.get("scope"), "scope")
            attributes = scope_attributes(
                scope.get("name"), scope.get("version"), _valid_attributes(scope), shared
            )
            for item in _list(inner, item_name):
                allowance.take()
                try:
                    yield parse_item(_object(item, "it")), attributes
                except (BadRecord, ValueError) as bad:
                    yield BadRecord(str(bad)), attributes


def _record(fields: dict[str, Any]) -> GuestRecord:
    attributes = _list(fields, "attributes")
    dropped = max(0, _integer(fields.get("droppedAttributesCount"), "droppedAttributesCount"))
    severity = fields.get("severityNumber")
    if isinstance(severity, str) and severity.startswith("SEVERITY_NUMBER_"):
        severity = _SEVERITIES.get(severity, 0)
    return GuestRecord(
        _integer(fields.get("timeUnixNano"), "timeUnixNano"),
        _integer(fields.get("observedTimeUnixNano"), "observedTimeUnixNano"),
        severity=_integer(severity, "severityNumber"),
        severity_text=_string(fields, "severityText"),
        body=_value(fields.get("body")),
        attributes=_pairs(attributes[:MAX_ATTRIBUTES]),
        dropped=dropped + max(0, len(attributes) - MAX_ATTRIBUTES),
        trace_id=_id(fields, "traceId", 32),
        span_id=_id(fields, "spanId", 16),
        event_name=_string(fields, "eventName"),
    )


def _span(fields: dict[str, Any]) -> GuestSpan:
    attributes, events = _list(fields, "attributes"), _list(fields, "events")
    dropped = max(0, _integer(fields.get("droppedAttributesCount"), "droppedAttributesCount"))
    status = _object(fields.get("status"), "status")
    trace_id, span_id = _id(fields, "traceId", 32), _id(fields, "spanId", 16)
    if not span_id:
        raise BadRecord("spanId is not a span id")
    return GuestSpan(
        _string(fields, "name"),
        _integer(fields.get("startTimeUnixNano"), "startTimeUnixNano"),
        _integer(fields.get("endTimeUnixNano"), "endTimeUnixNano"),
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_id(fields, "parentSpanId", 16),
        kind=_number_of(fields, "kind", _SPAN_KINDS),
        status=_number_of(status, "code", _STATUS_CODES),
        message=_string(status, "message"),
        attributes=_pairs(attributes[:MAX_ATTRIBUTES]),
        dropped=dropped + max(0, len(attributes) - MAX_ATTRIBUTES),
        events=[_event(_object(event, "an event"), trace_id, span_id) for event in events[:MAX_EVENTS]],
    )


def _event(fields: dict[str, Any], trace_id: str, span_id: str) -> GuestRecord:
    attributes = _list(fields, "attributes")
    return event_record(
        _string(fields, "name"),
        _integer(fields.get("timeUnixNano"), "timeUnixNano"),
        _pairs(attributes[:MAX_ATTRIBUTES]),
        dropped=max(0, len(attributes) - MAX_ATTRIBUTES),
        trace_id=trace_id,
        span_id=span_id,
    )


def _metric(fields: dict[str, Any]) -> GuestMetric:
    field = next((each for each in ("gauge", "sum", "histogram") if fields.get(each) is not None), "")
    data = _object(fields.get(field), field)
    monotonic = data.get("isMonotonic") is True
    kind = ("counter" if monotonic else "updown") if field == "sum" else _METRIC_KINDS.get(field)
    return GuestMetric(
        _string(fields, "name"),
        kind,
        unit=_string(fields, "unit"),
        description=_string(fields, "description"),
        temporality=_number_of(data, "aggregationTemporality", _TEMPORALITIES),
        points=[_point(_object(each, "a data point"), kind) for each in _list(data, "dataPoints")]
        or [GuestPoint(0.0)] * (kind is None),
    )


def _point(fields: dict[str, Any], kind: MetricKind | None) -> GuestPoint:
    attributes = _pairs(_list(fields, "attributes")[:MAX_ATTRIBUTES])
    if kind != "histogram":
        number = fields.get("asDouble")
        value = float(_integer(fields.get("asInt"), "asInt")) if number is None else _double(number)
        return GuestPoint(value, attributes=attributes)
    total = fields.get("sum")
    return GuestPoint(
        0.0 if total is None else _double(total),
        attributes=attributes,
        bounds=[_double(each) for each in _list(fields, "explicitBounds")],
        counts=[_integer(each, "bucketCounts") for each in _list(fields, "bucketCounts")]
        or [_integer(fields.get("count"), "count")],
    )


def _number_of(fields: dict[str, Any], name: str, names: tuple[str, ...]) -> int:
    """Return the number of an enum's value, which some exporters send by name."""
    value = fields.get(name)
    return names.index(value) if value in names else _integer(value, name)


_NAMES_OF: dict[Signal, tuple[str, str, str]] = {
    "logs": ("resourceLogs", "scopeLogs", "logRecords"),
    "traces": ("resourceSpans", "scopeSpans", "spans"),
    "metrics": ("resourceMetrics", "scopeMetrics", "metrics"),
}
_PARSERS: dict[Signal, Callable[[dict[str, Any]], Item]] = {
    "logs": _record,
    "traces": _span,
    "metrics": _metric,
}


def _value(any_value: Any, depth: int = 0) -> Value:
    """Return the value of an AnyValue: its first field that is not null."""
    if depth > MAX_DEPTH:
        raise BadRecord("it is nested too deeply")
    for kind, inner in _object(any_value, "a value").items():
        if inner is None:
            continue
        match kind:
            case "stringValue" if isinstance(inner, str):
                return inner
            case "boolValue" if isinstance(inner, bool):
                return inner
            case "intValue":
                return _integer(inner, kind)
            case "doubleValue":
                return _double(inner)
            case "bytesValue" if isinstance(inner, str):
                plain = inner.replace("-", "+").replace("_", "/").rstrip("=")
                try:
                    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
                except (binascii.Error, ValueError):
                    raise BadRecord("bytesValue is not base64") from None
            case "arrayValue":
                return [_value(item, depth + 1) for item in _list(_object(inner, kind), "values")]
            case "kvlistValue":
                return dict(_pairs(_list(_object(inner, kind), "values"), depth + 1))
            case "stringValue" | "boolValue" | "bytesValue":
                raise BadRecord(f"{kind} is {_json_type(inner)}")
    return None


def _pairs(items: list[Any], depth: int = 0) -> Pairs:
    pairs = [_object(item, "an attribute") for item in items]
    return [(_string(pair, "key"), _value(pair.get("value"), depth)) for pair in pairs]


def _valid_attributes(fields: dict[str, Any]) -> Pairs:
    """Return the attributes of a resource or scope, or none if they are malformed."""
    try:
        return _pairs(_list(fields, "attributes")[:MAX_ATTRIBUTES])
    except (BadRecord, ValueError):
        return ()


def _object(value: Any, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise ValueError(f"{name} is {_json_type(value)}, not an object")


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    value = fields.get(name)
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise ValueError(f"{name} is {_json_type(value)}, not an array")


def _string(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise BadRecord(f"{name} is {_json_type(value)}, not a string")


def _integer(value: Any, name: str) -> int:
    """Return an integer of at most 64 bits from a number or text. Raises `BadRecord`."""
    try:
        number = 0 if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        raise BadRecord(f"{name} is not a number") from None
    if isinstance(value, bool) or (isinstance(value, float) and number != value):
        raise BadRecord(f"{name} is not a whole number")
    if not -(2**63) <= number < 2**64:
        raise BadRecord(f"{name} does not fit in 64 bits")
    return number


def _double(value: Any) -> float:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise BadRecord("doubleValue is not a number")


def _id(fields: dict[str, Any], name: str, length: int) -> str:
    """Return an id in lower case; empty if it is invalid, as in the OTLP data model."""
    text = _string(fields, name).lower()
    valid = len(text) == length and not text.strip("0123456789abcdef") and text.strip("0")
    return text if valid else ""


def _json_type(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return names.get(type(value), "a number")
