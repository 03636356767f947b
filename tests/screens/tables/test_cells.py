import json
import math
from base64 import b64decode, b64encode
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screens.tables.cells import NOW, as_text, piece, read
from tests.support.column_types import TYPES


@given(st.integers(-(2**63), 2**63 - 1))
def test_integer_text_round_trips(value: int) -> None:
    assert read(as_text(value), TYPES["integer"]) == value


@given(st.floats(allow_nan=False))
def test_real_text_round_trips(value: float) -> None:
    second = read(as_text(value), TYPES["real"])
    assert second == value and type(second) is float
    assert math.copysign(1, second) == math.copysign(1, value)


@given(st.text())
def test_text_round_trips(value: str) -> None:
    assert read(as_text(value), TYPES["text"]) == value


@given(st.booleans())
def test_boolean_text_round_trips(value: bool) -> None:
    assert read(as_text(value), TYPES["boolean"]) is value


@given(st.binary())
def test_blob_round_trips_as_base64(value: bytes) -> None:
    cell = {"base64": b64encode(value).decode()}
    assert read(as_text(cell), TYPES["blob"]) == cell
    assert b64decode(cell["base64"]) == value


@given(st.datetimes())
def test_timestamp_text_round_trips(value: datetime) -> None:
    text = value.replace(tzinfo=UTC).isoformat()
    assert read(as_text(text), TYPES["timestamp"]) == text


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_json_text_round_trips(value: Any) -> None:
    text = json.dumps(value)
    assert read(as_text(text), TYPES["json"]) == text


@pytest.mark.parametrize(
    ("text", "type", "message"),
    [
        ("", "integer", "not a whole number"),
        ("1.5", "integer", "whole number"),
        ("٣", "integer", "whole number"),
        ("9223372036854775808", "integer", "64 bits"),
        ("much", "real", "not a number"),
        ("45e76582", "real", "a real would be inf"),
        ("0.123456789012345678", "real", "a real would be 0.12345678901234568"),
        ("1e-400", "real", "a real would be 0"),
        ("1e99999999999999999999", "real", "not a number"),
        ("nan", "real", "ctrl\\+n writes null"),
        ("maybe", "boolean", "true or false"),
        ("yesterday", "timestamp", "2026-01-02T03:04:05Z"),
        ("2026-02-30", "timestamp", "write a timestamp"),
        ("2026-01-31T10:00", "date", "write a date as 2026-01-31, or now"),
        ("2026-04-31", "date", "write a date"),
        ("{", "json", "not JSON"),
        ('{"a":NaN}', "json", "not JSON: NaN"),
        ("[-Infinity]", "json", "not JSON: -Infinity"),
        ("[" * 100_000, "json", "not JSON"),
        ("???", "blob", "base64"),
    ],
)
def test_invalid_value_raises_error_with_reason(text: str, type: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(text, TYPES[type])


@pytest.mark.parametrize("type", ["timestamp", "date"])
def test_now_is_accepted_for_timestamp_and_date(type: str) -> None:
    assert read(" NOW() ", TYPES[type]) == NOW


@given(st.dates())
def test_date_text_round_trips(value: date) -> None:
    assert read(f" {value} ", TYPES["date"]) == str(value)


@pytest.mark.parametrize(("word", "value"), [("on", True), ("Y", True), ("off", False), ("n", False)])
def test_boolean_words_match_api(word: str, value: bool) -> None:
    assert read(word, TYPES["boolean"]) is value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ("null", "dim")),
        (True, ("true", "")),
        (2.0, ("2", "")),
        (1e300, ("1e+300", "")),
        ({"size": 5_242_880, "text": "begins"}, ("begins…", "")),
        ({"size": 5_242_880, "base64": "AA=="}, ("blob, 5.0 MiB", "dim")),
        ({"base64": b64encode(b"abc").decode()}, ("blob, 3 B", "dim")),
    ],
)
def test_grid_cell_has_text_and_tone(value: Any, expected: tuple[str, str]) -> None:
    assert piece(value) == expected
