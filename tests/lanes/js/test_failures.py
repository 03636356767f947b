"""Failures of user code: equal in both modes, with the user's message."""

import asyncio
import re
from dataclasses import replace

import pytest

from engine.wasm.execution.runner import Runner
from tests.lanes.js.programs import Programs
from tests.lanes.js.sources import MODES
from tests.support.guest_client import Answer, Client

pytestmark = pytest.mark.slow
DETAILS = {
    "/cycle": "Error: outer",
    "/cause": "Error: outer",
    "/several": "AggregateError: No Promise in Promise.any was resolved",
    "/null": "Uncaught object: null",
    "/lines": "Error: not valid:",
    "/bare": "Uncaught object: {}",
    "/hostile": "Error: an error that cannot be shown",
    "/timer": "Error: deep",
    "/microtask": "Error: deep",
    "/used": "TypeError: api/index.js: fetch() returned a Response whose body was read already",
    "/strict": "ReferenceError: assignment to undeclared variable undeclared",
    "/text": "TypeError: a chunk of the response body is a string, not a Uint8Array: use TextEncoder",
    "/pull": "Error: deep",
    "/glue": "Problem: of the user",
    "/length": "the guest announced another content-length than the 3 bytes it wrote",
    "/never": "the handler never answers: fetch() returned a promise that nothing can settle",
    "/stalled": "the response never ends: its stream waits for a promise that nothing can settle",
}
BODIES = {
    "/printed": b"printed",
    "/nested": b"printed",
    "/stack": b"printed",
    "/console": b"printed",
    "/globals": b"[]",
    "/meta": b"/other.js",
    "/types": b"[true,true]",
    "/names": b'["Problem","Problem","MessagePort","Own","Problem","a method"]',
}


def printed(answer: Answer) -> list[tuple[str, str]]:
    """Return the output without notices: other programs of the component call Doors while they are loaded."""
    return [(stream, text) for stream, text in answer.lines if stream in ("stdout", "stderr")]


@pytest.fixture(scope="module")
def answers(programs: Programs) -> dict[str, dict[str, Answer]]:
    return {
        mode: programs.answers("odd", mode, [*DETAILS, *BODIES, "/memory", "/lack", "/bounds"])
        for mode in MODES
    }


@pytest.mark.parametrize("target", DETAILS)
def test_failure_is_reported_with_the_users_message(
    answers: dict[str, dict[str, Answer]], target: str
) -> None:
    answer = answers["dev"][target]
    assert (answer.report.outcome, answer.report.detail) == ("guest-failed", DETAILS[target])
    assert not answer.ended
    assert (answer.status is None) == (target not in ("/text", "/pull", "/length", "/stalled"))


@pytest.mark.parametrize("target", [*DETAILS, *BODIES])
def test_dev_and_deploy_fail_alike(answers: dict[str, dict[str, Answer]], target: str) -> None:
    def comparable(answer: Answer) -> object:
        return answer.status, answer.headers, answer.body, answer.ended, printed(answer), answer.report.detail

    assert comparable(answers["dev"][target]) == comparable(answers["deploy"][target])


@pytest.mark.parametrize("target", BODIES)
def test_handled_failure_is_answered(answers: dict[str, dict[str, Answer]], target: str) -> None:
    answer = answers["dev"][target]
    assert (answer.status, answer.body, answer.report.outcome) == (200, BODIES[target], "ok")


@pytest.mark.parametrize("mode", MODES)
def test_lack_of_memory_names_the_last_call_and_the_last_output(
    answers: dict[str, dict[str, Answer]], mode: str
) -> None:
    report = answers[mode]["/memory"].report
    assert report.outcome == "memory-limit"
    assert report.detail.endswith(
        "; the last call was: GET http://127.0.0.1:9/pay; the last output was: step 1"
    )


@pytest.mark.parametrize("mode", MODES)
def test_promise_that_lack_of_memory_leaves_pending_names_the_memory(
    answers: dict[str, dict[str, Answer]], mode: str
) -> None:
    report = answers[mode]["/lack"].report
    assert report.outcome == "guest-failed"
    assert re.search(
        r"never answers: .*; \d+ of 128 MiB of memory were taken, so an allocation may have failed$",
        report.detail,
    )


