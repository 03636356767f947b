"""Row format of records in the timeline's file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from engine.door import Severity
from engine.grant import Grant
from engine.measurement import Series
from engine.timeline.record import (
    SEVERITIES,
    LineRecord,
    PlatformRecord,
    Record,
    RequestRecord,
    StructuredRecord,
    level,
)
from engine.trace import Call

SEVERITY_NUMBERS: dict[Severity, int] = {severity: 1 + 4 * i for i, severity in enumerate(SEVERITIES)}
"""OpenTelemetry's severity numbers: 1, 5, 9, 13, 17, 21."""
MAX_CALL_BYTES = 384 << 10
"""Maximum bytes of the calls of a request; above it, their names are cut to `MAX_CUT_NAME_CHARS`."""
MAX_CUT_NAME_CHARS = 80
MAX_LINE_CHARS = 16_384
"""Maximum length of the line of a grant."""
MAX_TEXT_CHARS = 65_536
"""Maximum length of a stored body, and of all attributes of a record together."""

_SEVERITIES = {number: severity for severity, number in SEVERITY_NUMBERS.items()}
_LATEST = (1 << 63) - 1
_NO_REQUEST = (None,) * 11
_VALUE_FIELDS = ("status", "code", "wall_ns", "compute_ns", "peak_memory", "bytes_in", "bytes_out")
_REQUEST_FIELDS = ("method", "target", *_VALUE_FIELDS)
_request_values = attrgetter(*_VALUE_FIELDS)
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_call_values = attrgetter("start_ns", "wall_ns", "status", "code", "parent")


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record with its cursor in the timeline. Cursors only increase.

    `node` is the node of a fleet that recorded it, or empty.
    """

    cursor: int
    record: Record
    node: str = ""


def encode(record: Record) -> tuple[Any, ...]:
    """Return the values of `FIELDS`."""
    number = SEVERITY_NUMBERS[level(record)]
    if isinstance(record, RequestRecord):
        return (
            record.time_ns,
            "request",
            number,
            record.resource,
            record.request_id,
            _text(record.detail),
            record.trace_id,
            record.span_id,
            _calls(record) if record.calls or record.calls_omitted else None,
            record.parent,
            int(record.root),
            _text(record.method),
            _text(record.target),
            *_request_values(record),
        )
    if isinstance(record, StructuredRecord):
        time_ns, kind, body = min(max(record.time_ns, 0), _LATEST), "structured", _text(record.body)
        span: tuple[str, str, str | None] = (record.trace_id, record.span_id, _attributes(record))
    else:
        kind = record.stream if isinstance(record, LineRecord) else "platform"
        grant = record.grant if isinstance(record, PlatformRecord) else None
        time_ns, body = record.time_ns, _text(record.text)
        span = ("", "", None if grant is None else _grant(grant))
    return (time_ns, kind, number, record.resource, record.request_id, body, *span, *_NO_REQUEST)


def decode(cursor: int, row: Sequence[Any], node: str = "") -> StoredRecord:
    """Return the record of a row, given the values of `FIELDS`; an error record for corrupt values."""
    try:
        return StoredRecord(cursor, _decode(row), node)
    except (KeyError, TypeError, ValueError, RecursionError):
        time_ns = row[0] if type(row[0]) is int else 0
        return StoredRecord(cursor, PlatformRecord(time_ns, "", "ERROR", "this record is corrupt"), node)


def _decode(row: Sequence[Any]) -> Record:
    time_ns, kind, number, resource, request_id, body, trace_id, span_id, attributes, *request = row
    severity = _SEVERITIES[number]
    record: Record
    if kind == "request":
        parent, root, *values = request
        calls, omitted = ((), 0) if attributes is None else _decode_calls(attributes)
        record = RequestRecord(
            time_ns=time_ns,
            request_id=request_id,
            trace_id=trace_id,
            span_id=span_id,
            parent=parent,
            resource=resource,
            detail=body,
            root=bool(root),
            calls=calls,
            calls_omitted=omitted,
            **dict(zip(_REQUEST_FIELDS, values, strict=True)),
        )
    elif kind == "structured":
        record = StructuredRecord(
            time_ns=time_ns,
            request_id=request_id,
            trace_id=trace_id,
            span_id=span_id,
            resource=resource,
            severity=severity,
            body=body,
            attributes=json.loads(attributes),
        )
    elif kind == "platform":
        grant = None if attributes is None else Grant.from_json(json.loads(attributes))
        record = PlatformRecord(time_ns, resource, severity, body, request_id, grant=grant)
    else:
        record = LineRecord(time_ns, request_id, resource, kind, body)
    return record


def searchable(row: Sequence[Any]) -> str:
    """Return the text of a row: method, target, status, code and detail, or body and attributes."""
    _, kind, _, _, _, body, _, _, attributes, _, _, method, target, status, code, *_ = row
    if kind == "request":
        return " ".join(word for word in (method, target, str(status), code, body) if word)
    if kind == "structured":
        return " ".join((body, *(f"{key}={value}" for key, value in json.loads(attributes).items())))
    return str(body)


def encode_series(series: Series) -> tuple[Any, ...]:
    """Return the values of the table `metric`."""
    last = series.last
    histogram = last.kind == "histogram"
    return (
        _text(series.resource),
        _text(last.name),
        last.kind,
        _encode({_text(key): _text(text) for key, text in last.attributes}),
        _text(last.unit),
        _text(last.description),
        series.since_ns,
        series.time_ns,
        series.value,
        _encode(last.bounds) if histogram else None,
        _encode(series.counts) if histogram else None,
    )


def _text(text: str) -> str:
    """Return a storable text: of bounded length and without lone surrogates."""
    if len(text) > MAX_TEXT_CHARS:
        text = text[:MAX_TEXT_CHARS] + "…"
    return text if text.isascii() else text.encode(errors="replace").decode()


def _grant(grant: Grant) -> str:
    """Return a grant as JSON. A longer line has as many characters as fit."""
    return _text(_encode({**grant.to_json(), "line": grant.line[:MAX_LINE_CHARS]}))


def _calls(record: RequestRecord) -> str:
    """Return the calls of a request as JSON: the number of omitted ones, and the fields of each."""
    text = _calls_json(record, None)
    size = len(text) if text.isascii() else len(text.encode())
    return text if size <= MAX_CALL_BYTES else _calls_json(record, MAX_CUT_NAME_CHARS)


def _calls_json(record: RequestRecord, name_chars: int | None) -> str:
    calls = [
        (
            each.kind,
            each.name[:name_chars],
            *_call_values(each),
            each.details or {},
            *((each.span_id,) if each.span_id else ()),
        )
        for each in record.calls
    ]
    text = _encode([record.calls_omitted, calls])
    return text if text.isascii() else text.encode(errors="replace").decode()


def _decode_calls(text: str) -> tuple[tuple[Call, ...], int]:
    omitted, calls = json.loads(text)
    decoded = []
    for kind, name, start_ns, wall_ns, status, code, parent, details, *ids in calls:
        call = Call(kind, name, start_ns, wall_ns=wall_ns, status=status, code=code, parent=parent)
        call.details = details or None
        call.span_id = ids[0] if ids else ""
        decoded.append(call)
    return tuple(decoded), int(omitted)


def _attributes(record: StructuredRecord) -> str:
    """Return attributes as JSON; those beyond the limit are omitted and counted."""
    attributes: dict[str, str] = {}
    remaining_chars, remaining_count = MAX_TEXT_CHARS, len(record.attributes)
    for key, value in record.attributes.items():
        remaining_chars -= len(key) + len(value)
        if remaining_chars < 0:
            attributes["…"] = f"{remaining_count} more"
            break
        attributes[_text(key)] = _text(value)
        remaining_count -= 1
    return json.dumps(attributes, ensure_ascii=False)
