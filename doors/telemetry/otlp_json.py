"""ExportLogsServiceRequest in OTLP's own JSON: hex ids, enums as numbers, 64-bit numbers as texts or numbers.

Owns reading it record by record, so that a bad one spoils no other. Unknown fields are ignored, null is a
field's default (OTLP specification, "JSON Protobuf Encoding"; proto3's JSON mapping for the rest).
"""

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any

from doors.telemetry.record import (
    ATTRIBUTES,
    BadRecord,
    GuestRecord,
    Pairs,
    RecordBudget,
    Texts,
    Value,
    of_resource,
    of_scope,
)

DEPTH = 64
"""How deep arrays and maps may be in each other; protobuf's own limit comes to less."""

_NAMES = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_SEVERITIES = {
    f"SEVERITY_NUMBER_{name}{step or ''}": 1 + 4 * i + max(step - 1, 0)
    for i, name in enumerate(_NAMES)
    for step in (0, 2, 3, 4)
}


def read(data: bytes) -> Iterator[tuple[GuestRecord | BadRecord, Texts]]:
    """Yield each record with the attributes around it.

    Raises `ValueError` when the document is malformed, and `TooMany`: at once or after some records.
    """
    try:
        document = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    allowance = RecordBudget()
    for outer in _list(_object(document, "the document"), "resourceLogs"):
        allowance.take()
        of_one = _object(outer, "resourceLogs")
        shared = of_resource(_tolerant(_object(of_one.get("resource"), "resource")))
        for inner in _list(of_one, "scopeLogs"):
            allowance.take()
            within = _object(inner, "scopeLogs")
            scope = _object(within.get("scope"), "scope")
            name, version = (_optional_word(scope, key) for key in ("name", "version"))
            around = of_scope(name, version, _tolerant(scope), shared)
            for told in _list(within, "logRecords"):
                allowance.take()
                yield _tried(told), around


def _tried(told: Any) -> GuestRecord | BadRecord:
    try:
        return _record(_object(told, "it"))
    except BadRecord as bad:
        return bad
    except ValueError as error:
        return BadRecord(str(error))


def _record(told: dict[str, Any]) -> GuestRecord:
    attributes = _list(told, "attributes")
    dropped = max(0, _integer(told.get("droppedAttributesCount"), "droppedAttributesCount"))
    severity = told.get("severityNumber")
    if isinstance(severity, str) and severity.startswith("SEVERITY_NUMBER_"):
        severity = _SEVERITIES.get(severity, 0)
    return GuestRecord(
        _integer(told.get("timeUnixNano"), "timeUnixNano"),
        _integer(told.get("observedTimeUnixNano"), "observedTimeUnixNano"),
        severity=_integer(severity, "severityNumber"),
        severity_text=_word(told, "severityText"),
        body=_value(told.get("body")),
        attributes=_pairs(attributes[:ATTRIBUTES]),
        dropped=dropped + max(0, len(attributes) - ATTRIBUTES),
        trace_id=_id(told, "traceId", 32),
        span_id=_id(told, "spanId", 16),
        event_name=_word(told, "eventName"),
    )


def _value(told: Any, depth: int = 0) -> Value:
    """Return what an AnyValue holds: the first of its fields that is there."""
    if depth > DEPTH:
        raise BadRecord("it is nested too deeply")
    for kind, inner in _object(told, "a value").items():
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
                raise BadRecord(f"{kind} is {_kind(inner)}")
    return None


def _pairs(told: list[Any], depth: int = 0) -> Pairs:
    pairs = [_object(one, "an attribute") for one in told]
    return [(_word(pair, "key"), _value(pair.get("value"), depth)) for pair in pairs]


def _tolerant(told: dict[str, Any]) -> Pairs:
    """Return the attributes of a resource or scope; malformed ones are left out."""
    try:
        return _pairs(_list(told, "attributes")[:ATTRIBUTES])
    except (BadRecord, ValueError):
        return ()


def _object(told: Any, name: str) -> dict[str, Any]:
    if told is None:
        return {}
    if isinstance(told, dict):
        return told
    raise ValueError(f"{name} is {_kind(told)}, not an object")


def _list(told: dict[str, Any], name: str) -> list[Any]:
    found = told.get(name)
    if found is None:
        return []
    if isinstance(found, list):
        return found
    raise ValueError(f"{name} is {_kind(found)}, not an array")


def _word(told: dict[str, Any], name: str) -> str:
    found = told.get(name)
    if found is None:
        return ""
    if isinstance(found, str):
        return found
    raise BadRecord(f"{name} is {_kind(found)}, not a string")


def _optional_word(told: dict[str, Any], name: str) -> str:
    found = told.get(name)
    return found if isinstance(found, str) else ""


def _integer(told: Any, name: str) -> int:
    """Return a number of at most 64 bits, which may be written as text."""
    try:
        number = 0 if told is None else int(told)
    except (TypeError, ValueError, OverflowError):
        raise BadRecord(f"{name} is not a number") from None
    if isinstance(told, bool) or (isinstance(told, float) and number != told):
        raise BadRecord(f"{name} is not a whole number")
    if not -(2**63) <= number < 2**64:
        raise BadRecord(f"{name} does not fit in 64 bits")
    return number


def _double(told: Any) -> float:
    if isinstance(told, (int, float, str)) and not isinstance(told, bool):
        try:
            return float(told)
        except (ValueError, OverflowError):
            pass
    raise BadRecord("doubleValue is not a number")


def _bytes(told: str) -> bytes:
    """Return what base64 says, in either of its alphabets and with or without padding."""
    plain = told.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise BadRecord("bytesValue is not base64") from None


def _id(told: dict[str, Any], name: str, length: int) -> str:
    """Return an id in lower case; one that is not valid counts as none, as the data model says."""
    found = _word(told, name).lower()
    valid = len(found) == length and not found.strip("0123456789abcdef") and found.strip("0")
    return found if valid else ""


def _kind(told: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return names.get(type(told), "a number")
