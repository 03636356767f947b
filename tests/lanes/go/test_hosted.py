"""net/http in a hosted program: outcome, output and limits."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from engine.artifact import ComponentArtifact
from tests.lanes.go.module import Module, Reply
from tests.lanes.go.program import artifact, module
from tests.support.forms import multipart
from tests.support.peer import Peer, peer

__all__ = ["artifact", "module"]
pytestmark = pytest.mark.slow
SOURCE = Path(__file__).with_name("program.go").read_text(encoding="utf-8")
ZONE = """\
package main

import (
	"fmt"
	"time"

	"svc/guest/lite"
)

func main() {
	lite.Serve(func(w *lite.Response, r *lite.Request) {
		summer := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).Local()
		_, err := time.LoadLocation("Asia/Tokyo")
		fmt.Fprint(w, summer.Format("15:04 MST"), " ", time.Local, " ", err)
	})
}
"""
Ask = Callable[..., Reply]


@pytest.fixture
def ask(module: Module, artifact: ComponentArtifact) -> Ask:
    return lambda target, **given: module.ask(artifact, target, **given)[0]


@pytest.fixture
def other() -> Iterator[Peer]:
    with peer() as server:
        yield server


def line(text: str) -> int:
    """Return the number of the first line that contains a text."""
    return next(i for i, found in enumerate(SOURCE.split("\n"), 1) if text in found)


def test_printed_lines_arrive_one_by_one(ask: Ask) -> None:
    lines = ask("/log").lines
    assert lines[0] == ("stdout", "printed") and lines[1] == ("stderr", "on stderr")
    assert lines[2][1].endswith("logged") and lines[3][1].endswith("INFO structured n=1")
    assert json.loads(lines[4][1]) == {
        "level": "warn",
        "msg": "recorded",
        "n": 7,
        "name": 'Jürgen "J"',
        "at": {"level": 2, "time": 3},
    }
    assert lines[5:] == [("stdout", "x" * 6000), ("stdout", "no end")]


@pytest.mark.parametrize(
    ("target", "message", "place"),
    [
        ("/panic", "panic: assignment to entry in nil map", "// the panic"),
        ("/panic-elsewhere", "panic: in a goroutine", "// the goroutine's"),
        ("/deadlock", "fatal error: all goroutines are asleep - deadlock!", "<-make(chan int)"),
    ],
)
def test_panic_is_reported_with_its_line(ask: Ask, target: str, message: str, place: str) -> None:
    answer = ask(target)
    assert (answer.status, answer.report.outcome) == (None, "guest-failed")
    assert answer.report.detail == f"{message} (example.com/api/main.go:{line(place)})"
    assert answer.lines[0] == ("stderr", message)


def test_panic_after_the_head_truncates_the_response(ask: Ask) -> None:
    answer = ask("/late-panic")
    assert (answer.status, answer.body, answer.ended) == (200, b"begun", False)
    assert answer.report.detail.startswith("panic: much too late (")


@pytest.mark.parametrize(
    ("status", "reason"),
    [(0, " (the guest exited with status 0)"), (1, ""), (3, " (the guest exited with status 3)")],
)
def test_exit_before_the_response_is_a_failure(ask: Ask, status: int, reason: str) -> None:
    answer = ask(f"/exit/{status}")
    assert (answer.status, answer.report.outcome) == (None, "guest-failed")
    assert answer.report.detail.endswith(f"about to exit{reason}")


def test_aborted_handler_cuts_the_connection_and_is_no_failure(ask: Ask) -> None:
    early, late = ask("/aborted"), ask("/aborted?late=1")
    for answer in (early, late):
        assert (answer.report.outcome, answer.report.detail) == ("aborted", "the guest aborted the response")
        assert (answer.ended, answer.lines) == (False, [])
    assert (early.status, late.status, late.body) == (None, 200, b"begun")


def test_multipart_files_beyond_the_memory_limit_are_an_error(ask: Ask) -> None:
    fields = multipart(("file", "large.bin", bytes(20 << 20)))
    environment = {"SVC_MEMORY_LIMIT_MB": "32"}
    answer = ask("/upload", method="POST", environment=environment, memory_limit_mb=32, **fields)
    assert answer.text.startswith("multipart: the files are larger than the free memory: read them with")
    assert answer.text.endswith(" true")


@pytest.mark.parametrize("limit", [32, 128])
def test_exceeded_memory_has_its_own_outcome(ask: Ask, limit: int) -> None:
    assert ask("/memory", memory_limit_mb=limit).report.outcome == "memory-limit"


@pytest.mark.parametrize("live", [50, 280])
def test_garbage_is_collected_within_the_memory_limit(ask: Ask, live: int) -> None:
    environment = {"SVC_MEMORY_LIMIT_MB": "32"}
    answer = ask(f"/garbage?live={live}", environment=environment, memory_limit_mb=32)
    assert answer.text == str(live)
    assert answer.report.peak_memory is not None and answer.report.peak_memory < 30 << 20


def test_endless_recursion_and_loops_are_stopped(ask: Ask) -> None:
    assert "call stack" in ask("/recursion").report.detail
    assert ask("/spin", run_limit_secs=1).report.outcome == "run-limit"


def test_invalid_status_is_a_panic(ask: Ask) -> None:
    assert "invalid WriteHeader code 12345" in ask("/bad-status").report.detail


def test_informational_response_is_not_sent_and_logged(ask: Ask) -> None:
    answer = ask("/early-hints")
    assert answer.status == 418
    assert answer.lines == [("stderr", "svc: the informational response 103 Early Hints is not sent")]


def test_trailers_are_not_sent_and_logged(ask: Ask) -> None:
    answer = ask("/trailers")
    assert (answer.text, answer.values("trailer"), answer.values("x-sum")) == ("body", [], [])
    assert answer.lines == [("WARN", "the guest set trailers; they are not sent")]


def test_unknown_time_zone_is_reported_and_local_time_is_utc(ask: Ask) -> None:
    answer = ask("/zone", environment={"TZ": "Europe/Berlin"})
    assert answer.text.startswith("12:00 UTC Local unknown time zone")
    assert answer.lines == [
        ("stderr", "svc: the time zone of TZ is not known, so time.Local is UTC: Europe/Berlin"),
        ("stderr", "  hint: Set TZ in env of svc.toml to a name such as Europe/Berlin."),
    ]


def test_time_zone_of_the_manifest_is_the_local_one(tmp_path: Path, cache: Path) -> None:
    module = Module((tmp_path / "zone ü").resolve(), cache)
    module.program(ZONE)
    artifact = module.build("deploy", env={"TZ": "Europe/Berlin"})
    for fast in (True, False):
        [answer] = module.ask(artifact, "/zone", environment={"TZ": "Europe/Berlin"}, fast=fast)
        assert answer.text == "14:00 CEST Local <nil>"


def test_client_disconnect_cancels_the_context_of_the_request(ask: Ask) -> None:
    answer = ask("/forever", leave_after=3)
    assert answer.report.outcome == "client-gone"
    assert answer.lines == [("stdout", "left:  context canceled")]


def test_handler_that_waits_for_the_end_of_its_request_ends_when_the_client_leaves(ask: Ask) -> None:
    answer = ask("/until-left", leave_after=1)
    assert (answer.report.outcome, answer.text) == ("client-gone", "waiting\n")
    assert answer.lines == [("stdout", "left: context canceled <nil> the other side disconnected")]
    leave = asyncio.Event()
    leave.set()
    before = ask("/until-left/before", leave=leave)
    assert (before.report.outcome, before.lines) == ("client-gone", [("stdout", "left: context canceled")])
    limited = ask("/until-left", run_limit_secs=1)
    assert limited.report.outcome == "run-limit"


def test_failed_write_cancels_the_context_of_the_request(ask: Ask) -> None:
    answer = ask("/too-much")
    assert answer.lines == [("stdout", "told: true true context canceled")]
    assert "content-length" in answer.report.detail


def test_body_shorter_than_its_content_length_is_reported(ask: Ask) -> None:
    answer = ask("/too-little")
    assert (answer.ended, answer.report.outcome) == (False, "guest-failed")
    assert "content-length" in answer.report.detail


def test_handler_failure_leaves_other_requests_running(module: Module, artifact: ComponentArtifact) -> None:
    targets = ["/panic", "/items/1", "/deadlock", "/items/2", "/memory", "/items/3"]
    outcomes = [answer.report.outcome for answer in module.ask(artifact, *targets)]
    assert outcomes == ["guest-failed", "ok", "guest-failed", "ok", "memory-limit", "ok"]


def test_denied_fetch_reports_egress(ask: Ask, other: Peer) -> None:
    for route in ("fetch", "own-transport"):
        message = ask(f"/{route}?url={quote(other.origin, safe='')}").text
        assert "HTTP-request-denied" in message and "`egress` of svc.toml" in message
    assert other.requests == []


def test_unreachable_host_is_reported(ask: Ask) -> None:
    closed = "http://127.0.0.1:1"
    message = ask(f"/fetch?url={quote(closed, safe='')}", egress=(closed,)).text
    assert message == 'error: Get "http://127.0.0.1:1": connection-refused'


def test_files_and_sockets_return_errors_that_name_net_http(ask: Ask) -> None:
    other = "call other servers with net/http, which reaches the origins that egress of svc.toml names"
    lookup = (
        "lookup db.example.com: a guest has no sockets and no name server: "
        "call other servers by name with net/http, which reaches the origins that egress of svc.toml names"
    )
    assert ask("/sockets").text.splitlines() == [
        f"dial tcp 127.0.0.1:1: a guest has no sockets: {other} true",
        f"dial udp 127.0.0.1:1: a guest has no sockets: {other}",
        f"dial tcp: {lookup}",
        lookup,
        lookup,
        "listen tcp :8080: a guest has no sockets: requests arrive through guest.Serve, "
        "and only the program itself reaches a listener on 127.0.0.1",
        "true",
    ]
