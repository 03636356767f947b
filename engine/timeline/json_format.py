"""JSON form of records, as `svc logs --json` prints and the control API sends it, and its parser.

The fields are documented and stable.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from engine.grant import Grant
from engine.timeline.record import LineRecord, PlatformRecord, Record, RequestRecord, StructuredRecord, level
from engine.timeline.stored_record import StoredRecord
from engine.trace import Call, span_ids

_REQUEST_FIELDS = [
    field.name for field in fields(RequestRecord) if field.name not in ("time_ns", "calls", "calls_omitted")
]
_CALL_FIELDS = ("kind", "name", "start_ns", "wall_ns", "status", "code")


def to_json(entry: StoredRecord, *, calls: bool = True) -> dict[str, Any]:
    """Return a record's fields: times in RFC 3339 (UTC), durations in nanoseconds, sizes in bytes.

    `calls` includes the calls of a request.
    """
    record = entry.record
    head = {
        **({"node": entry.node} if entry.node else {}),
        "cursor": entry.cursor,
        "kind": record_kind(record),
        "time": format_utc(record.time_ns),
        "level": level(record),
        "resource": record.resource,
        "request_id": record.request_id,
    }
    if isinstance(record, RequestRecord):
        inner = {"calls": _calls(record), "calls_omitted": record.calls_omitted} if calls else {}
        return head | {
            "trace_id": record.trace_id,
            "span_id": record.span_id,
            "parent": record.parent,
            "root": record.root,
            "method": record.method,
            "target": record.target,
            "status": record.status,
            "code": record.code,
            "detail": record.detail,
            "wall_ns": record.wall_ns,
            "compute_ns": record.compute_ns,
            "peak_memory": record.peak_memory,
            "bytes_in": record.bytes_in,
            "bytes_out": record.bytes_out,
            **inner,
        }
    if isinstance(record, StructuredRecord):
        span = {"trace_id": record.trace_id, "span_id": record.span_id}
        return head | span | {"body": record.body, "attributes": dict(record.attributes)}
    body = head | {"body": record.text}
    if isinstance(record, PlatformRecord):
        return body | {"grant": None if record.grant is None else record.grant.to_json()}
    return body


def _calls(record: RequestRecord) -> list[dict[str, Any]]:
    """Return the calls of a request. The parent of a call is the request's span, or another call."""
    ids = span_ids(record.span_id, record.calls)
    return [
        {
            "span_id": span_id,
            "parent": ids[call.parent] if call.parent >= 0 else record.span_id,
            "kind": call.kind,
            "name": call.name,
            "start_ns": call.start_ns,
            "wall_ns": call.wall_ns,
            "status": call.status,
            "code": call.code,
            "attributes": dict(call.details or {}),
        }
        for span_id, call in zip(ids, record.calls, strict=True)
    ]


def _calls_of(documents: Sequence[Mapping[str, Any]]) -> tuple[Call, ...]:
    indexes = {document["span_id"]: index for index, document in enumerate(documents)}
    return tuple(
        Call(
            **{name: document[name] for name in _CALL_FIELDS},
            details=document["attributes"] or None,
            parent=indexes.get(document["parent"], -1),
            span_id=document["span_id"] if document["kind"] == "span" else "",
        )
        for document in documents
    )


def record_kind(record: Record) -> str:
    """Return the kind of a record: request, structured, stdout, stderr or platform."""
    if isinstance(record, RequestRecord):
        return "request"
    if isinstance(record, StructuredRecord):
        return "structured"
    return record.stream if isinstance(record, LineRecord) else "platform"


def format_utc(time_ns: int) -> str:
    """Return a time as `2026-11-21T15:03:10.123456789Z`."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def from_json(document: Mapping[str, Any]) -> StoredRecord:
    """Return the record of a JSON document. Raises `KeyError`, `ValueError` or `TypeError` if invalid."""
    time_ns, resource, request = parse_utc(document["time"]), document["resource"], document["request_id"]
    record: Record
    match document["kind"]:
        case "request":
            record = RequestRecord(
                time_ns=time_ns,
                **{name: document[name] for name in _REQUEST_FIELDS},
                calls=_calls_of(document.get("calls", ())),
                calls_omitted=document.get("calls_omitted", 0),
            )
        case "structured":
            record = StructuredRecord(
                time_ns=time_ns,
                request_id=request,
                trace_id=document["trace_id"],
                span_id=document["span_id"],
                resource=resource,
                severity=document["level"],
                body=document["body"],
                attributes=dict(document["attributes"]),
            )
        case "stdout" | "stderr" as stream:
            record = LineRecord(time_ns, request, resource, stream, document["body"])
        case "platform":
            grant = document.get("grant")
            allowed = None if grant is None else Grant.from_json(grant)
            record = PlatformRecord(
                time_ns, resource, document["level"], document["body"], request, grant=allowed
            )
        case other:
            raise ValueError(other)
    return StoredRecord(int(document["cursor"]), record, document.get("node", ""))


def parse_utc(text: str) -> int:
    """Return the nanoseconds since 1970, at most 64 bits, of a time of `format_utc`. Raises `ValueError`."""
    seconds, _, rest = text.removesuffix("Z").partition(".")
    moment = datetime.strptime(seconds, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    time_ns = int(moment.timestamp()) * 1_000_000_000 + int(rest[:9].ljust(9, "0"))
    if not 0 <= time_ns < 1 << 64:
        raise ValueError("a time before 1970 or after 2554")
    return time_ns
