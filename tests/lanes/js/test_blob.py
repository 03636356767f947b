"""Blobs of 1 MiB and more in the js lane, in dev and deploy mode; `blob.js` has the checks."""

import json
from typing import Any

import pytest

from tests.lanes.js.programs import Programs
from tests.lanes.js.sources import MODES
from tests.support.guest_client import Answer

pytestmark = pytest.mark.slow
MIB = 1 << 20
SIZE = MIB + 9
TEXT = "a\r\nbCdeef7"
VALUES: dict[str, Any] = {
    "parts": [SIZE, "text/plain", TEXT, SIZE, SIZE, True, "[object Blob]"],
    "line-endings": "a\nbCdeef7",
    "text": [MIB + 6, True],
    "bytes-are-copied": "aaaa",
    "slice": [SIZE - 2, "a/b", "\r\nbCdeef", "bc3", "ef7", "a\r\nb", "", "a\r\n", TEXT, "a\r", 3],
    "blob-of-blobs": [SIZE + 1 + 9, f"{TEXT}-ccccdeef7"],
    "file": [SIZE, "a.txt", "text/plain", 5, True, TEXT],
    "stream": [[97, 13, 10, 98], SIZE, SIZE, TEXT],
    "clone": [True, False, "a.txt", 5, SIZE, "c/d", TEXT],
    "response": ["a/b", None, "c/d", SIZE, "a/b", TEXT, TEXT, True],
    "request": ["a/b", str(SIZE), TEXT, SIZE],
    "form": [
        5,
        ['a"\r\n', "line\r\nline"],
        ["blob", ["blob", "a/b", SIZE]],
        ["renamed", ['new "name"', "application/octet-stream", SIZE]],
        ["file", ["é.txt", "application/octet-stream", SIZE]],
        TEXT,
    ],
    "reader": TEXT,
    "compressed": 40 * MIB,
    "many-parts": sum(min(40 - start, 10) for start in range(40)) * MIB,
}


@pytest.fixture(scope="module")
def answers(programs: Programs) -> dict[str, dict[str, Answer]]:
    return {
        mode: programs.answers("blob", mode, (f"/{name}" for name in (*VALUES, "sent"))) for mode in MODES
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", VALUES)
def test_large_blob_has_the_standard_value(
    answers: dict[str, dict[str, Answer]], mode: str, name: str
) -> None:
    answer = answers[mode][f"/{name}"]
    assert answer.status == 200, answer
    assert json.loads(answer.body) == VALUES[name]


@pytest.mark.parametrize("mode", MODES)
def test_large_blob_is_sent_with_its_length_and_type(
    answers: dict[str, dict[str, Answer]], mode: str
) -> None:
    answer = answers[mode]["/sent"]
    assert (answer.status, answer.body) == (200, b"a" * 3 * MIB)
    headers = dict(answer.headers)
    assert (headers[b"content-length"], headers[b"content-type"]) == (str(3 * MIB).encode(), b"text/plain")
