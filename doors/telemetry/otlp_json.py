"""Parser of ExportLogsServiceRequest in OTLP's JSON: hex ids, enums as numbers, 64-bit numbers or text.

Each record is parsed alone, so an invalid one does not affect the others. Unknown fields are ignored, and
null is a field's default (OTLP specification, "JSON Protobuf Encoding"; otherwise proto3's JSON mapping).
"""

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any

from doors.telemetry.record import (
    MAX_ATTRIBUTES,
    BadRecord,
    GuestRecord,
    Pairs,
    RecordBudget,
    Texts,
    Value,
    of_resource,
    of_scope,
)
from engine.stepwise_json import MAX_STEP, TooComplex, parse

MAX_DEPTH = 64
"""Maximum nesting of arrays and maps. The limit of protobuf is lower."""
MAX_VALUES = 1_000_000
"""Maximum values of a document."""

_NAMES = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_SEVERITIES = {
    f"SEVERITY_NUMBER_{name}{step or ''}": 1 + 4 * i + max(step - 1, 0)
    for i, name in enumerate(_NAMES)
    for step in (0, 2, 3, 4)
}


def read(data: bytes) -> Iterator[tuple[GuestRecord | BadRecord, Texts]]:
    """Yield each record with the attributes of its scope and resource.

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
    for outer_item in _list(_object(document, "the document"), "resourceLogs"):
        allowance.take()
        resource_logs = _object(outer_item, "resourceLogs")
        shared = of_resource(_valid_attributes(_object(resource_logs.get("resource"), "resource")))
        for inner_item in _list(resource_logs, "scopeLogs"):
            allowance.take()
            scope_logs = _object(inner_item, "scopeLogs")
            scope = _object(scope_logs.get("scope"), "scope")
            name, version = (_optional_string(scope, key) for key in ("name", "version"))
            attributes = of_scope(name, version, _valid_attributes(scope), shared)
            for log_record in _list(scope_logs, "logRecords"):
                allowance.take()
                yield _try_record(log_record), attributes


def _try_record(value: Any) -> GuestRecord | BadRecord:
    try:
        return _record(_object(value, "it"))
    except BadRecord as bad:
        return bad
    except ValueError as error:
        return BadRecord(str(error))


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
                return _bytes(inner)
            case "arrayValue":
                return [_value(one, depth + 1) for one in _list(_object(inner, kind), "values")]
            case "kvlistValue":
                return dict(_pairs(_list(_object(inner, kind), "values"), depth + 1))
            case "stringValue" | "boolValue" | "bytesValue":
                raise BadRecord(f"{kind} is {_json_type(inner)}")
    return None


def _pairs(items: list[Any], depth: int = 0) -> Pairs:
    pairs = [_object(one, "an attribute") for one in items]
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


def _optional_string(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


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


def _bytes(text: str) -> bytes:
    """Decode base64 in either alphabet, with or without padding. Raises `BadRecord`."""
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise BadRecord("bytesValue is not base64") from None


def _id(fields: dict[str, Any], name: str, length: int) -> str:
    """Return an id in lower case; empty if it is invalid, as in the OTLP data model."""
    text = _string(fields, name).lower()
    valid = len(text) == length and not text.strip("0123456789abcdef") and text.strip("0")
    return text if valid else ""


def _json_type(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return names.get(type(value), "a number")
