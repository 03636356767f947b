"""Records for the tests of the timeline."""

from typing import Any

from engine.grant import Grant
from engine.timeline.record import (
    CALL_FIELDS,
    SPAN_FIELDS,
    Document,
    LineRecord,
    PlatformRecord,
    Record,
    RequestRecord,
    StructuredRecord,
    document,
    encode,
    parse_utc,
)
from engine.trace import Call

SECOND = 1_000_000_000
BEGAN = 1_790_000_000 * SECOND
REQUEST = RequestRecord(
    time_ns=BEGAN,
    request_id="01id",
    trace_id="trace",
    span_id="span",
    parent="parent",
    resource="web",
    method="GET",
    target="/a?b=c",
    status=200,
    code="",
    detail="",
    wall_ns=5_000_000,
    compute_ns=2_000_000,
    peak_memory=65_536,
    bytes_in=3,
    bytes_out=6,
    root=True,
)
STRUCTURED = StructuredRecord(
    time_ns=BEGAN,
    request_id="01id",
    trace_id="trace",
    span_id="span",
    resource="web",
    severity="WARN",
    body="low",
    attributes={"left": "3", "ü": "日本"},
)
LINE = LineRecord(BEGAN, "01id", "web", "stdout", "hello")
PLATFORM = PlatformRecord(BEGAN, "api", "INFO", "ready")


def line(number: int, resource: str = "web") -> LineRecord:
    return LineRecord(BEGAN + number, "", resource, "stdout", str(number))


def stored(record: Record, cursor: int = 0) -> Document:
    """Return the document of a record that is written and read."""
    return document(cursor, encode(record))


def record_of(document: Document) -> Record:
    """Return the record of a document."""
    kind = document["kind"]
    own: dict[str, Any] = {name: document[name] for name in ("request_id", "resource")}
    own["time_ns"] = parse_utc(document["time"])
    if kind == "request":
        own |= {name: document[name] for name in SPAN_FIELDS}
        indexes = {call["span_id"]: index for index, call in enumerate(document["calls"])}
        calls = tuple(
            Call(
                **{name: call[name] for name in CALL_FIELDS},
                details=call["attributes"] or None,
                parent=indexes.get(call["parent"], -1),
                span_id=call["span_id"] if call["kind"] == "span" else "",
            )
            for call in document["calls"]
        )
        return RequestRecord(**own, calls=calls, calls_omitted=document["calls_omitted"])
    if kind == "structured":
        own |= {name: document[name] for name in ("trace_id", "span_id", "body", "attributes")}
        return StructuredRecord(**own, severity=document["level"])
    own["text"] = document["body"]
    if kind == "platform":
        grant = None if document["grant"] is None else Grant(**document["grant"])
        return PlatformRecord(**own, level=document["level"], grant=grant)
    return LineRecord(**own, stream=kind)
