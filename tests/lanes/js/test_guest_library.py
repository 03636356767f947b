"""The API of `@svc/guest`, in dev and deploy mode."""

import asyncio
import json
import re
from typing import Any

import pytest

from engine.lane import BuildMode
from engine.wasm.execution import execution
from tests.lanes.js.programs import Programs
from tests.lanes.js.sources import MODES, ask
from tests.support.guest_client import Answer

pytestmark = pytest.mark.slow
ENVIRONMENT = {"PROGRAM": "guest_library"}
TARGETS = [
    "/json",
    "/json-none",
    "/events",
    "/keep",
    "/bad-event",
    "/empty-event",
    "/failing",
    "/stream",
    "/same",
    "/chunk",
    "/slow",
    "/cancel",
    "/sleep",
    "/log",
]
EVENTS = (
    'event: tick\nid: 7\nretry: 500\ndata: {"n":1}\n\n'
    "data: two\ndata: lines\n\n"
    "data: a\ndata: b\ndata: c\n\n"
    ": still\n: here\n\n"
    "data: null\n\n"
    "id: only\n\n"
    "data: \n\n"
)


@pytest.fixture(scope="module")
def answers(programs: Programs) -> dict[str, dict[str, Answer]]:
    return {mode: programs.answers("guest_library", mode, TARGETS) for mode in MODES}


@pytest.mark.parametrize("target", TARGETS)
def test_dev_and_deploy_answer_alike(answers: dict[str, dict[str, Answer]], target: str) -> None:
    def comparable(answer: Answer) -> Any:
        # The length is known when the whole body was there before the head left: a matter of time.
        headers = {name: value for name, value in answer.headers.items() if name != b"content-length"}
        body = re.sub(rb"(:\n\n)+", b"", answer.body)  # So is the number of pings.
        return answer.status, headers, body, answer.ended, answer.lines, answer.report.detail

    assert comparable(answers["dev"][target]) == comparable(answers["deploy"][target])


def test_json_has_type_status_and_body(answers: dict[str, dict[str, Answer]]) -> None:
    answer = answers["dev"]["/json"]
    assert (answer.status, json.loads(answer.body)) == (201, {"text": "ü", "list": [1, None]})
    assert answer.headers[b"content-type"] == b"application/json" and answer.headers[b"x-more"] == b"yes"
    assert answers["dev"]["/json-none"].report.detail == "TypeError: undefined has no JSON form"


def test_event_stream_has_fields_of_each_event(answers: dict[str, dict[str, Answer]]) -> None:
    answer = answers["dev"]["/events"]
    assert answer.headers[b"content-type"] == b"text/event-stream"
    assert answer.headers[b"cache-control"] == b"no-cache" and answer.headers[b"x-more"] == b"yes"
    assert answer.body.decode() == EVENTS and answer.ended


def test_idle_event_stream_sends_keep_alives(answers: dict[str, dict[str, Answer]]) -> None:
    assert re.fullmatch(rb"data: first\n\n(:\n\n)+data: last\n\n", answers["dev"]["/keep"].body)


@pytest.mark.parametrize(
    ("target", "body", "detail"),
    [
        ("/bad-event", b"data: fine\n\n", "the event of an event has a line break or a zero byte"),
        ("/empty-event", b"", "an event needs one of id, event, data and retry"),
        ("/failing", b"data: before\n\n", "Error: failed half-way"),
        ("/chunk", b"", "a chunk is a number: write text or bytes"),
    ],
)
def test_error_in_a_stream_truncates_the_response(
    answers: dict[str, dict[str, Answer]], target: str, body: bytes, detail: str
) -> None:
    answer = answers["dev"][target]
    assert answer.body == body and not answer.ended
    assert answer.report.outcome == "guest-failed" and detail in answer.report.detail
    stack = [text for _, text in answer.lines if text.startswith("    at ")]
    assert stack and all("guest/index.js" not in text for text in stack)


def test_stream_joins_text_and_bytes(answers: dict[str, dict[str, Answer]]) -> None:
    answer = answers["dev"]["/stream"]
    assert answer.body == b"text bytes a b buffer" and answer.ended
    assert answer.headers[b"content-type"] == b"text/plain; charset=utf-8"
    slow = answers["dev"]["/slow"]
    assert slow.chunks == [b"0\n", b"1\n", b"2\n"] and slow.headers[b"content-type"] == b"text/csv"


