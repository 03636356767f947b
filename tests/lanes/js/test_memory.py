"""Lack of memory in functions of the engine: code catches a RangeError, in dev and deploy alike."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.lane import BuildMode
from engine.manifest.model import Resource
from tests.lanes.js.programs import Programs
from tests.lanes.js.sources import Sources, ask
from tests.support.guest_client import Answer

pytestmark = pytest.mark.slow
OUT_OF_MEMORY = "thrown out of memory"
"""The engine throws this text where an array or a string does not fit."""
MODES = [pytest.param("dev", marks=pytest.mark.nightly), "deploy"]
"""The engine and its limits are the same in both."""
ERRORS = {
    "/array": OUT_OF_MEMORY,
    "/blob": "RangeError: Blob: 20 MiB more do not fit into memory_limit_mb",
    "/blobs": "RangeError: Blob: 2 MiB more do not fit into memory_limit_mb",
    "/file": "RangeError: File: 20 MiB more do not fit into memory_limit_mb",
    "/blob-text": "RangeError: Blob: 50 MiB more do not fit into memory_limit_mb",
    "/blob-array-buffer": "RangeError: arrayBuffer(): 40 MiB more do not fit into memory_limit_mb",
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
    "/form": "RangeError: Blob: 20 MiB more do not fit into memory_limit_mb",
    "/redirect": "RangeError: Response.redirect: 161 MiB more do not fit into memory_limit_mb",
    "/log": "completed undefined",
    "/log-of-an-object": "completed undefined",
    "/log-of-bytes": "completed undefined",
    "/log-of-values": "completed undefined",
    "/log-of-objects": "completed undefined",
    "/recursion": "InternalError: too much recursion",
    "/concat": "InternalError: allocation size overflow",
}


@pytest.fixture(scope="module", params=MODES)
def answers(request: pytest.FixtureRequest, programs: Programs) -> dict[str, Answer]:
    return programs.answers("memory", request.param, ERRORS)


@pytest.mark.parametrize("target", ERRORS)
def test_lack_of_memory_is_an_error_that_code_can_catch(answers: dict[str, Answer], target: str) -> None:
    answer = answers[target]
    assert (answer.report.outcome, answer.report.detail) == ("ok", "")
    assert answer.body.decode() in (ERRORS[target], OUT_OF_MEMORY)


@pytest.mark.parametrize("mode", MODES)
def test_streams_leave_little_garbage(programs: Programs, mode: BuildMode) -> None:
    for answer in programs.answers("memory", mode, ("/streamed", "/compressed")).values():
        assert answer.body == b"completed 104857600"
        assert answer.report.peak_memory is not None
        assert answer.report.peak_memory < 40 << 20


class Limited(Sources):
    """The program `memory.js` with a memory limit."""

    def __init__(self, root: Path, cache: Path, limit_mb: int) -> None:
        super().__init__(root, cache)
        self._limit_mb = limit_mb
        self.write("index.js", Path(__file__).with_name("memory.js").read_text())

    @property
    def resource(self) -> Resource:
        return replace(super().resource, memory_limit_mb=self._limit_mb)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("limit_mb", "target", "expected"),
    [(256, "/graph", "completed 400000"), (128, "/graph", OUT_OF_MEMORY), (64, "/list", OUT_OF_MEMORY)],
)
def test_heap_of_objects_is_a_quarter_of_the_memory_limit(
    tmp_path: Path, cache: Path, limit_mb: int, target: str, expected: str, mode: BuildMode
) -> None:
    limited = Limited(tmp_path.resolve(), cache, limit_mb)
    (answer,) = ask(limited, limited.build(mode), target)
    assert (answer.report.outcome, answer.body.decode()) == ("ok", expected)
