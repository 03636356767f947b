import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.timeline.database import timeline_path
from engine.timeline.record import LineRecord, PlatformRecord, Record, StructuredRecord
from engine.timeline.recorder import Retention, TimelineStore
from svc_tui.dev.request_log import RequestLog
from svc_tui.main import run
from svc_tui.terminal.stdout import Styled
from tests.engine.timeline.records import REQUEST

NOW = time.time_ns()
MINUTE = 60_000_000_000
ROOT = replace(
    REQUEST,
    time_ns=NOW,
    trace_id="t" * 32,
    span_id="s" * 16,
    parent="",
    target="/api/x?y=1",
    compute_ns=0,
    peak_memory=None,
)
INNER = replace(
    ROOT,
    span_id="i" * 16,
    parent=ROOT.span_id,
    resource="api",
    compute_ns=2_000_000,
    peak_memory=1 << 20,
    root=False,
)
LINE = LineRecord(NOW, "01id", "api", "stdout", "hello")
STRUCTURED = StructuredRecord(
    time_ns=NOW,
    request_id="01id",
    trace_id="t" * 32,
    span_id="i" * 16,
    resource="api",
    severity="WARN",
    body="low",
    attributes={"left": "3"},
)
PLATFORM = PlatformRecord(NOW, "api", "INFO", "ready")
COMMAND = [sys.executable, "-m", "svc_tui", "logs"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "svc.toml").write_text(
        '[project]\nname = "shop"\n[resource.web]\nlane = "static"\noutput = "."\n'
        '[resource.front-end]\nlane = "static"\npublic = true\noutput = "site"\n'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def record(project: Path, *records: Record, now_ns: int = NOW) -> None:
    store = TimelineStore(timeline_path(project))
    store.append(records, now_ns)
    store.close()


def lines(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    assert run(["logs", *options]) == 0
    return capsys.readouterr().out.splitlines()


def documents(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(capsys, "--json", *options)]


def test_logs_sql_prints_rows(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(project, LINE, INNER, ROOT)
    assert lines(capsys, "--sql", "select path, handler from requests") == ["path,handler", "/api/x,api"]
    assert lines(capsys, "--sql", "select text from lines", "--json") == ['{"text": "hello"}']
    hostile = "select 'a' || char(27) || '[31m' || char(155, 8206, 8207, 1564) || 'b' as a"
    assert lines(capsys, "--sql", hostile) == ["a", "a\ufffd\ufffd\ufffd\ufffdb"]
    assert lines(capsys, "--sql", hostile, "--csv") == ["a", "a\x1b[31m\x9b\u200e\u200f\u061cb"]
    assert lines(capsys, "--sql", hostile, "--json") == ['{"a": "a\\u001b[31m\\u009b\\u200e\\u200f\\u061cb"}']
    for options in (["--sql", "select 1", "--level", "warn"], ["--csv"]):
        assert run(["logs", *options]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_logs_json_has_one_document_per_record(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(project, LINE, STRUCTURED, INNER, ROOT, PLATFORM)
    printed, logged, inner, root, built = documents(capsys)
    common = {"cursor", "kind", "time", "level", "resource", "request_id"}
    assert set(printed) == common | {"body"}
    assert set(built) == common | {"body", "grant"} and built["grant"] is None
    assert set(logged) == common | {"body", "attributes", "trace_id", "span_id"}
    assert (
        set(inner)
        == set(root)
        == common
        | {
            "trace_id",
            "span_id",
            "parent",
            "root",
            "method",
            "target",
            "status",
            "code",
            "detail",
            "wall_ns",
            "compute_ns",
            "peak_memory",
            "bytes_in",
            "bytes_out",
            "calls",
            "calls_omitted",
        }
    )
    kinds = [document["kind"] for document in (printed, logged, inner, root, built)]
    assert kinds == ["stdout", "structured", "request", "request", "platform"]
    assert {document["request_id"] for document in (printed, logged, inner, root)} == {"01id"}
    assert (logged["level"], logged["body"], logged["attributes"]) == ("WARN", "low", {"left": "3"})
    assert (inner["parent"], inner["root"], root["root"]) == (root["span_id"], False, True)
    assert (inner["wall_ns"], inner["peak_memory"], root["peak_memory"]) == (5_000_000, 1 << 20, None)
    moment = datetime.fromisoformat(printed["time"])
    assert printed["time"].endswith("Z") and abs(moment.timestamp() - NOW / 1e9) < 1e-3


def test_logs_prints_one_line_per_request_with_its_spans(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(project, LINE, STRUCTURED, INNER, ROOT)
    printed, logged, request = lines(capsys)
    assert re.fullmatch(r"\S{10} \S{12} STDOUT api  hello  01id", printed)
    assert re.fullmatch(r"\S{10} \S{12} WARN   api  low left=3  01id", logged)
    assert " ".join(request.split()[2:]) == ("GET /api/x?y=1 200 5.0 ms cpu 2.0 ms 1.0 MiB web → api 01id")


def test_logs_with_a_filter_prints_one_line_per_span(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(project, replace(INNER, detail="boom", status=500, code="guest-failed"), replace(ROOT, status=500))
    assert len(lines(capsys, "--resource", "api")) == 2
    assert len(lines(capsys, "--resource", "web")) == 1


def test_logs_with_grep_prints_one_line_per_request(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = {"status": 500, "code": "guest-failed"}
    record(project, replace(INNER, detail="boom", **failed), replace(ROOT, **failed))
    for pattern, path in (("guest-failed", "web → api"), ("boom", " api"), ("failed$", " web")):
        request, *rest = lines(capsys, "--grep", pattern)
        assert path in request and [line for line in rest if "boom" not in line] == []
    assert len(documents(capsys, "--grep", "guest-failed")) == 2


def test_logs_prints_spans_of_unfinished_requests_last(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(project, INNER, LINE)
    printed, inner = lines(capsys)
    assert "hello" in printed and "api" in inner


def test_logs_prints_100_records_by_default(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(project, *(replace(LINE, text=str(number)) for number in range(2500)))
    assert [row["body"] for row in documents(capsys)] == [str(n) for n in range(2400, 2500)]
    assert [row["body"] for row in documents(capsys, "--tail", "2")] == ["2498", "2499"]
    assert documents(capsys, "--tail", "0") == []
    assert len(documents(capsys, "--tail", "5000")) == 2500
    assert len(documents(capsys, "--request", "01id")) == 2500
    assert len(documents(capsys, "--since", "7d")) == 2500
    cursor = documents(capsys, "--tail", "1101")[0]["cursor"]
    assert documents(capsys, "--after", str(cursor))[0]["body"] == "1400"
    assert [row["body"] for row in documents(capsys, "--grep", "^.$")] == list("0123456789")


def test_logs_filters_select_records(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(project, LINE, STRUCTURED, PLATFORM, now_ns=time.time_ns() - 20 * MINUTE)
    record(project, INNER, replace(ROOT, status=500), now_ns=time.time_ns())
    assert [row["kind"] for row in documents(capsys, "--since", "10m")] == ["request", "request"]
    assert len(documents(capsys, "--since", "30m")) == 5
    assert [row["kind"] for row in documents(capsys, "--until", "10m", "--tail", "1")] == ["platform"]
    assert len(documents(capsys, "--since", "30m", "--until", "10m")) == 3
    assert documents(capsys, "--until", "1h") == []
    assert [row["kind"] for row in documents(capsys, "--level", "Warn")] == ["structured", "request"]
    assert [row["kind"] for row in documents(capsys, "--resource", "api", "--grep", "l+o")] == [
        "stdout",
        "structured",
    ]


@pytest.mark.parametrize(
    ("options", "output"),
    [
        (["--resource", "frontend"], "Did you mean front-end?"),
        (["--resource", "x"], "Available: api, front-end, web."),
        (["--level", "wran"], "Did you mean warn?"),
        (["--level", "9"], "trace, debug, info, warn, error or fatal"),
        (["--grep", "["], "regular expression"),
        (["--grep", "a{99999999999}"], "regular expression"),
        (["--since", "5x"], "30s, 10m, 12h, 7d"),
        (["--since", ""], "30s, 10m, 12h, 7d"),
        (["--since=-1m"], "30s, 10m, 12h, 7d"),
        (["--since", "٣h"], "30s, 10m, 12h, 7d"),
        (["--until", "now"], "30s, 10m, 12h, 7d"),
        (["--since", "10m", "--until", "1h"], "--since 1h --until 10m"),
        (["--until", "1h", "-f"], "--follow"),
        (["--tail=-1"], "--tail"),
        (["--tail", "many"], "--tail"),
        (["--after", str(1 << 63)], "--after"),
    ],
)
def test_logs_with_invalid_options_fails_with_a_hint(
    project: Path, capsys: pytest.CaptureFixture[str], options: list[str], output: str
) -> None:
    record(project, LINE)
    assert run(["logs", *options]) == 2
    assert output in " ".join(capsys.readouterr().err.split())


def test_logs_accepts_a_removed_resource_with_records(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(project, LINE)
    (project / "svc.toml").write_text("no manifest at all")
    assert len(lines(capsys, "--resource", "api")) == 1
    assert lines(capsys, "--resource", "another") == []


def test_beginning_of_an_id_names_its_request_if_no_other_begins_with_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = ["01m8djh1ph40b43gefzrmfk6j4", "01m8djh1t1857gjp1kg1q0dp0w"]
    record(project, *(replace(REQUEST, request_id=each) for each in ids))
    found = documents(capsys, "--request", ids[0][:9])
    assert [row["request_id"] for row in found] == [ids[0]]
    assert lines(capsys, "--request", ids[1][:9], "--tree") != []
    assert run(["logs", "--request", ids[0][:8]]) == 2
    message = capsys.readouterr().err
    assert "several requests begin with 01m8djh1" in message
    assert all(each in message for each in ids)
    assert run(["logs", "--request", ids[0][:7]]) == 0
    assert "no matching records" in capsys.readouterr().err


def test_logs_without_records_prints_a_note(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs"]) == 0
    output = capsys.readouterr()
    assert output.out == "" and "svc dev" in output.err
    assert not timeline_path(project).exists()
    assert run(["logs", "--resource", "wbe"]) == 2
    record(project, LINE)
    assert run(["logs", "--request", "another"]) == 0
    assert "no matching records" in capsys.readouterr().err


def test_logs_of_a_corrupt_timeline_fails_with_a_hint(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timeline_path(project).parent.mkdir()
    timeline_path(project).write_bytes(b"rubbish" * 1000)
    for options in ([], ["-f"], ["--json"]):
        assert run(["logs", *options]) == 1
        output = capsys.readouterr()
        assert output.out == "" and "is corrupt" in output.err and "moves the file aside" in output.err


def test_logs_after_a_removed_cursor_warns(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(project, *[LINE] * 10)
    cursor = documents(capsys)[0]["cursor"]
    store = TimelineStore(timeline_path(project), Retention(max_age_seconds=1))
    store.append([PLATFORM], NOW + MINUTE)
    store.trim(NOW + MINUTE)
    store.close()
    assert run(["logs", "--json", "--after", str(cursor)]) == 0
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 1 and "9 records were removed" in output.err


NASTY = "\x1b[2J\x1b]0;title\x07\x9b31m\x00\r\x7f\u202eevil\u2028\ntwo"


def test_logs_strips_control_codes_of_guests(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(
        project,
        replace(LINE, text=NASTY),
        replace(STRUCTURED, body=NASTY, attributes={NASTY: NASTY}),
        replace(ROOT, target="/\x9b2J", detail=NASTY, code="guest-failed", status=500),
    )
    for options in ([], ["--json"]):
        for color in ("never", "always"):
            assert run(["--color", color, "logs", *options]) == 0
            written = capsys.readouterr().out
            plain = re.sub(r"\x1b\[[0-9;]*m", "", written) if color == "always" and not options else written
            assert [c for c in plain if c != "\n" and re.match(r"[\x00-\x1f\x7f-\x9f\u2028\u202e]", c)] == []
            assert "evil" in plain
    assert [row.get("body", row.get("detail")) for row in documents(capsys)] == [NASTY] * 3


def test_logs_indents_further_lines_of_a_record(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(project, replace(STRUCTURED, body="one\n2026-01-01 00:00:00.000 ERROR  web  forged\nthree"))
    first, *rest = lines(capsys)
    assert "one" in first and [line.startswith("    │ ") for line in rest] == [True, True]


def test_logs_on_a_terminal_prints_a_heading_per_day(project: Path) -> None:
    written = list[Styled]()
    log = RequestLog(written.append, live=True, day=date.fromtimestamp(NOW / 1e9))
    earlier = replace(LINE, time_ns=NOW - 3 * 24 * 60 * MINUTE)
    for each in (earlier, earlier, LINE, LINE):
        log(each)
    result = ["".join(text for text, _ in line) for line in written]
    assert len(result) == 6
    assert str(date.fromtimestamp(earlier.time_ns / 1e9)) in result[0]
    assert str(date.fromtimestamp(NOW / 1e9)) in result[3]


class Following:
    """A running process of `svc logs -f`."""

    def __init__(self, project: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "-f", *options],
            cwd=project,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A test runner in the background may ignore the signal.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self.out, self.err = self.process.stdout, self.process.stderr

    def row(self) -> dict[str, Any]:
        return json.loads(self.out.readline())  # type: ignore[no-any-return]

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@pytest.fixture
def followers() -> Iterator[list[Following]]:
    started: list[Following] = []
    yield started
    for follower in started:
        if follower.process.poll() is None:
            follower.process.kill()
            follower.process.wait()
        follower.out.close()
        follower.err.close()


def test_logs_follow_waits_for_records_until_interrupted(project: Path, followers: list[Following]) -> None:
    follower = Following(project, "--json")
    followers.append(follower)
    assert "waiting for `svc dev`" in follower.err.readline()
    record(project, LINE)
    assert follower.row()["body"] == "hello"
    record(project, STRUCTURED)
    assert follower.row()["body"] == "low"
    assert follower.end(signal.SIGINT) == 130
    assert "Traceback" not in follower.err.read()


@pytest.mark.slow
def test_logs_follow_after_a_cursor_resumes(project: Path, followers: list[Following]) -> None:
    record(project, *(replace(LINE, text=str(number)) for number in range(5)))
    first = Following(project, "--json")
    followers.append(first)
    rows = [first.row() for _ in range(3)]
    assert first.end(signal.SIGINT) == 130
    record(project, replace(LINE, text="5"))
    second = Following(project, "--json", "--after", str(rows[-1]["cursor"]))
    followers.append(second)
    assert [second.row()["body"] for _ in range(3)] == ["3", "4", "5"]


def test_logs_follow_ends_when_the_pipe_closes(project: Path, followers: list[Following]) -> None:
    record(project, LINE)
    follower = Following(project)
    followers.append(follower)
    assert "hello" in follower.out.readline()
    follower.out.close()
    assert follower.process.wait(60) == 0
    assert follower.err.read() == ""


def test_logs_on_a_terminal_uses_color_and_clock_times(project: Path) -> None:
    record(project, replace(STRUCTURED, severity="ERROR"))
    leader, follower = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    subprocess.run(COMMAND, cwd=project, stdout=follower, env=environment | {"TERM": "xterm"}, check=True)
    os.close(follower)
    written = os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert "\x1b[31mERROR" in written
    assert re.match(r"(\x1b\[2m)?\S*\d\d:\d\d:\d\d\.\d{3}", written.splitlines()[-1])


@pytest.mark.slow
def test_logs_follow_prints_20000_records_in_order(project: Path, followers: list[Following]) -> None:
    follower = Following(project, "--json", "--tail", "0")
    followers.append(follower)
    result: list[str] = []
    reading = threading.Thread(target=lambda: result.extend(follower.row()["body"] for _ in range(20_000)))
    assert "waiting" in follower.err.readline()
    store = TimelineStore(timeline_path(project))
    reading.start()
    for begin in range(0, 20_000, 500):
        store.append([replace(LINE, text=str(begin + i)) for i in range(500)], NOW)
    reading.join(150)
    store.close()
    assert result == [str(number) for number in range(20_000)]
