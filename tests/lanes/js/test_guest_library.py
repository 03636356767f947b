"""`@svc/guest`: what it offers, in dev and deploy alike."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engine.wasm.execution.runner import Runner
from tests.engine.wasm.conftest import Answer, Client
from tests.lanes.js.conftest import Sources, ask

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).with_name("guest_library.js")
TARGETS = [
    *("/json", "/json-none", "/events", "/keep", "/bad-event", "/empty-event", "/failing", "/stream"),
    *("/chunk", "/slow", "/cancel", "/sleep", "/log"),
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
def answers(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> dict[str, dict[str, Answer]]:
    sources = Sources(tmp_path_factory.mktemp("guest ü").resolve(), cache)
    sources.write("index.js", SOURCE.read_text())
    return {
        mode: dict(zip(TARGETS, ask(sources, sources.build(mode), *TARGETS), strict=True))
        for mode in ("dev", "deploy")
    }


@pytest.mark.parametrize("target", TARGETS)
def test_dev_and_deploy_answer_alike(answers: dict[str, dict[str, Answer]], target: str) -> None:
    def seen(answer: Answer) -> Any:
        # The length is known when the whole body was there before the head left: a matter of time.
        headers = {name: value for name, value in answer.headers.items() if name != b"content-length"}
        return answer.status, headers, answer.body, answer.ended, answer.lines, answer.report.detail

    assert seen(answers["dev"][target]) == seen(answers["deploy"][target])


def test_json(answers: dict[str, dict[str, Answer]]) -> None:
    answer = answers["dev"]["/json"]
    assert (answer.status, json.loads(answer.body)) == (201, {"text": "ü", "list": [1, None]})
    assert answer.headers[b"content-type"] == b"application/json" and answer.headers[b"x-more"] == b"yes"
    assert answers["dev"]["/json-none"].report.detail == "TypeError: undefined has no JSON form"


def test_events(answers: dict[str, dict[str, Answer]]) -> None:
    answer = answers["dev"]["/events"]
    assert answer.headers[b"content-type"] == b"text/event-stream"
    assert answer.headers[b"cache-control"] == b"no-cache" and answer.headers[b"x-more"] == b"yes"
    assert answer.body.decode() == EVENTS and answer.ended


def test_a_quiet_stream_is_kept_alive(answers: dict[str, dict[str, Answer]]) -> None:
    assert answers["dev"]["/keep"].body in (
        b"data: first\n\n" + b":\n\n" * beats + b"data: last\n\n" for beats in (1, 2)
    )


@pytest.mark.parametrize(
    ("target", "body", "detail"),
    [
        ("/bad-event", b"data: fine\n\n", "the event of an event has a line break or a zero byte"),
        ("/empty-event", b"", "an event needs one of id, event, data and retry"),
        ("/failing", b"data: before\n\n", "Error: failed half-way"),
        ("/chunk", b"", "a chunk is a number: write text or bytes"),
    ],
)
def test_an_error_cuts_the_connection(
    answers: dict[str, dict[str, Answer]], target: str, body: bytes, detail: str
) -> None:
    answer = answers["dev"][target]
    assert answer.body == body and not answer.ended
    assert answer.report.outcome == "guest-failed" and detail in answer.report.detail
    stack = [text for _, text in answer.lines if text.startswith("    at ")]
    assert stack and all("guest/index.js" not in text for text in stack)


def test_streams(answers: dict[str, dict[str, Answer]]) -> None:
    answer = answers["dev"]["/stream"]
    assert answer.body == b"text bytes a b buffer" and answer.ended
    assert answer.headers[b"content-type"] == b"text/plain; charset=utf-8"
    slow = answers["dev"]["/slow"]
    assert slow.chunks == [b"0\n", b"1\n", b"2\n"] and slow.headers[b"content-type"] == b"text/csv"


def test_who_writes_hears_that_the_reader_went(answers: dict[str, dict[str, Answer]]) -> None:
    assert answers["dev"]["/cancel"].body == b"gone: enough"


def test_sleep_can_be_ended(answers: dict[str, dict[str, Answer]]) -> None:
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


def test_a_client_that_goes_ends_an_endless_stream(sources: Sources) -> None:
    sources.write("index.js", SOURCE.read_text())
    artifact = sources.build()

    async def main() -> Answer:
        runner = Runner(sources.cache)
        try:
            guest = await runner.guest(sources.resource, artifact, {}, fast=True, report=lambda line: None)
            return await Client(leave_after=3).call(guest, "/forever")
        finally:
            await runner.aclose()

    answer = asyncio.run(main())
    assert answer.report.outcome == "client-gone"
    assert answer.chunks[:3] == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n"]
