"""The parser of long JSON bodies: its values are those of `json`, and its steps are short."""

import json
import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import stepwise_json
from engine.stepwise_json import MAX_DEPTH, MAX_STEP, TooComplex, parse
from tests.support.examples import examples

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS,
    lambda values: st.lists(values, max_size=5) | st.dictionaries(_TEXTS, values, max_size=5),
)
SIZE = 1 << 18


@given(_VALUES, st.booleans(), st.sampled_from([None, 1]), st.sampled_from([0, MAX_STEP]))
@settings(max_examples=examples(100))
def test_parse_returns_the_value_of_the_json_module(
    value: Any, ascii_only: bool, indent: int | None, padding: int
) -> None:
    document = [value, "x" * padding, {"a": "\U0001f600\n" * (padding // 8), "b": value}]
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    assert parse(text, 10_000) == document


@given(st.text('[]{}",:\\u0129dDe.-tfn \n', max_size=30), st.sampled_from([0, MAX_STEP]))
@settings(max_examples=examples(200))
def test_parse_rejects_what_the_json_module_rejects(text: str, padding: int) -> None:
    document = f'["{"x" * padding}", {text}]'
    try:
        value = json.loads(document)
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        with pytest.raises(ValueError):
            parse(document, 10_000)
    else:
        assert parse(document, 10_000) == value


@pytest.mark.parametrize(
    "text",
    [
        f"[{'1,' * (SIZE // 2)}1]",
        f"[{'{},' * (SIZE // 3)}1]",
        json.dumps({f"n{number}": number for number in range(SIZE // 16)}),
    ],
    ids=["numbers", "objects", "members"],
)
def test_parse_of_too_many_values_is_refused(text: str) -> None:
    with pytest.raises(TooComplex):
        parse(text, 10_000)


def test_parse_of_deep_nesting_is_refused() -> None:
    depth = MAX_DEPTH + 1
    with pytest.raises(TooComplex, match="levels of nesting"):
        parse(f'{"[" * depth}"{"x" * MAX_STEP}"{"]" * depth}', 1000)
    with pytest.raises(ValueError):
        parse("[" * SIZE, 2 * SIZE)


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ValueError):
        parse(r'"\ud83d"', 1)
    with pytest.raises(ValueError):
        parse(r'["\ud83d"]', 2)


@pytest.mark.parametrize(
    "text",
    [
        f"[{'1,' * (SIZE // 2)}1]",
        f"[{'{},' * (SIZE // 3)}1]",
        f'"{"x" * SIZE}"',
        '"' + r"\n" * (SIZE // 2) + '"',
        f'{{"x": [{"[1,2]," * (SIZE // 6)}1]}}',
        f"{' ' * SIZE}1",
        json.dumps([{f"c{column}": "text" for column in range(50)}] * (SIZE // 700)),
    ],
    ids=["numbers", "objects", "text", "escapes", "lists", "blanks", "rows"],
)
def test_long_document_is_parsed_in_many_calls(text: str) -> None:
    # A call into C holds the interpreter's lock until it returns.
    calls = 0

    def count(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "c_call" and frame.f_code.co_filename == stepwise_json.__file__

    sys.setprofile(count)
    try:
        parse(text, len(text))
    finally:
        sys.setprofile(None)
    assert calls >= len(text) // MAX_STEP
