from dataclasses import replace
from datetime import date, timedelta, timezone
from typing import Any

import pytest
from rich.cells import cell_len

from engine.timeline.record import (
    LineRecord,
    PlatformRecord,
    Record,
    RequestRecord,
    StructuredRecord,
)
from screens.logs.format import COLUMNS, highlight, row
from screens.widgets.rows import COLUMN_GAP, fit_cell, layout_columns, merge_empty
from svc_tui.terminal.units import clock, duration
from tests.engine.timeline.records import REQUEST, stored

NOON = 1_795_262_400_000_000_000
MS = 1_000_000
REQUEST_ID = "01m7zb11rc56tzms5mn3b8bkep"
SPAN = replace(
    REQUEST,
    time_ns=NOON,
    request_id=REQUEST_ID,
    method="POST",
    target="/api/entries",
    status=201,
    wall_ns=8_200_000,
    compute_ns=5_100_000,
    peak_memory=3 << 20,
)


def shown(record: Record, *below: RequestRecord, room: int = 120) -> str:
    """Return the row of a record as text."""
    placed = layout_columns(COLUMNS, room)
    cells = row(doc(record), [doc(span) for span in below]).cells
    assert len(cells) == len(COLUMNS)
    line = (" " * COLUMN_GAP).join(
        "".join(text for text, _ in fit_cell(cell, column)) for _, cell, column in merge_empty(cells, placed)
    )
    assert cell_len(line) == room
    return line


def doc(record: Record) -> dict[str, Any]:
    return stored(record, 7)


def tones(record: Record, cell: int) -> list[str]:
    return [tone for _, tone in row(doc(record)).cells[cell]]


def test_row_of_request_shows_target_and_usage() -> None:
    line = " ".join(shown(SPAN).split())
    assert line == f"12:00:00.008 POST web 201 8.2 ms /api/entries 5.1 ms cpu 3.0 MiB {REQUEST_ID[-8:]}"


def test_row_of_mounted_request_shows_route_and_target_usage() -> None:
    target = replace(SPAN, resource="api", wall_ns=8 * MS, compute_ns=7 * MS, peak_memory=4 << 20, root=False)
    front = replace(SPAN, compute_ns=0, peak_memory=None)
    line = shown(front, target)
    assert "web → api" in line and "8.2 ms" in line and "7.0 ms cpu" in line and "4.0 MiB" in line


def narrow(record: Record, room: int = 41, **more: Any) -> str:
    """Return the text cell of a record on a narrow screen."""
    return "".join(text for text, _ in row(doc(record), room=room, **more).cells[3])


def test_narrow_row_shows_status_and_duration_first() -> None:
    assert narrow(SPAN) == "201   8.2 ms  /api/entries  5.1 ms cpu"
    slow = narrow(replace(SPAN, wall_ns=30_000 * MS))
    assert slow.index("/api") == narrow(SPAN).index("/api")


def test_narrow_row_omits_values_that_do_not_fit() -> None:
    full = "201   8.2 ms  /api/entries  5.1 ms cpu  3.0 MiB"
    for room in range(32, 80):
        result = narrow(SPAN, room)
        assert result in (full, full[:38], full[:26])
        assert len(result) <= room
    assert narrow(SPAN, 15) == "201 /api/entries" and narrow(SPAN, 29) == "201 /api/entries  8.2 ms"


def test_highlight_marks_all_matches_only() -> None:
    cell = (("POST", "bold"), (" /api/Entry", ""), ("  entry", "dim"))
    assert highlight(cell, "t /a")[0:3] == (("POS", "bold"), ("T", "match"), (" /a", "match"))
    result = highlight(cell, "ENTRY")
    assert [text for text, tone in result if tone == "match"] == ["Entry", "entry"]
    assert "".join(text for text, _ in result) == "".join(text for text, _ in cell)
    assert "".join(text for text, _ in highlight(cell, ".")) == "".join(text for text, _ in cell)
    many = highlight((("a" * 100_000, ""),), "a")
    assert many[-1][1] == "" and len(many) < 3000 and "".join(text for text, _ in many) == "a" * 100_000


