import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.sourcemap import SourceMap

# One line of the bundle: columns 0 and 8 come from lines 1 and 3 of a.ts, column 20 from b.ts 2:5.
MAP = json.dumps({"version": 3, "sources": ["src/a.ts", "src/b.ts"], "mappings": "AAAA,QAEE,YCDE;"}).encode()


def test_position_maps_to_nearest_preceding_segment() -> None:
    mapping = SourceMap.parse(MAP)
    assert mapping.locate(1, 1) == ("src/a.ts", 1, 1)
    assert mapping.locate(1, 8) == ("src/a.ts", 1, 1)
    assert mapping.locate(1, 9) == ("src/a.ts", 3, 3)
    assert mapping.locate(1, 400) == ("src/b.ts", 2, 5)
    assert mapping.locate(2, 1) is None and mapping.locate(99, 1) is None and mapping.locate(0, 0) is None


def test_position_before_first_segment_of_its_line_maps_to_that_one() -> None:
    mappings = "AAAA;oBAEE"  # as of a template of Vue: the second line begins with column 20
    mapping = SourceMap.parse(json.dumps({"version": 3, "sources": ["a.vue"], "mappings": mappings}).encode())
    assert mapping.rewrite("setup@svc-app.js:2:7") == "    at setup (a.vue:3:3)"
    assert mapping.rewrite("helper@svc-app.js:3:1") is None


def test_stack_frames_are_rewritten_and_other_lines_unchanged() -> None:
    mapping = SourceMap.parse(MAP)
    assert mapping.rewrite("handle@svc-app.js:1:9") == "    at handle (src/a.ts:3:3)"
    assert mapping.rewrite("@svc-app.js:1:9") == "    at (src/a.ts:3:3)"
    assert mapping.rewrite("serve@svc-loader.js:3:9") is None
    for line in ("", "me@example.com wrote", "Error: boom", "x@svc-app.js", "https://a@svc-app.js/1:2"):
        assert mapping.rewrite(line) == line


def test_function_names_lose_decorations_of_javascript_engine() -> None:
    mapping = SourceMap.parse(MAP)
    for printed, shown in {
        "async*run": "run (",
        "run/<": "run (",
        "promise callback*run/later<": "run/later (",
        "Promise.any*all": "all (",
        "svcApp<": "(",
        "svcApp": "(",
        "svcApp</inner": "inner (",
        "run/svcApp<": "run (",
        "run/svcApp</svcApp/svcApp</<": "run (",
        "app/chunks/page-X.mjs/setup": "setup (",
        "node_modules/a/b.cjs": "(",
    }.items():
        assert mapping.rewrite(f"{printed}@svc-app.js:1:9") == f"    at {shown}src/a.ts:3:3)"


@pytest.mark.parametrize(
    "line",
    [
        " " * 200_000 + "svc-",
        "/" * 200_000 + "x@svc-app.js:1:9",
        "@svc-app.js" * 20_000 + "x",
        "svc-loader.js line 1" * 10_000,
        "a@svc-app.js:1:" + "9" * 200_000,
        "svc-app.js:" + "9" * 200_000 + ":1",
        "*" * 200_000 + "x@svc-app.js:1:9",
    ],
)
def test_rewrite_time_is_linear_in_line_length(line: str) -> None:
    mapping = SourceMap.parse(MAP)
    began = time.process_time()
    mapping.rewrite(line)
    assert time.process_time() - began < 5  # milliseconds; minutes where it grows with the square


@pytest.mark.parametrize(
    "data", [b"[" * 200_000, json.dumps({"sources": ["a"], "mappings": "g" * 5_000_000}).encode()]
)
def test_invalid_map_maps_nothing_in_bounded_time(data: bytes) -> None:
    began = time.process_time()
    assert SourceMap.parse(data).locate(1, 1) is None
    assert time.process_time() - began < 5


def test_positions_within_text_are_rewritten() -> None:
    mapping = SourceMap.parse(MAP)
    assert mapping.rewrite("svc-app.js:1:9 Error: boom") == "src/a.ts:3:3 Error: boom"
    assert mapping.rewrite("in svc-loader.js line 115 > eval:1:9") == "in src/a.ts:3:3"
    assert mapping.rewrite("svc-app.js:7:9 Error: boom") == "svc-app.js:7:9 Error: boom"


def test_file_names_are_percent_decoded() -> None:
    document = {"version": 3, "sources": ["a%20%231%3F/ü.ts"], "mappings": "AAAA"}
    result = SourceMap.parse(json.dumps(document).encode()).rewrite("f@svc-app.js:1:1")
    assert result == "    at f (a #1?/ü.ts:1:1)"


@pytest.mark.parametrize(
    "source",
    [
        "../x/lanes/js/glue/runtime.js",
        "lanes/js/compat/async_hooks.cjs",
        "../cache/toolchains/js-698822754cde47f3/node_modules/@jspm/core/nodelibs/browser/url.js",
        "svc:node_modules/brotli/decode.js",
    ],
)
def test_frames_of_svc_are_dropped(source: str) -> None:
    document = {"version": 3, "sources": [source], "mappings": "AAAA"}
    assert SourceMap.parse(json.dumps(document).encode()).rewrite("fail@svc-app.js:1:1") is None


@given(
    st.binary(max_size=80)
    | st.text("AQECg/,;+!z", max_size=60).map(
        lambda m: json.dumps({"sources": ["a"], "mappings": m}).encode()
    )
)
def test_garbage_never_raises(data: bytes) -> None:
    mapping = SourceMap.parse(data)
    for line in range(4):
        for column in (0, 1, 7, 10**9):
            mapping.locate(line, column)
    mapping.rewrite("f@svc-app.js:1:1")
