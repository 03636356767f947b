"""Records round-trip through their JSON form."""

import json
from dataclasses import replace

import pytest

from engine.grant import Grant
from engine.timeline.record import (
    MAX_LINE_CHARS,
    LineRecord,
    PlatformRecord,
    Record,
    RequestRecord,
    StructuredRecord,
    encode,
    searchable,
    searchable_document,
)
from engine.trace import MAX_CALLS, MAX_NAME_CHARS, Call
from tests.engine.timeline.records import LINE, PLATFORM, REQUEST, STRUCTURED, record_of, stored

TIME = 1_700_000_000_123_456_789


@pytest.mark.parametrize(
    "record",
    [
        RequestRecord(
            time_ns=TIME,
            request_id="r",
            trace_id="t",
            span_id="s",
            parent="p",
            resource="web",
            method="GET",
            target="/ü?x",
            status=200,
            code="",
            detail="",
            wall_ns=5,
            compute_ns=3,
            peak_memory=None,
            bytes_in=1,
            bytes_out=2,
            root=False,
        ),
        RequestRecord(
            time_ns=TIME,
            request_id="r",
            trace_id="t",
            span_id="s",
            parent="",
            resource="web",
            method="GET",
            target="/",
            status=500,
            code="x",
            detail="d",
            wall_ns=5,
            compute_ns=3,
            peak_memory=1 << 20,
            bytes_in=1,
            bytes_out=2,
            root=True,
        ),
        replace(
            REQUEST,
            span_id="00f067aa0ba902b7",
            calls=(
                Call(
                    "sql",
                    "batch of 1",
                    1,
                    wall_ns=20,
                    status=200,
                    details={"rows": 2, "transaction": "write"},
                ),
                Call("sql", "select 1", 3, wall_ns=4, parent=0),
                Call("fetch", "GET https://a.test", 30, wall_ns=4, code="canceled", parent=3),
                Call("span", "load", 29, wall_ns=6, details={"span.kind": "client"}, span_id="a" * 16),
            ),
            calls_omitted=7,
        ),
        StructuredRecord(
            time_ns=TIME,
            request_id="r",
            trace_id="t",
            span_id="s",
            resource="web",
            severity="FATAL",
            body="body",
            attributes={"a": "1"},
        ),
        LineRecord(0, "r", "web", "stdout", "printed"),
        LineRecord(TIME, "r", "web", "stderr", "complained"),
        PlatformRecord(TIME, "", "WARN", "said", "r"),
        PlatformRecord(TIME, "api", "WARN", "denied", "r", grant=Grant.mount("web", "/api/*", "api")),
        PlatformRecord(TIME, "", "WARN", "full", grant=Grant("quota", "svc quota set shop --egress N")),
    ],
)
def test_record_round_trips_through_json(record: Record) -> None:
    document = stored(record, 7)
    assert document["cursor"] == 7
    assert record_of(json.loads(json.dumps(document))) == record


def test_calls_with_long_names_are_stored_shortened() -> None:
    calls = tuple(Call("sql", "\ud800" + "\x01" * (MAX_NAME_CHARS - 1), 1) for _ in range(MAX_CALLS))
    document = stored(replace(REQUEST, span_id="00f067aa0ba902b7", calls=calls))
    assert len(document["calls"]) == MAX_CALLS
    assert {len(call["name"]) for call in document["calls"]} == {80}


def test_long_line_of_a_grant_is_stored_shortened() -> None:
    grant = Grant.egress("api", "https://a.test", "egress = [" + "x" * 100_000)
    document = stored(PlatformRecord(TIME, "api", "WARN", "denied", grant=grant))
    assert len(document["grant"]["line"]) == MAX_LINE_CHARS and document["grant"]["edit"] == grant.edit


def test_text_to_search_is_that_of_the_row() -> None:
    for record in (REQUEST, replace(REQUEST, code="x", detail="why"), STRUCTURED, LINE, PLATFORM):
        assert searchable_document(stored(record)) == searchable(encode(record))