def test_bytes_can_be_written_again(answers: dict[str, dict[str, Answer]]) -> None:
    assert (answers["dev"]["/same"].body, answers["dev"]["/same"].ended) == (b"aa", True)


def test_canceled_reader_aborts_the_writer(answers: dict[str, dict[str, Answer]]) -> None:
    assert answers["dev"]["/cancel"].body == b"gone: enough"


def test_sleep_ends_when_its_signal_aborts(answers: dict[str, dict[str, Answer]]) -> None:
    assert json.loads(answers["dev"]["/sleep"].body) == ["woken", "before", "woken"]


def test_log_writes_one_line_of_json_for_each_record(answers: dict[str, dict[str, Answer]]) -> None:
    lines = answers["dev"]["/log"].lines
    assert {stream for stream, _ in lines} == {"stderr"}
    assert lines[1][1] == '{"level":"info","msg":"signed in","user":"ada","ms":12,"ok":true,"list":[1,"two"]}'
    debug, _, warn, error, hostile = (json.loads(text) for _, text in lines)
    assert debug == {"level": "debug", "msg": "a debug line"}
    assert warn == {
        "level": "warn",
        "msg": "two\nlines",
        "level_": "mine",
        "msg_": "mine too",
        "when": "1970-01-01T00:00:00.000Z",
    }
    assert error["error"] == "TypeError: no"
    assert error["circle"] == {"name": "circle", "big": "12", "self": "[circular]"}
    assert hostile == {"level": "error", "msg": "42", "bad": "[Error: hostile]"}


LEFT = {
    "/left/pull": "cancel: AbortError: the client disconnected",
    "/left/busy": "cancel",
    "/left/idle": "abort: AbortError: the client disconnected",
    "/left/stream": "finally: true",
    "/left/waiting": "resolved",
    "/left/events": "after the loop",
    "/left/wait": "waited",
    "/left/failing": "Error: no cleanup",
}
"""Output of the cleanup, some turns of the event loop after the client has left."""


@pytest.mark.parametrize("mode", MODES)
def test_cleanup_runs_after_the_client_has_left(
    programs: Programs, mode: BuildMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "DISCONNECT_GRACE_SECONDS", 5)
    artifact = programs.artifact("guest_library", mode)
    replies = ask(programs, artifact, *LEFT, environment=ENVIRONMENT, leave_after=1)
    printed = {
        path: [text for _, text in answer.lines][:1] for path, answer in zip(LEFT, replies, strict=True)
    }
    assert printed == {path: [text] for path, text in LEFT.items()}
    assert {answer.report.outcome for answer in replies} == {"client-gone"}


def test_client_that_leaves_before_the_response_aborts_the_signal_of_derived_requests(
    programs: Programs,
) -> None:
    leave = asyncio.Event()
    leave.set()
    artifact = programs.artifact("guest_library", "dev")
    [answer] = ask(programs, artifact, "/left/before", environment=ENVIRONMENT, leave=leave)
    assert (answer.report.outcome, answer.lines) == ("client-gone", [("stdout", "before")])


def test_run_ends_with_its_cleanup_or_after_the_grace(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = programs.artifact("guest_library", "dev")
    (never,) = ask(programs, artifact, "/left/never", environment=ENVIRONMENT, leave_after=1)
    assert never.report.wall_ns >= execution.DISCONNECT_GRACE_SECONDS * 1e9
    assert never.report.outcome == "client-gone"
    monkeypatch.setattr(execution, "DISCONNECT_GRACE_SECONDS", 5)
    (done,) = ask(programs, artifact, "/left/waiting", environment=ENVIRONMENT, leave_after=1)
    assert done.report.wall_ns < 5e9


def test_client_disconnect_ends_an_endless_stream(programs: Programs) -> None:
    (answer,) = ask(
        programs,
        programs.artifact("guest_library", "dev"),
        "/forever",
        environment=ENVIRONMENT,
        leave_after=3,
    )
    assert answer.report.outcome == "client-gone"
    assert answer.chunks[:3] == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n"]
