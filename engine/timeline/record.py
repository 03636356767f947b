"""Records of the timeline: their types and severity, their rows in the file, and their JSON.

`svc logs --json` prints the JSON and the control API sends it. Its fields are documented and stable.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Literal, NamedTuple, get_args

from engine.door import Severity
from engine.grant import Grant
from engine.measurement import Series
from engine.trace import Call, span_ids

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""In ascending order."""
BUILT = "built in"
"""Beginning of the text of a platform record about a build."""
INTERRUPTED = frozenset({"aborted", "client-gone", "stopping"})
"""Outcomes of requests that ended early without a failure of the guest."""
_NO_FAILURES = INTERRUPTED | {"", "body-too-large", "not-found", "unknown-host"}


@dataclass(slots=True)
class RequestRecord:
    """One span: a request as seen by one resource. Written when the span ends, and not changed after it.

    It is not frozen, because a frozen dataclass takes three times as long to create.

    A call dispatched through a mount is a span of its own. It has the same `request_id` and `trace_id`, its
    `parent` is the front's `span_id`, and it is written before the front's span. `root` marks the span
    started by the client's request; its `parent` is the client's own span, or empty. `time_ns` is the start
    (Unix epoch); `code` is the platform's error code or empty; `target` is path and query. `calls` are those
    that the resource's code made, and `calls_omitted` counts further ones.
    """

    time_ns: int
    request_id: str
    _: KW_ONLY
    resource: str
    trace_id: str
    span_id: str
    parent: str
    root: bool = True
    method: str
    target: str
    status: int
    code: str
    detail: str
    wall_ns: int
    compute_ns: int
    peak_memory: int | None
    bytes_in: int
    bytes_out: int
    calls: tuple[Call, ...] = ()
    calls_omitted: int = 0


@dataclass(frozen=True, slots=True)
class LineRecord:
    """One line printed by a guest, without its newline.

    `trace_id` and `span_id` are those of the request at the resource. They are not stored.
    """

    time_ns: int
    request_id: str
    resource: str
    stream: Literal["stdout", "stderr"]
    text: str
    _: KW_ONLY
    trace_id: str = field(default="", compare=False)
    span_id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class PlatformRecord:
    """An event of the platform: a build, a denied call, a limit. `grant` allows what was denied."""

    time_ns: int
    resource: str
    level: Severity
    text: str
    request_id: str = ""
    _: KW_ONLY
    grant: Grant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredRecord:
    """One log record sent by a guest. `time_ns` is the guest's own timestamp (Unix epoch)."""

    time_ns: int
    request_id: str
    trace_id: str
    span_id: str
    resource: str
    severity: Severity
    body: str
    attributes: Mapping[str, str]


Record = RequestRecord | LineRecord | PlatformRecord | StructuredRecord


def severity(text: str) -> Severity | None:
    """Return the level of a case-insensitive name, `None` if it is unknown."""
    return next((severity for severity in SEVERITIES if severity == text.upper()), None)


def level(record: Record) -> Severity:
    """Return a record's level: ERROR for a failed request, WARN for a line on stderr."""
    if isinstance(record, RequestRecord):
        return "ERROR" if failed(record) else "INFO"
    if isinstance(record, LineRecord):
        return "WARN" if record.stream == "stderr" else "INFO"
    return record.level if isinstance(record, PlatformRecord) else record.severity


def failed(record: RequestRecord) -> bool:
    """Return whether a request failed for a reason other than its client."""
    return record.status >= 500 or record.code not in _NO_FAILURES


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


class Origin(NamedTuple):
    """Texts about the service that recorded a record, or empty; fields of files, JSON and SQL."""

    region: str = ""


_NO_ORIGIN = Origin()


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record with its cursor in the timeline. Cursors only increase.

    `node` is the node of a fleet that recorded it, or empty.
    """

    cursor: int
    record: Record
    node: str = ""
    origin: Origin = _NO_ORIGIN


def encode(record: Record, origin: Origin = _NO_ORIGIN) -> tuple[Any, ...]:
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
            *origin,
        )
    if isinstance(record, StructuredRecord):
        time_ns, kind, body = min(max(record.time_ns, 0), _LATEST), "structured", _text(record.body)
        span: tuple[str, str, str | None] = (record.trace_id, record.span_id, _attributes(record))
    else:
        kind = record.stream if isinstance(record, LineRecord) else "platform"
        grant = record.grant if isinstance(record, PlatformRecord) else None
        time_ns, body = record.time_ns, _text(record.text)
        # Of a longer line, as many characters as fit.
        own = None if grant is None else {**grant.to_json(), "line": grant.line[:MAX_LINE_CHARS]}
        span = ("", "", None if own is None else _text(_encode(own)))
    head = (time_ns, kind, number, record.resource, record.request_id, body)
    return (*head, *span, *_NO_REQUEST, *origin)


def decode(cursor: int, row: Sequence[Any], node: str = "") -> StoredRecord:
    """Return the record of a row, given the values of `FIELDS`; an error record for corrupt values."""
    try:
        own = len(row) - len(Origin._fields)
        return StoredRecord(cursor, _decode(row[:own]), node, Origin(*row[own:]))
    except (KeyError, TypeError, ValueError, RecursionError):
        time_ns = row[0] if type(row[0]) is int else 0
        return StoredRecord(cursor, PlatformRecord(time_ns, "", "ERROR", "this record is corrupt"), node)


def _decode(row: Sequence[Any]) -> Record:
    time_ns, kind, number, resource, request_id, body, trace_id, span_id, attributes, *request = row
    if kind != "request":
        details = None if attributes is None else json.loads(attributes)
        ids = request_id, trace_id, span_id
        return _log_record(kind, time_ns, _SEVERITIES[number], resource, ids, body, details)
    parent, root, *values = request
    calls, omitted = ((), 0) if attributes is None else _decode_calls(attributes)
    return RequestRecord(
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


def _log_record(
    kind: Any, time_ns: int, severity: Severity, resource: str, ids: Sequence[str], body: str, details: Any
) -> Record:
    """Return a record other than a request: `ids` are those of its request, its trace and its span.

    `details` are its attributes, or its grant.
    """
    request_id, trace_id, span_id = ids
    if kind == "structured":
        return StructuredRecord(
            time_ns=time_ns,
            request_id=request_id,
            trace_id=trace_id,
            span_id=span_id,
            resource=resource,
            severity=severity,
            body=body,
            attributes=dict(details),
        )
    if kind == "platform":
        grant = None if details is None else Grant.from_json(details)
        return PlatformRecord(time_ns, resource, severity, body, request_id, grant=grant)
    if kind not in ("stdout", "stderr"):
        raise ValueError(kind)
    return LineRecord(time_ns, request_id, resource, kind, body)


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
    return encodable(text)


def encodable(text: str) -> str:
    """Return a text without lone surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode(errors="replace").decode()


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
    return encodable(_encode([record.calls_omitted, calls]))


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


