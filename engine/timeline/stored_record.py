"""A record as a row of the timeline's file, and back. Owns the order of the values and nothing of SQLite."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.door import Severity
from engine.timeline.record import (
    SEVERITIES,
    LineRecord,
    PlatformRecord,
    Record,
    RequestRecord,
    StructuredRecord,
    level,
)

SEVERITY_NUMBERS: dict[Severity, int] = {severity: 1 + 4 * i for i, severity in enumerate(SEVERITIES)}
"""OpenTelemetry's severity numbers: 1, 5, 9, 13, 17, 21."""
MAX_TEXT_CHARS = 65_536
"""Most characters that are kept of one body, and of the attributes of a record together."""

_SEVERITIES = {number: severity for severity, number in SEVERITY_NUMBERS.items()}
_LATEST = (1 << 63) - 1
_NO_REQUEST = (None,) * 11


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record with its place in the timeline. Cursors only grow."""

    cursor: int
    record: Record


def encode(record: Record) -> tuple[Any, ...]:
    """Return the values of `FIELDS`."""
    number = SEVERITY_NUMBERS[level(record)]
    if isinstance(record, RequestRecord):
        return (
            *(record.time_ns, "request", number, record.resource, record.request_id, _text(record.detail)),
            *(record.trace_id, record.span_id, None, record.parent, int(record.root)),
            *(_text(record.method), _text(record.target), record.status, record.code),
            *(record.wall_ns, record.compute_ns, record.peak_memory, record.bytes_in, record.bytes_out),
        )
    if isinstance(record, StructuredRecord):
        body, when = _text(record.body), min(max(record.time_ns, 0), _LATEST)
        said = (when, "structured", number, record.resource, record.request_id, body)
        return (*said, record.trace_id, record.span_id, _attributes(record), *_NO_REQUEST)
    kind = record.stream if isinstance(record, LineRecord) else "platform"
    said = (record.time_ns, kind, number, record.resource, record.request_id, _text(record.text))
    return (*said, "", "", None, *_NO_REQUEST)


def decode(cursor: int, row: Sequence[Any]) -> StoredRecord:
    """Return the record of a row, given the values of `FIELDS`."""
    time_ns, kind, number, resource, request_id, body, trace_id, span_id, attributes, *request = row
    severity = _SEVERITIES[number]
    record: Record
    if kind == "request":
        parent, root, method, target, status, code, wall_ns, compute_ns, peak, bytes_in, bytes_out = request
        record = RequestRecord(
            *(time_ns, request_id, trace_id, span_id, parent, resource),
            *(method, target, status, code, body),
            *(wall_ns, compute_ns, peak, bytes_in, bytes_out),
            bool(root),
        )
    elif kind == "structured":
        given = json.loads(attributes)
        record = StructuredRecord(time_ns, request_id, trace_id, span_id, resource, severity, body, given)
    elif kind == "platform":
        record = PlatformRecord(time_ns, resource, severity, body, request_id)
    else:
        record = LineRecord(time_ns, request_id, resource, kind, body)
    return StoredRecord(cursor, record)


def searchable(row: Sequence[Any]) -> str:
    """Return the text of a row: method, target, status, code and detail, or body and attributes."""
    _, kind, _, _, _, body, _, _, attributes, _, _, method, target, status, code, *_ = row
    if kind == "request":
        return " ".join(word for word in (method, target, str(status), code, body) if word)
    if attributes is not None:
        return " ".join((body, *(f"{key}={value}" for key, value in json.loads(attributes).items())))
    return str(body)


def _text(text: str) -> str:
    """Return a text that can be kept: of bounded length, and without halves of surrogate pairs."""
    if len(text) > MAX_TEXT_CHARS:
        text = text[:MAX_TEXT_CHARS] + "…"
    return text if text.isascii() else text.encode(errors="replace").decode()


def _attributes(record: StructuredRecord) -> str:
    """Return attributes as JSON; those for which there is no room are left out, and counted."""
    kept: dict[str, str] = {}
    room, left = MAX_TEXT_CHARS, len(record.attributes)
    for key, value in record.attributes.items():
        room -= len(key) + len(value)
        if room < 0:
            kept["…"] = f"{left} more"
            break
        kept[_text(key)] = _text(value)
        left -= 1
    return json.dumps(kept, ensure_ascii=False)
