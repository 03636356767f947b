"""`svc top`: what it reads, prints, and shows on a terminal."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from engine.timeline.database import timeline_path
from engine.timeline.record import RequestRecord
from engine.timeline.recorder import TimelineStore
from engine.trace import Call
from svc_tui import logs as top_module
from svc_tui.main import run
from tests.engine.timeline.records import REQUEST
from tests.support.service import environ_of, svc
from tests.support.terminal import terminal

MANIFEST = '[project]\nname = "shop"\n\n[resource.web]\nlane = "static"\npublic = true\noutput = "site"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "shop"
    (root / "site").mkdir(parents=True)
    (root / "svc.toml").write_text(MANIFEST)
    monkeypatch.chdir(root)
    return root


def write(root: Path, *records: RequestRecord) -> None:
    store = TimelineStore(timeline_path(root))
    store.append(records, time.time_ns())
    store.close()


def request(**fields: object) -> RequestRecord:
    number = time.monotonic_ns()
    ids = {"request_id": f"r{number}", "trace_id": f"{number:032x}", "span_id": f"{number:016x}"}
    values = {"time_ns": time.time_ns(), "wall_ns": 5_000_000, "compute_ns": 1_000_000, **ids, **fields}
    return replace(REQUEST, parent="", **values)  # type: ignore[arg-type]


def activity(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, object]:
    assert run(["top", "--json", *options]) == 0
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


def test_json_has_resources_and_routes_of_the_window(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    front = request(target="/a?x=1", calls=(Call("sql", "select 1", 1),))
    inner = replace(front, resource="api", root=False, span_id="f" * 16, parent=front.span_id)
    write(
        project,
        inner,
        front,
        request(target="/a", status=500, wall_ns=25_000_000, peak_memory=1 << 20),
        request(target="/b", status=503, code="not-ready", peak_memory=None),
        request(target="/b", status=404),
        request(target="/old", time_ns=time.time_ns() - 120 * 10**9),
    )
    found = activity(capsys)
    assert found["seconds"] == 60 and found["partial"] is False
    assert found["resources"] == [
        {
            "name": "web",
            "requests": 4,
            "p95_ms": 22.0,
            "failures": 1,
            "compute_ms": 4.0,
            "peak_memory": 1 << 20,
        },
        {
            "name": "api",
            "requests": 1,
            "p95_ms": 5.0,
            "failures": 0,
            "compute_ms": 1.0,
            "peak_memory": REQUEST.peak_memory,
        },
    ]
    routes = found["routes"]
    assert isinstance(routes, list)
    assert [(row["name"], row["requests"]) for row in routes] == [("GET /a", 2), ("GET /b", 2)]
    assert routes[0]["compute_ms"] == 3.0  # With the resource behind the mount.


def test_rows_are_sorted_by_the_column(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        project,
        *[request(target="/many", peak_memory=None) for _ in range(3)],
        request(target="/slow", wall_ns=10**9, peak_memory=1),
        request(target="/big", peak_memory=1 << 30, compute_ns=10**9),
        request(target="/failed", status=500, peak_memory=2),
    )
    first = {}
    for column in ("rate", "p95", "failed", "cpu", "memory", "name"):
        routes = activity(capsys, "--sort", column)["routes"]
        assert isinstance(routes, list)
        first[column] = routes[0]["name"].removeprefix("GET /")
    assert first == {
        "rate": "many",
        "p95": "slow",
        "failed": "failed",
        "cpu": "big",
        "memory": "big",
        "name": "big",
    }


def test_pipe_gets_the_tables_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, *[request(target="/a") for _ in range(30)], request(target="/b", status=500))
    assert run(["top"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["resource", "req/s", "p95", "failed", "cpu", "memory"],
        ["web", "0.5", "5.0", "ms", "3%", "0.1%", "64", "KiB"],
    ]
    assert [line.split()[:2] for line in lines[2:]] == [["route", "req/s"], ["GET", "/a"], ["GET", "/b"]]


def test_only_the_newest_records_are_read(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top_module, "MAX_RECORDS", 3)
    write(project, *[request() for _ in range(5)])
    assert run(["top", "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["partial"] is True and "only the last" in output.err
    assert json.loads(output.out)["resources"][0]["requests"] == 3


def test_project_without_requests_has_a_note(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top"]) == 0
    assert "no requests in the last 1 min" in capsys.readouterr().err
    write(project, request(time_ns=0))
    assert activity(capsys)["routes"] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sort", "ratte"], 'unknown column "ratte"'),
        (["--since", "2h"], "--since 2h is longer than 1h"),
        (["--since", "soon"], '"soon" is not a valid time'),
    ],
)
def test_invalid_options_are_usage_errors(
    project: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert run(["top", *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
def test_terminal_shows_the_tables_live_and_sorts_by_keys(project: Path, size: tuple[int, int]) -> None:
    routes = [f"/page/{number:02}" for number in range(40)]
    write(project, *[request(target=target) for target in routes])
    home = project.parent / "home"
    with terminal([*svc(), "top"], project, environ_of(home), size=size) as opened:
        screen = opened.until("q quit")
        assert "shop in svc dev" in screen and "by rate" in screen and "GET /page/00" in screen
        assert all(len(line) <= size[0] for line in screen.splitlines())
        assert len(screen.rstrip("\n").splitlines()) == size[1]
        opened.keys("n")
        opened.until("by name")
        write(project, *[request(target="/new") for _ in range(9)])
        opened.keys("r")
        opened.until("GET /new")
        opened.resize(size[0] - 5, size[1] - 2)
        opened.until(lambda screen: len(screen.rstrip("\n").splitlines()) == size[1] - 2)
        opened.keys("q")
        opened.restored()
