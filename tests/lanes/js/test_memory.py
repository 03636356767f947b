"""Lack of memory in functions of the engine: code catches a RangeError, in dev and deploy alike."""

import pytest

from tests.engine.wasm.conftest import Answer
from tests.lanes.js.conftest import MODES, Programs

pytestmark = pytest.mark.slow
OUT_OF_MEMORY = "thrown out of memory"
"""The engine throws this text where an array or a string does not fit."""
ERRORS = {
    "/array": OUT_OF_MEMORY,
    "/blob": "RangeError: Blob: 64 MiB more do not fit into memory_limit_mb",
    "/blobs": "RangeError: Blob: 2 MiB more do not fit into memory_limit_mb",
    "/file": "RangeError: File: 64 MiB more do not fit into memory_limit_mb",
    "/blob-text": "RangeError: Blob: 64 MiB more do not fit into memory_limit_mb",
    "/blob-array-buffer": OUT_OF_MEMORY,
    "/slice": "RangeError: slice(): 32 MiB more do not fit into memory_limit_mb",
    "/response": "RangeError: Response: 30 MiB more do not fit into memory_limit_mb",
    "/array-buffer": "RangeError: arrayBuffer(): 40 MiB more do not fit into memory_limit_mb",
    "/bytes": "RangeError: arrayBuffer(): 3 MiB more do not fit into memory_limit_mb",
    "/text": "RangeError: text(): 3 MiB more do not fit into memory_limit_mb",
    "/json": "RangeError: json(): 3 MiB more do not fit into memory_limit_mb",
    "/body-blob": "RangeError: blob(): 3 MiB more do not fit into memory_limit_mb",
    "/request": "RangeError: Request: 60 MiB more do not fit into memory_limit_mb",
    "/fetch": "RangeError: fetch: 60 MiB more do not fit into memory_limit_mb",
    "/decode": "RangeError: decode(): 1 MiB more do not fit into memory_limit_mb",
    "/encode": "RangeError: encode(): the bytes do not fit into memory_limit_mb",
    "/btoa": "RangeError: btoa: 120 MiB more do not fit into memory_limit_mb",
    "/url": "RangeError: URL: 121 MiB more do not fit into memory_limit_mb",
    "/parameters": "RangeError: URLSearchParams: 121 MiB more do not fit into memory_limit_mb",
    "/headers": "RangeError: Headers: 120 MiB more do not fit into memory_limit_mb",
    "/append": "RangeError: Headers: 120 MiB more do not fit into memory_limit_mb",
    "/response-headers": "RangeError: Headers: 120 MiB more do not fit into memory_limit_mb",
    "/request-headers": "RangeError: Headers: 120 MiB more do not fit into memory_limit_mb",
    "/objects": OUT_OF_MEMORY,
    "/list": OUT_OF_MEMORY,
    "/closures": OUT_OF_MEMORY,
    "/name": "RangeError: Headers: 120 MiB more do not fit into memory_limit_mb",
    "/name-of-an-object": "RangeError: Headers: 120 MiB more do not fit into memory_limit_mb",
    "/names": "RangeError: Headers: 120 MiB more do not fit into memory_limit_mb",
    "/values": "RangeError: Headers: 150 MiB more do not fit into memory_limit_mb",
    "/parameter": "RangeError: URLSearchParams: 120 MiB more do not fit into memory_limit_mb",
    "/set-parameter": "RangeError: URLSearchParams: 240 MiB more do not fit into memory_limit_mb",
    "/object-of-parameters": "RangeError: URLSearchParams: 240 MiB more do not fit into memory_limit_mb",
    "/encoded-parameter": "RangeError: URLSearchParams: 270 MiB more do not fit into memory_limit_mb",
    "/parameter-of-a-url": "RangeError: URLSearchParams: 240 MiB more do not fit into memory_limit_mb",
    "/search": "RangeError: URL: 121 MiB more do not fit into memory_limit_mb",
    "/hash": "RangeError: URL: 136 MiB more do not fit into memory_limit_mb",
    "/base": "RangeError: URL: 121 MiB more do not fit into memory_limit_mb",
    "/type": "RangeError: Blob: 240 MiB more do not fit into memory_limit_mb",
    "/form": "RangeError: FormData: 64 MiB more do not fit into memory_limit_mb",
    "/redirect": "RangeError: Response.redirect: 161 MiB more do not fit into memory_limit_mb",
    "/log": "completed undefined",
    "/log-of-an-object": "completed undefined",
    "/log-of-bytes": "completed undefined",
    "/log-of-values": "completed undefined",
    "/log-of-objects": "completed undefined",
    "/recursion": "InternalError: too much recursion",
    "/concat": "InternalError: allocation size overflow",
}


@pytest.fixture(scope="module")
def answers(programs: Programs) -> dict[str, dict[str, Answer]]:
    return {mode: programs.answers("memory", mode, ERRORS) for mode in MODES}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", ERRORS)
def test_lack_of_memory_is_an_error_that_code_can_catch(
    answers: dict[str, dict[str, Answer]], target: str, mode: str
) -> None:
    answer = answers[mode][target]
    assert (answer.report.outcome, answer.report.detail) == ("ok", "")
    assert answer.body.decode() in (ERRORS[target], OUT_OF_MEMORY)
