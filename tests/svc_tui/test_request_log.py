from dataclasses import replace

import pytest

from engine.timeline.record import LineRecord, Record, StructuredRecord
from svc_tui.dev.request_log import RequestLog, request_line
from svc_tui.terminal import stdout
from svc_tui.terminal.stdout import Styled
from tests.engine.timeline.records import REQUEST, stored

SECOND = 1_000_000_000
ROOT = replace(REQUEST, request_id="id", parent="", target="/")


def shown(*records: Record, failures_only: bool = False) -> list[str]:
    lines: list[Styled] = []
    log = RequestLog(lines.append, failures_only=failures_only)
    for record in records:
        log(record)
    return ["".join(text for text, _ in line) for line in lines]


def test_request_log_prints_records_below_their_request() -> None:
    record = StructuredRecord(
        time_ns=SECOND,
        request_id="id",
        trace_id="trace",
        span_id="span",
        resource="web",
        severity="WARN",
        body="low",
        attributes={"left": "3", "of": "a b", "no": ""},
    )
    request, rendered = shown(record, ROOT)
    assert "GET" in request
    assert rendered == '    │ WARN   low left=3 of="a b" no=""'


def test_request_log_of_failures_leaves_out_other_requests_and_their_lines() -> None:
    line = LineRecord(SECOND, "id", "web", "stderr", "why")
    assert shown(line, replace(ROOT, status=404), failures_only=True) == []
    assert len(shown(line, replace(ROOT, status=500), failures_only=True)) == 2


def test_request_log_indents_further_lines_of_a_message() -> None:
    body = "one\n12:00:00.000 GET    /forged"
    for record in (
        StructuredRecord(
            time_ns=SECOND,
            request_id="",
            trace_id="",
            span_id="",
            resource="web",
            severity="INFO",
            body=body,
            attributes={"a": "b\nc"},
        ),
        LineRecord(SECOND, "", "web", "stdout", body),
    ):
        (line,) = shown(record)
        assert all(part.startswith("    │ ") for part in line.split("\n")[1:])


def test_request_log_prints_late_records_at_once() -> None:
    lines: list[Styled] = []
    log = RequestLog(lines.append)
    late = LineRecord(SECOND, "id", "web", "stdout", "late")
    for number in range(3000):
        log(replace(ROOT, request_id=f"id{number}"))
        log(replace(late, request_id=f"id{number}"))
    assert len(lines) == 6000
    rendered = "".join(text for text, _ in lines[-1])
    assert "web  late" in rendered and rendered.endswith("id2999")
    log.tick(1 << 62)
    assert len(lines) == 6000


def test_request_log_prints_the_time_at_which_a_request_ended() -> None:
    start = shown(replace(ROOT, time_ns=59 * SECOND, wall_ns=0))[0]
    end = shown(replace(ROOT, time_ns=57 * SECOND, wall_ns=2 * SECOND))[0]
    assert start.split()[0] == end.split()[0]


def test_error_message_that_stderr_shows_is_not_repeated() -> None:
    line = LineRecord(SECOND, "id", "web", "stderr", "Error: broken")
    failed = replace(ROOT, code="guest-failed", detail="Error: broken")
    assert sum("Error: broken" in text for text in shown(line, failed)) == 1
    assert "Error: broken" in shown(failed)[0]
    styled = list[Styled]()
    log = RequestLog(styled.append, live=True, dated=True)
    for record in (line, failed):
        log(record)
    assert sum("Error: broken" in "".join(text for text, _ in each) for each in styled) == 1


def test_code_of_a_failed_request_moves_no_column_behind_it() -> None:
    missing = replace(ROOT, target="/nothing", status=404, code="not-found")
    assert shown(missing)[0].index("cpu") == shown(replace(missing, status=200, code=""))[0].index("cpu")


@pytest.mark.parametrize("width", [120, 140])
def test_line_of_a_disconnect_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(stdout, "width", lambda: width)
    gone = replace(ROOT, request_id="0" * 26, code="client-gone", detail="the client disconnected")
    spans = [replace(gone, resource=name) for name in ("api", "front")]
    line = "".join(text for text, _ in request_line([*map(stored, spans)], "12:00:00.000"))
    assert len(line) <= width
    assert line.endswith("  client-gone")


def test_frames_of_packages_are_dim() -> None:
    frames = [
        "    at book (api/src/index.ts:7:9)",
        "    at dispatch (api/node_modules/hono/dist/compose.js:4:2)",
    ]
    lines: list[Styled] = []
    log = RequestLog(lines.append)
    for record in (*(LineRecord(SECOND, "id", "api", "stderr", frame) for frame in frames), ROOT):
        log(record)
    assert [line[-1] for line in lines[1:]] == [(frames[0], ""), (frames[1], "dim")]