_SPAN_FIELDS = tuple(field.name for field in fields(RequestRecord))[3:-2]
"""Members of a request in the order of its fields: without time, ids of all records, and calls."""
_span_values = attrgetter(*_SPAN_FIELDS)
_CALL_FIELDS = ("kind", "name", "start_ns", "wall_ns", "status", "code")
_KINDS = {RequestRecord: "request", StructuredRecord: "structured", PlatformRecord: "platform"}


def to_json(entry: StoredRecord, *, calls: bool = True) -> dict[str, Any]:
    """Return a record's fields: times in RFC 3339 (UTC), durations in nanoseconds, sizes in bytes.

    `calls` includes the calls of a request.
    """
    record = entry.record
    head = {
        **{name: text for name, text in (("node", entry.node), *entry.origin._asdict().items()) if text},
        "cursor": entry.cursor,
        "kind": record.stream if isinstance(record, LineRecord) else _KINDS[type(record)],
        "time": format_utc(record.time_ns),
        "level": level(record),
        "resource": record.resource,
        "request_id": record.request_id,
    }
    if isinstance(record, RequestRecord):
        inner = {"calls": _call_documents(record), "calls_omitted": record.calls_omitted} if calls else {}
        return head | dict(zip(_SPAN_FIELDS, _span_values(record), strict=True)) | inner
    if isinstance(record, StructuredRecord):
        span = {"trace_id": record.trace_id, "span_id": record.span_id}
        return head | span | {"body": record.body, "attributes": dict(record.attributes)}
    body = head | {"body": record.text}
    if isinstance(record, PlatformRecord):
        return body | {"grant": None if record.grant is None else record.grant.to_json()}
    return body


def _call_documents(record: RequestRecord) -> list[dict[str, Any]]:
    """Return the calls of a request. The parent of a call is the request's span, or another call."""
    ids = span_ids(record.span_id, record.calls)
    return [
        {
            "span_id": span_id,
            "parent": ids[call.parent] if call.parent >= 0 else record.span_id,
            **{name: getattr(call, name) for name in _CALL_FIELDS},
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


def utc(seconds: float) -> str:
    """Return a time, in seconds of the Unix epoch, as `2026-11-21T15:03:10Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_utc(time_ns: int) -> str:
    """Return a time as `2026-11-21T15:03:10.123456789Z`."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def from_json(document: Mapping[str, Any]) -> StoredRecord:
    """Return the record of a JSON document. Raises `KeyError`, `ValueError` or `TypeError` if invalid."""
    time_ns, resource, request = parse_utc(document["time"]), document["resource"], document["request_id"]
    record: Record
    if (kind := document["kind"]) == "request":
        record = RequestRecord(
            time_ns=time_ns,
            request_id=request,
            resource=resource,
            **{name: document[name] for name in _SPAN_FIELDS},
            calls=_calls_of(document.get("calls", ())),
            calls_omitted=document.get("calls_omitted", 0),
        )
    else:
        ids, details = ("", ""), document.get("grant")
        if kind == "structured":
            ids, details = (document["trace_id"], document["span_id"]), document["attributes"]
        own = request, *ids
        record = _log_record(kind, time_ns, document["level"], resource, own, document["body"], details)
    origin = Origin(**{name: document.get(name, "") for name in Origin._fields})
    return StoredRecord(int(document["cursor"]), record, document.get("node", ""), origin)


def parse_utc(text: str) -> int:
    """Return the nanoseconds since 1970, at most 64 bits, of a time of `format_utc`. Raises `ValueError`."""
    seconds, _, rest = text.removesuffix("Z").partition(".")
    moment = datetime.strptime(seconds, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    time_ns = int(moment.timestamp()) * 1_000_000_000 + int(rest[:9].ljust(9, "0"))
    if not 0 <= time_ns < 1 << 64:
        raise ValueError("a time before 1970 or after 2554")
    return time_ns
