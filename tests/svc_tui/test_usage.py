import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from engine.usage.store import MINUTE_NS, UsageCount, UsageStore, usage_path
from svc_tui.main import run

MIB = 1 << 20
Counted = dict[tuple[int, str], UsageCount]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "svc.toml").write_text("[project]\nname = 'shop'\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def now() -> int:
    return time.time_ns() // MINUTE_NS


def counted(project: Path, counts: Counted) -> None:
    store = UsageStore(usage_path(project))
    store.add(counts)
    store.close()


def rows(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    assert run(["usage", "--json", *options]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"since", "by", "rows", "memory", "doors"}
    assert document["memory"] is None and document["doors"] == []
    return document["rows"]  # type: ignore[no-any-return]


def test_usage_prints_one_row_per_resource_of_the_last_day(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    minute = now()
    counted(
        project,
        {
            (minute, "web"): UsageCount(
                2, 0, compute_ns=0, wall_ns=50, peak_memory=0, bytes_in=0, bytes_out=700
            ),
            (minute - 5, "api"): UsageCount(
                3, 1, compute_ns=400, wall_ns=500, peak_memory=MIB, bytes_in=10, bytes_out=20
            ),
            (minute - 90, "api"): UsageCount(
                1, 0, compute_ns=100, wall_ns=200, peak_memory=2 * MIB, bytes_in=1, bytes_out=2
            ),
            (minute - 3000, "api"): UsageCount(50),
        },
    )
    api, web = rows(capsys)
    assert (api["resource"], web["resource"]) == ("api", "web")
    assert {key: api[key] for key in list(api)[2:]} == {
        "requests": 4,
        "failures": 1,
        "compute_ns": 500,
        "wall_ns": 700,
        "peak_memory": 2 * MIB,
        "bytes_in": 11,
        "bytes_out": 22,
    }
    assert [row["requests"] for row in rows(capsys, "--since", "10m", "--resource", "api")] == [3]
    assert [row["requests"] for row in rows(capsys, "--since", "7d", "--resource", "api")] == [54]


@pytest.mark.parametrize("by", ["minute", "hour", "day"])
def test_usage_rows_begin_at_periods_of_local_time(
    project: Path, capsys: pytest.CaptureFixture[str], by: str
) -> None:
    minutes = range(now() - 3 * 24 * 60, now(), 30)
    counted(project, {(minute, "api"): UsageCount(1) for minute in minutes})
    result = rows(capsys, "--since", "5d", "--by", by)
    begins = [datetime.fromisoformat(row["start"]) for row in result]
    assert begins == sorted(set(begins)) and all(begin.utcoffset() is not None for begin in begins)
    assert sum(row["requests"] for row in result) == len(minutes)
    if by == "hour":
        assert {begin.minute for begin in begins} == {0}
    if by == "day":
        assert {(begin.hour, begin.minute) for begin in begins} == {(0, 0)}
    assert {"minute": 144, "hour": 73, "day": 4}[by] - len(result) in (0, 1)


def test_usage_on_a_pipe_prints_one_line_per_row(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counted(
        project,
        {
            (now(), "api"): UsageCount(
                3, 1, compute_ns=400, wall_ns=500, peak_memory=MIB, bytes_in=10, bytes_out=20
            )
        },
    )
    assert run(["usage"]) == 0
    titles, row = capsys.readouterr().out.splitlines()
    assert titles.startswith("start\tresource\trequests\tfailures\tcompute_ns\t")
    begin, *rest = row.split("\t")
    assert datetime.fromisoformat(begin)
    assert rest == ["api", "3", "1", "400", "500", str(MIB), "10", "20"]


def test_usage_on_a_terminal_prints_a_table(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    minute = now()
    counted(
        project,
        {
            (minute, "api"): UsageCount(
                1200,
                3,
                compute_ns=4_500_000_000,
                wall_ns=9_000_000_000,
                peak_memory=12 * MIB,
                bytes_in=0,
                bytes_out=5 << 30,
            ),
            (minute, "front"): UsageCount(
                7, 0, compute_ns=0, wall_ns=9_000_000, peak_memory=0, bytes_in=0, bytes_out=812
            ),
        },
    )
    assert run(["--color", "always", "usage", "--by", "minute"]) == 0
    output = capsys.readouterr().out
    assert "\x1b[1;31m" in output
    head, api, front = [_uncoloured(line) for line in output.splitlines()]
    assert " ".join(head.split()) == "start resource requests failures compute wall memory in out"
    assert " ".join(api.split()[2:]) == "api 1200 3 4.5 s 9.0 s 12 MiB 0 B 5.0 GiB"
    assert " ".join(front.split()) == "front 7 0 0.0 ms 9.0 ms 0 B 812 B"
    assert head.index("requests") + len("requests") == api.index("1200") + 4 == front.index(" 7 ") + 2
    assert len(head) == len(api) == len(front)


def _uncoloured(text: str) -> str:
    from rich.text import Text

    return Text.from_ansi(text).plain


def test_usage_without_counts_prints_a_note(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["usage", "--since", "30m", "--resource", "api"]) == 0
    output = capsys.readouterr()
    assert output.out == ""
    assert "`svc dev` counted no requests to api in the last 30m" in output.err
    assert rows(capsys) == []
    assert not usage_path(project).exists()


@pytest.mark.parametrize("text", ["1", "h", "0h", "-1h", "1w", "1.5h", "1h 2m", "٣h", ""])
def test_usage_with_an_invalid_time_fails(
    project: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert run(["usage", f"--since={text}"]) == 2
    assert "10m, 12h, 7d" in capsys.readouterr().err


def test_usage_of_a_corrupt_file_fails_with_a_hint(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usage_path(project).parent.mkdir()
    usage_path(project).write_bytes(b"garbage " * 1000)
    assert run(["usage"]) == 1
    output = capsys.readouterr().err
    assert "usage.db" in output and "moves the file aside" in output and "Traceback" not in output


def test_usage_outside_of_a_project_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["usage"]) == 2
    assert "svc.toml" in capsys.readouterr().err
