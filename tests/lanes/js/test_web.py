"""Web APIs of the js lane, in dev and deploy mode; `web.js` has the checks."""

import json
from typing import Any

import pytest

from engine.lane import BuildMode
from tests.lanes.js.programs import Programs
from tests.lanes.js.sources import MODES
from tests.support.guest_client import Answer

pytestmark = pytest.mark.slow
NO_BODY = "TypeError: Response: a response with the status {} has no body"
VALUES: dict[str, Any] = {
    "timer-order": [[1, 5, "every", 20, "every"], "number"],
    "no-location": ["undefined", False],
    "utf-8-of-bodies": [["caf\ufffd"], [300], ["a\ufeff"], ['{"a":"\ufeff"}'], ["\ufffd"], "a\ufffd"],
    "utf-8-of-forms": [[["\ufeffa", "\ufffd"], ["b", "\ufffd"]], [["a", "\ufeff\ufffd"]]],
    "body-of-a-status": [*(NO_BODY.format(status) for status in (204, 205, 304)), NO_BODY.format(204), 204],
    "clone-text": [201, "1", "tea", "tea"],
    "clone-twice": ["ab", "ab", "ab"],
    "clone-is-independent": ["1", False, True, True, True],
    "clone-without-body": [204, None, ""],
    "clone-of-a-used-body": "TypeError",
    "clone-of-a-locked-body": "TypeError",
    "clone-of-a-request": ["POST", "tea", "tea"],
    "bytes": [[116, 101, 97], [97, 98]],
    "blob": ["text/html", 3, "<p>"],
    "content-length": [None, None, ["content-type"], "3", "3", "3"],
    "stream-from": [[1, 2], "TypeError"],
    "stream-iteration-cancels": [True, False],
    "wrong-content-length": [2 << 20] * 4,
    "stream-iteration-ends-early": [
        "TypeError",
        False,
        {"done": True, "value": "stop"},
        ["stop"],
        {"done": True},
        True,
    ],
    "stream-iteration-fails": "RangeError",
    "text-encoder-stream": [[97], [240, 159, 152, 128, 98], [239, 191, 189]],
    "text-decoder-stream": ["üa", "utf-8", True, False],
    "pipe-with-signal": [
        "stop",
        ["write", "write", "abort stop", "cancel stop"],
        False,
        False,
        [1, 2],
        "TypeError",
    ],
    "writable-signal": [False, True, "stop"],
    "byte-streams": [[116, 101], "tea!", True],
    "file-reader": [[["loadstart", 3], ["load", 3]], "data:text/plain;base64,dGVh", "InvalidStateError"],
    "byob-of-a-body": [[116, 101], [120]],
    "failing-body": ["RangeError", "TypeError"],
    "data-url": [
        ["text/plain;charset=x", [255, 37, 50]],
        ["text/plain;charset=US-ASCII", [116, 101, 97]],
        "TypeError",
    ],
    "refused-requests": ["TypeError", "TypeError", "TypeError", "TypeError"],
    "timed-out-signal": "TimeoutError",
    "stream-classes": [
        "WritableStreamDefaultWriter",
        "WritableStreamDefaultController",
        "TransformStreamDefaultController",
    ],
    "message-channel": ["first", {"list": [1]}],
    "error-event": [True, "error", "no", 7, 0],
    "report-error": "no",
    "url": [True, False, None, "/a"],
    "abort-any": [False, True, "reason", "x", False],
    "abort-without-reason": ["AbortError", "x"],
    "computed-import": "Error",
    "base64": ["InvalidCharacterError", "InvalidCharacterError", "tea"],
    "navigator": "string",
    "performance": [5, 3, ["a", "b", "c"], 1, "x"],
    "request-checks": ["", False, "follow", "TypeError", "TypeError", "TypeError"],
    "incoming-request": ["manual", False, "manual"],
    "clones": ["AbortError", "a", "TypeError", "DataCloneError", "DataCloneError"],
    "clone-of-a-key": [True, False, True, "tea", ["sign"]],
    "body-used-after-a-pipe": [True, True, "tea", False],
    "form-without-parts": [0, 0],
    "time-origin": True,
    "error": ["error", 0, False, None],
}
RESPONSES = {
    "/copied-headers": (200, {"content-length": "6"}, "longer"),
    "/read-headers": (200, {"content-length": "3", "x-a": "1"}, "tea"),
    "/clone-returned": (201, {"content-length": "3", "x-a": "1"}, "tea"),
    "/copy-returned": (200, {}, "ab"),
}


@pytest.fixture(scope="module")
def answers(programs: Programs) -> dict[str, dict[str, Answer]]:
    targets = [*(f"/{name}" for name in VALUES), *RESPONSES, "/error-returned"]
    return {mode: programs.answers("web", mode, targets) for mode in MODES}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", VALUES)
def test_web_api_has_the_standard_value(answers: dict[str, dict[str, Answer]], mode: str, name: str) -> None:
    answer = answers[mode][f"/{name}"]
    assert answer.status == 200, answer
    assert json.loads(answer.body) == VALUES[name]


@pytest.mark.parametrize("mode", MODES)
def test_brotli_stream_has_the_standard_value(programs: Programs, mode: BuildMode) -> None:
    (answer,) = programs.answers("brotli", mode, ["/"]).values()
    assert answer.status == 200, answer
    assert json.loads(answer.body) == ["tea " * 50, True, True, True, "TypeError", "TypeError"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", RESPONSES)
def test_response_is_sent_as_made(answers: dict[str, dict[str, Answer]], mode: str, target: str) -> None:
    answer = answers[mode][target]
    status, headers, text = RESPONSES[target]
    assert (answer.status, answer.body.decode()) == (status, text)
    sent = {name.decode(): value.decode() for name, value in answer.headers.items()}
    assert {name: sent.get(name) for name in headers} == headers


@pytest.mark.parametrize("mode", MODES)
def test_error_response_fails_the_request(answers: dict[str, dict[str, Answer]], mode: str) -> None:
    report = answers[mode]["/error-returned"].report
    assert (report.outcome, report.detail) == (
        "guest-failed",
        "TypeError: api/index.js: fetch() returned Response.error()",
    )
