"""Records come back from documents as they were."""

import json

import pytest

from engine.timeline.json_format import from_json, to_json
from engine.timeline.record import LineRecord, PlatformRecord, Record, RequestRecord, StructuredRecord
from engine.timeline.stored_record import StoredRecord

TIME = 1_700_000_000_123_456_789


@pytest.mark.parametrize(
    "record",
    [
        RequestRecord(TIME, "r", "t", "s", "p", "web", "GET", "/ü?x", 200, "", "", 5, 3, None, 1, 2, False),
        RequestRecord(TIME, "r", "t", "s", "", "web", "GET", "/", 500, "x", "d", 5, 3, 1 << 20, 1, 2, True),
        StructuredRecord(TIME, "r", "t", "s", "web", "FATAL", "body", {"a": "1"}),
        LineRecord(0, "r", "web", "stdout", "printed"),
        LineRecord(TIME, "r", "web", "stderr", "complained"),
        PlatformRecord(TIME, "", "WARN", "said", "r"),
    ],
)
def test_a_record_is_the_same_again(record: Record) -> None:
    before = StoredRecord(7, record)
    assert from_json(json.loads(json.dumps(to_json(before)))) == before


@pytest.mark.parametrize("wrong", [{}, {"kind": "other"}, {"kind": "stdout", "time": "now"}])
def test_what_is_no_record_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises((KeyError, ValueError, TypeError)):
        from_json(wrong)
