import json
import math
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screens.tables.cells import NOW, as_text, piece, read


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_whole_number_is_read_as_it_is_written(value: int) -> None:
    assert read(as_text(value), "integer") == value


@given(st.floats(allow_nan=False))
def test_a_number_is_read_as_it_is_written(value: float) -> None:
    again = read(as_text(value), "real")
    assert again == value and type(again) is float
    assert math.copysign(1, again) == math.copysign(1, value)


@given(st.text())
def test_a_text_is_kept_to_the_letter(value: str) -> None:
    assert read(as_text(value), "text") == value


@given(st.booleans())
def test_a_boolean_is_read_as_it_is_written(value: bool) -> None:
    assert read(as_text(value), "boolean") is value


@given(st.binary())
def test_a_blob_is_its_base64(value: bytes) -> None:
    cell = {"base64": b64encode(value).decode()}
    assert read(as_text(cell), "blob") == cell
    assert b64decode(cell["base64"]) == value


@given(st.datetimes())
def test_a_moment_is_read_as_it_is_written(value: datetime) -> None:
    text = value.replace(tzinfo=UTC).isoformat()
    assert read(as_text(text), "timestamp") == text


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_json_is_kept_to_the_letter(value: Any) -> None:
    text = json.dumps(value)
    assert read(as_text(text), "json") == text


@pytest.mark.parametrize(
    ("text", "type", "said"),
    [
        ("", "integer", "whole number"),
        ("1.5", "integer", "whole number"),
        ("٣", "integer", "whole number"),
        ("9223372036854775808", "integer", "64 bits"),
        ("much", "real", "no number"),
        ("nan", "real", "ctrl\\+n writes null"),
        ("maybe", "boolean", "true or false"),
        ("yesterday", "timestamp", "2026-01-02T03:04:05Z"),
        ("{", "json", "no JSON"),
        ("[" * 100_000, "json", "no JSON"),
        ("???", "blob", "base64"),
    ],
)
def test_what_is_wrong_with_a_value_is_said(text: str, type: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(text, type)


def test_now_is_a_moment() -> None:
    assert read(" NOW() ", "timestamp") == NOW


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, ("null", "dim")),
        (True, ("true", "")),
        (2.0, ("2", "")),
        (1e300, ("1e+300", "")),
        ({"cut": 5_242_880, "text": "begins"}, ("begins…", "")),
        ({"cut": 5_242_880, "base64": "AA=="}, ("blob, 5,120 KiB", "dim")),
        ({"base64": b64encode(b"abc").decode()}, ("blob, 3 B", "dim")),
    ],
)
def test_a_cell_in_the_grid(value: Any, said: tuple[str, str]) -> None:
    assert piece(value) == said
