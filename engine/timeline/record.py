"""Records of the timeline: their types and severity, their rows in the file, and the documents of rows.

A document is a record outside of the engine: the control API sends it, `svc logs --json` prints it, and lines
and screens show it. Its members are documented and stable.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, NamedTuple, get_args

from engine.door import Severity
from engine.grant import Grant
from engine.measurement import Series
from engine.trace import Call, call_id

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
Document = dict[str, Any]
"""A record as JSON, with its cursor in the timeline. Cursors only increase."""


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
_request_values = attrgetter(
    "status", "code", "wall_ns", "compute_ns", "peak_memory", "bytes_in", "bytes_out"
)
SPAN_FIELDS = tuple(field.name for field in fields(RequestRecord))[3:-2]
"""Members of a request in the order of its fields: without time, ids of all records, and calls."""
CALL_FIELDS = ("kind", "name", "start_ns", "wall_ns", "status", "code")
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_call_values = attrgetter("start_ns", "wall_ns", "status", "code", "parent")


class Origin(NamedTuple):
    """Texts about the service that recorded a record, or empty; fields of files, JSON and SQL."""

    region: str = ""


_NO_ORIGIN = Origin()


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


def document(cursor: int, row: Sequence[Any], node: str = "", *, calls: bool = True) -> Document:
    """Return the document of a row, given the values of `FIELDS`; that of an error for corrupt values.

    `node` is the node of a fleet that recorded it, or empty. `calls` includes the calls of a request. Times
    are RFC 3339 (UTC), durations are in nanoseconds, sizes in bytes.
    """
    try:
        return _document(cursor, row, node, calls=calls)
    except (LookupError, TypeError, ValueError, RecursionError):
        time_ns = row[0] if type(row[0]) is int else 0
        corrupt = PlatformRecord(time_ns, "", "ERROR", "this record is corrupt")
        return _document(cursor, encode(corrupt), node, calls=calls)


def _document(cursor: int, row: Sequence[Any], node: str, *, calls: bool) -> Document:
    time_ns, kind, number, resource, request_id, body, trace_id, span_id, attributes, *request = row
    origin = request[-len(_NO_ORIGIN) :]
    result: Document = {"node": node} if node else {}
    result |= {name: text for name, text in zip(Origin._fields, origin, strict=True) if text}
    result |= {
        "cursor": cursor,
        "kind": kind,
        "time": format_utc(time_ns),
        "level": _SEVERITIES[number],
        "resource": resource,
        "request_id": request_id,
    }
    if kind == "request":
        parent, root, method, target, status, code, *meters = request[: -len(origin)]
        head = (trace_id, span_id, parent, bool(root), method, target, status, code, body)
        result |= zip(SPAN_FIELDS, (*head, *meters), strict=True)
        if calls:
            omitted, items = (0, ()) if attributes is None else json.loads(attributes)
            result |= {"calls": _call_documents(span_id, items), "calls_omitted": omitted}
        return result
    if kind == "structured":
        result |= {"trace_id": trace_id, "span_id": span_id}
    result["body"] = body
    if kind == "structured":
        result["attributes"] = dict(json.loads(attributes))
    elif kind == "platform":
        result["grant"] = None if attributes is None else json.loads(attributes)
    elif kind not in ("stdout", "stderr"):
        raise ValueError(kind)
    return result


def _call_documents(span_id: str, calls: Sequence[Sequence[Any]]) -> list[Document]:
    """Return the calls of a request. The parent of a call is the request's span, or another call."""
    ids = [call[8] if len(call) > 8 else call_id(span_id, index) for index, call in enumerate(calls)]
    return [
        {
            "span_id": own,
            "parent": ids[parent] if parent >= 0 else span_id,
            **dict(zip(CALL_FIELDS, values, strict=True)),
            "attributes": details,
        }
        for own, (*values, parent, details) in zip(ids, (call[:8] for call in calls), strict=True)
    ]


def searchable(row: Sequence[Any]) -> str:
    """Return the text of a row: method, target, status, code and detail, or body and attributes."""
    _, kind, _, _, _, body, _, _, attributes, _, _, method, target, status, code, *_ = row
    if kind == "request":
        return " ".join(word for word in (method, target, str(status), code, body) if word)
    if kind == "structured":
        return " ".join((body, *(f"{key}={value}" for key, value in json.loads(attributes).items())))
    return str(body)


def searchable_document(document: Mapping[str, Any]) -> str:
    """Return the text of a document, which is that of its row."""
    if document["kind"] == "request":
        names = ("method", "target", "status", "code", "detail")
        return " ".join(filter(None, (str(document[name]) for name in names)))
    attributes = document.get("attributes", {}).items()
    return " ".join((document["body"], *(f"{key}={value}" for key, value in attributes)))


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


@lru_cache(maxsize=64)
def utc(seconds: float) -> str:
    """Return a time, in seconds of the Unix epoch, as `2026-11-21T15:03:10Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_utc(time_ns: int) -> str:
    """Return a time as `2026-11-21T15:03:10.123456789Z`."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{utc(seconds)[:-1]}.{rest:09}Z"


def parse_utc(text: str) -> int:
    """Return the nanoseconds since 1970, at most 64 bits, of a time of `format_utc`. Raises `ValueError`."""
    seconds, _, rest = text.removesuffix("Z").partition(".")
    time_ns = _seconds(seconds) * 1_000_000_000 + int(rest[:9].ljust(9, "0"))
    if not 0 <= time_ns < 1 << 64:
        raise ValueError("a time before 1970 or after 2554")
    return time_ns


@lru_cache(maxsize=64)
def _seconds(text: str) -> int:
    return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC).timestamp())