@pytest.mark.parametrize("mode", MODES)
def test_access_out_of_bounds_names_the_memory(answers: dict[str, dict[str, Answer]], mode: str) -> None:
    report = answers[mode]["/bounds"].report
    assert report.outcome in ("guest-failed", "memory-limit")
    assert re.search("an allocation may have failed$|^out of memory: ", report.detail)


def test_endless_regular_expression_ends_at_the_run_limit(programs: Programs) -> None:
    async def main() -> tuple[Answer, Answer]:
        runner = Runner(programs.cache)
        try:
            guests = [
                await runner.guest(
                    replace(programs.resource, run_limit_secs=limit),
                    programs.artifact("odd", "dev"),
                    {"PROGRAM": "odd", "SVC_PROJECT": project},
                    fast=False,
                    report=lambda line: None,
                )
                for project, limit in (("busy", 1), ("other", 30))
            ]
            endless = asyncio.create_task(Client().call(guests[0], "/regex"))
            await asyncio.sleep(0.1)
            other = await Client().call(guests[1], "/types")
            return other, await endless
        finally:
            await runner.aclose()

    other, endless = asyncio.run(main())
    assert (other.report.outcome, other.status) == ("ok", 200)
    assert (endless.report.outcome, endless.status) == ("run-limit", None)
    assert endless.report.detail == "the run took longer than run_limit_secs = 1"


def test_stacks_of_causes_timers_and_printed_errors_have_the_file(
    answers: dict[str, dict[str, Answer]],
) -> None:
    def lines(target: str) -> list[str]:
        return [text for _, text in printed(answers["dev"][target])]

    assert lines("/cause")[0] == "Error: outer"
    assert "  caused by TypeError: inner" in lines("/cause")
    assert {"  caused by Error: one", "  caused by Error: two"} <= set(lines("/several"))
    glue = lines("/glue")
    assert [line.split(" (")[0] for line in glue[2:4]] == ["    at guarded", "    at answer"]
    assert lines("/timer")[:2] == ["Error: deep", "    at deep (api/odd.js:5:9)"]
    assert lines("/printed")[:2] == ["caught Error: deep", "    at deep (api/odd.js:5:9)"]


def test_stack_begins_with_the_message(answers: dict[str, dict[str, Answer]]) -> None:
    lines = [text for _, text in printed(answers["dev"]["/stack"])]
    assert lines[:2] == ["Error: deep", "    at deep (api/odd.js:5:9)"]
    messages = [line for line in lines if line and not line.startswith("    at ")]
    assert messages[:3] == ["Error: deep", "Error: deep", "added"]
    assert messages[3:] == ["Captured: own", "Captured: own", "replaced name"]
    captured = lines.index("Captured: own")
    assert lines[captured + 1].startswith("    at /stack/captured (api/odd.js:")


def test_console_shows_errors_and_entries_within_values(answers: dict[str, dict[str, Answer]]) -> None:
    lines = [text for _, text in printed(answers["dev"]["/console"])]
    assert lines[0] == "{ error: Error: inside" and lines[1].startswith("    at /console (api/odd.js:")
    assert [line for line in lines[1:] if not line.startswith("    at ")] == [
        "after: 1 }",
        'Headers(1) { "host" => "api.localhost" } { form: FormData(1) { "a" => "b" } } '
        '[URLSearchParams(2) { "a" => "1", "a" => "2" }] Map(1) { { k: 1 } => Set(1) { 2 } }',
        'Request { method: "GET", url: "http://x/", headers: Headers(1) { "a" => "b" }, bodyUsed: false } '
        'Response { status: 201, statusText: "", url: "", headers: '
        'Headers(1) { "content-type" => "text/plain;charset=UTF-8" }, bodyUsed: false }',
        '{ n: 1n, f: [Function: deep], list: [1, -0, "x", [null]], late: [Getter], '
        "no-name: 1970-01-01T00:00:00.000Z, self: <Circular> } Uint8Array [1, 2] /r/g [Function: Own] {} "
        "[an object that cannot be shown]",
        "a has 1 of 5, 1.5, { b: 2 }% end more %s",
        '100% 50% Blob { size: 2097152, type: "" }',
        "Assertion failed: text 1",
        "Assertion failed",
        "Assertion failed { a: 1 }",
    ]