def test_record_of_another_day_shows_date() -> None:
    at = lambda today: row(doc(SPAN), today=today).cells[0][0][0]  # noqa: E731
    assert at(date(2026, 11, 21)) == "12:00:00.008" and at(date(2026, 11, 22)) == "11-21  12:00"


def test_request_numbers_are_aligned() -> None:
    quick = shown(SPAN)
    slow = shown(replace(SPAN, wall_ns=30_000 * MS, compute_ns=0, peak_memory=None, status=504))
    assert quick.index(" ms  ") + 3 == slow.index(" s  ") + 2
    assert quick.index("201") == slow.index("504")


@pytest.mark.parametrize(("status", "tone"), [(204, "good"), (304, "notice"), (404, "warn"), (502, "bad")])
def test_status_tone_depends_on_class(status: int, tone: str) -> None:
    assert tones(replace(SPAN, status=status), 3)[0] == tone


def test_failure_code_precedes_target() -> None:
    failed = replace(SPAN, status=504, code="run-limit", target="/" + "long/" * 50)
    assert "run-limit /long/" in shown(failed)
    assert tones(failed, 1) == ["bad"] and tones(failed, 4)[0] == "bad"
    assert tones(replace(SPAN, code="client-gone"), 4)[0] == "dim"


def test_log_record_shows_severity_text_and_attributes() -> None:
    record = StructuredRecord(
        time_ns=NOON,
        request_id=REQUEST_ID,
        trace_id="",
        span_id="",
        resource="api",
        severity="WARN",
        body="entry saved",
        attributes={"id": "12407", "mood": "rather sunny", "x": ""},
    )
    line = shown(record)
    assert "12:00:00.000  WARN    api" in line
    assert 'entry saved  id=12407 mood="rather sunny" x=""' in line
    assert tones(record, 1) == ["warn"] and tones(record, 4) == ["", "", "dim"]


@pytest.mark.parametrize("level", ["ERROR", "FATAL"])
def test_error_text_has_error_tone(level: Any) -> None:
    assert tones(PlatformRecord(NOON, "api", level, "build failed"), 4)[0] == "bad"


def test_output_line_shows_stream_name() -> None:
    assert "STDOUT  api" in shown(LineRecord(NOON, REQUEST_ID, "api", "stdout", "took 2 ms"))
    assert "STDERR  api" in shown(LineRecord(NOON, REQUEST_ID, "api", "stderr", "oh\nno\n"))
    assert "oh  … 1 more line" in shown(LineRecord(NOON, REQUEST_ID, "api", "stderr", "oh\nno\n"))


def test_record_without_resource_and_request_has_empty_cells() -> None:
    assert shown(PlatformRecord(NOON, "", "INFO", "ready")).split() == ["12:00:00.000", "INFO", "ready"]
    assert " – " in shown(replace(SPAN, resource=""))


def test_row_removes_control_characters() -> None:
    line = shown(LineRecord(NOON, "", "api", "stdout", "\x1b]0;owned\x07 \u202egnp"))
    assert line.isprintable()


def test_long_attributes_are_truncated() -> None:
    record = StructuredRecord(
        time_ns=NOON,
        request_id="",
        trace_id="",
        span_id="",
        resource="api",
        severity="INFO",
        body="big",
        attributes={str(n): "v" * 10_000 for n in range(100)},
    )
    assert sum(len(text) for text, _ in row(doc(record)).cells[4]) < 2_000
    assert "…" in shown(record)


def test_row_key_is_cursor() -> None:
    assert row(doc(SPAN)).key == 7


def test_time_is_in_given_zone() -> None:
    assert clock(NOON + 5 * MS, timezone(timedelta(hours=5, minutes=30))) == "17:30:00.005"
    assert clock(NOON) == "12:00:00.000"


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0.0 ms"),
        (840_000, "0.8 ms"),
        (9_949_999, "9.9 ms"),
        (9_950_000, "10 ms"),
        (999_400_000, "999 ms"),
        (999_600_000, "1.0 s"),
        (30_000_000_000, "30.0 s"),
        (599_900_000_000, "599.9 s"),
        (600_000_000_000, "10 min"),
        (86_400_000_000_000, "24.0 h"),
    ],
)
def test_duration_format(nanoseconds: int, text: str) -> None:
    assert duration(nanoseconds) == text and len(text) <= 7
