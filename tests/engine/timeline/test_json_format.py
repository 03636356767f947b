"""Records round-trip through their JSON form."""

import json

import pytest

from engine.timeline.json_format import from_json, to_json
from engine.timeline.record import LineRecord, PlatformRecord, Record, RequestRecord, StructuredRecord
from engine.timeline.stored_record import StoredRecord

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
    ],
)
def test_record_round_trips_through_json(record: Record) -> None:
    before = StoredRecord(7, record)
    assert from_json(json.loads(json.dumps(to_json(before)))) == before


@pytest.mark.parametrize("wrong", [{}, {"kind": "other"}, {"kind": "stdout", "time": "now"}])
def test_invalid_document_raises(wrong: dict[str, str]) -> None:
    with pytest.raises((KeyError, ValueError, TypeError)):
        from_json(wrong)
