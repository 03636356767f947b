"""Parser of logs, traces and metrics in OTLP's JSON: hex ids, enums as numbers, 64-bit numbers or text.

Each record is parsed alone, so an invalid one does not affect the others. Unknown fields are ignored, and
null is a field's default (OTLP specification, "JSON Protobuf Encoding"; otherwise proto3's JSON mapping).
"""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any

from doors.telemetry.signals import (
    KINDS,
    MAX_ATTRIBUTES,
    BadRecord,
    Pairs,
    Point,
    Reader,
    Signal,
    Value,
    resource_attributes,
    scope_attributes,
)
from engine.measurement import MetricKind
from engine.stepwise_json import MAX_STEP, TooComplex, parse

MAX_DEPTH = 64
"""Maximum nesting of arrays and maps. The limit of protobuf is lower."""
MAX_VALUES = 1_000_000
"""Maximum values of a document."""

_SEVERITIES = {
    f"SEVERITY_NUMBER_{name}{step or ''}": 1 + 4 * i + max(step - 1, 0)
    for i, name in enumerate(("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"))
    for step in (0, 2, 3, 4)
}
_ENUMS = {
    "kind": tuple(f"SPAN_KIND_{kind.upper() or 'UNSPECIFIED'}" for kind in KINDS),
    "code": ("STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"),
    "aggregationTemporality": tuple(
        f"AGGREGATION_TEMPORALITY_{name}" for name in ("UNSPECIFIED", "DELTA", "CUMULATIVE")
    ),
}
_NAMES_OF: dict[Signal, tuple[str, str, str]] = {
    "logs": ("resourceLogs", "scopeLogs", "logRecords"),
    "traces": ("resourceSpans", "scopeSpans", "spans"),
    "metrics": ("resourceMetrics", "scopeMetrics", "metrics"),
}


def _parsed(data: bytes) -> dict[str, Any]:
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
    return _object(document, "the document")


def _number(fields: dict[str, Any], name: str) -> int:
    """Return the number of an enum's value, which some exporters send by name."""
    value = fields.get(name)
    if name in _ENUMS:
        return _ENUMS[name].index(value) if value in _ENUMS[name] else _to_integer(value, name)
    if isinstance(value, str) and value.startswith("SEVERITY_NUMBER_"):
        return _SEVERITIES.get(value, 0)
    return _to_integer(value, name)


def _metric(fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    field = next((each for each in ("gauge", "sum", "histogram") if fields.get(each) is not None), "")
    return field, _object(fields.get(field), field)


def _point(fields: dict[str, Any], kind: MetricKind | None) -> Point:
    if kind != "histogram":
        number = fields.get("asDouble")
        return float(_integer(fields, "asInt")) if number is None else _double(number), (), ()
    total = fields.get("sum")
    bounds = [_double(each) for each in _list(fields, "explicitBounds")]
    counts = [_to_integer(each, "bucketCounts") for each in _list(fields, "bucketCounts")]
    return 0.0 if total is None else _double(total), bounds, counts or [_integer(fields, "count")]


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
                return _to_integer(inner, kind)
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


def _pairs(items: Sequence[Any], depth: int = 0) -> Pairs:
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


def _integer(fields: dict[str, Any], name: str) -> int:
    return _to_integer(fields.get(name), name)


def _to_integer(value: Any, name: str) -> int:
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


class JsonReader(Reader):
    """Reads a request in JSON."""

    span_id = "spanId"
    string = staticmethod(_string)
    integer = staticmethod(_integer)
    number = staticmethod(_number)
    identifier = staticmethod(_id)
    items = staticmethod(_list)
    child = staticmethod(lambda fields, name: _object(fields.get(name), name))
    message = staticmethod(_object)
    pairs = staticmethod(_pairs)
    body = staticmethod(lambda fields: _value(fields.get("body")))
    is_true = staticmethod(lambda fields, name: fields.get(name) is True)
    metric = staticmethod(_metric)
    point = staticmethod(_point)
    parse = staticmethod(lambda item: _object(item, "it"))

    def read(self, data: bytes) -> None:
        outer_name, inner_name, item_name = _NAMES_OF[self.signal]
        document = _parsed(data)
        if outer_name not in document:
            for other, (found, *_) in _NAMES_OF.items():
                if found in document:
                    raise ValueError(f"it has {found}: send it to /v1/{other}")
        for outer_item in _list(document, outer_name):
            self.take()
            outer = _object(outer_item, outer_name)
            shared = resource_attributes(_valid_attributes(_object(outer.get("resource"), "resource")))
            for inner_item in _list(outer, inner_name):
                self.take()
                inner = _object(inner_item, inner_name)
                scope = _object(inner.get("scope"), "scope")
                name, version, attributes = scope.get("name"), scope.get("version"), _valid_attributes(scope)
                around = scope_attributes(name, version, attributes, shared)
                for item in _list(inner, item_name):
                    self.add(item, around)
