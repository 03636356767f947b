"""Parsers from text to the values that columns store.

Each raises `ValueError` with the end of a sentence about the value: "is not a whole number".
"""

import base64
import binascii
import json
import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from itertools import accumulate
from typing import Any

from doors.tables.sqlite.errors import INTEGERS
from engine.stepwise_json import exact_decoder, refuse_constant

TRUE_WORDS = ("true", "t", "yes", "y", "on", "1")
FALSE_WORDS = ("false", "f", "no", "n", "off", "0")
DAY = (
    r"[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|[12][0-9]))"
)
"""Pattern of a calendar day. It accepts February 29 of every year."""
TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?: ?(?:Z|[+-][0-9]{2}:?[0-9]{2}))?"

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MAX_DEPTH = 1000
"""Maximum nesting of JSON. Source: https://sqlite.org/json1.html"""
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INFINITY = re.compile(r"[+-]?(?:inf(?:inity)?|9e999)", re.IGNORECASE)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?: ?(Z|[+-]\d\d:?\d\d))?)?", re.ASCII
)
_CANONICAL = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z", re.ASCII
)
"""Timestamps in the stored form whose day exists in every month and year."""


_validator = json.JSONDecoder(parse_constant=refuse_constant, parse_float=str, parse_int=str)


def decode(text: str, decoder: json.JSONDecoder = exact_decoder) -> Any:
    """Parse JSON without the constants NaN and Infinity. Raises `ValueError` and `RecursionError`."""
    if text[:1].isspace():
        return decoder.decode(text)
    document, end = decoder.raw_decode(text)
    if text[end:].strip(" \t\n\r"):
        raise json.JSONDecodeError("Extra data", text, end)
    return document


def json_mistake(error: ValueError) -> str:
    """Return what is wrong with JSON that `decode` refused."""
    # Python's text for a long number advises programmers.
    return "a number has too many digits" if str(error).startswith("Exceeds the limit") else str(error)


def timestamp(text: str) -> str:
    """Return a timestamp in the stored form, `2026-01-02T03:04:05.678Z`. Raises `ValueError`.

    Accepts ISO 8601 with a space instead of the T, any offset, or a date alone (midnight). Without an
    offset the time is UTC. Source: ISO 8601, RFC 3339.
    """
    if _CANONICAL.fullmatch(text):
        return text
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError("is not a timestamp such as 2026-01-02T03:04:05.678Z")
    *parts, fraction, offset = match.groups()
    fraction = (fraction or "").rstrip("0").ljust(3, "0")
    if len(fraction) > 3:
        raise ValueError("has digits beyond milliseconds")
    year, *numbers = (int(part or 0) for part in parts)
    try:
        # Python has no year 0. Its days are those of 2000, which is a leap year too.
        moment = datetime(year or 2000, *numbers)  # type: ignore[arg-type]
        if offset and offset != "Z":
            if not year:
                raise ValueError
            moment = datetime.fromisoformat(f"{moment.isoformat()}{offset}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("does not exist in the calendar") from None
    return f"{moment.year if year else 0:04}-{moment:%m-%dT%H:%M:%S}.{fraction}Z"


def date(text: str) -> str:
    """Return a date in the stored form, `2026-01-31`. Raises `ValueError`.

    Accepts a timestamp at midnight UTC.
    """
    text = text.strip()
    if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ]|$)", text):
        raise ValueError("is not a date such as 2026-01-31")
    day, _, time = timestamp(text).partition("T")
    if time != "00:00:00.000Z":
        raise ValueError("has a time of day")
    return day


def integer(text: str) -> int:
    """Return a 64-bit integer. Raises `ValueError`."""
    if not _INTEGER.fullmatch(text.strip()):
        raise ValueError("is not a whole number")
    if len(text) > 5000 or (value := int(text)) not in INTEGERS:
        raise ValueError("is beyond 64 bits")
    return value


def real(text: str) -> float:
    """Return a number. Raises `ValueError`, also where a real would be another number.

    Infinity is `inf` or, as exports write it, `9e999`.
    """
    word = text.strip()
    if _INFINITY.fullmatch(word):
        return float(word)
    if not NUMBER.fullmatch(word):
        raise ValueError("is not a number")
    value = float(word)
    if len(word) <= 15 and "e" not in word.lower():
        return value
    if value in (float("inf"), float("-inf")):
        raise ValueError("is beyond the range of a real")
    try:
        number = Decimal(word)
    except InvalidOperation:  # the exponent has too many digits
        raise ValueError("is beyond the range of a real") from None
    # Programs write a real with 15 to 17 digits, or with all of its digits.
    digits = len(number.as_tuple().digits) - 1
    if number != Decimal(repr(value)) and number != Decimal(f"{value:.{digits}e}"):
        raise ValueError("has more digits than a real can hold")
    return value


def boolean(text: str) -> int:
    """Return 1 for a true word, 0 for a false word. Raises `ValueError`."""
    word = text.strip().lower()
    if word not in TRUE_WORDS + FALSE_WORDS:
        raise ValueError("is neither true nor false")
    return int(word in TRUE_WORDS)


def json_text(text: str) -> str:
    """Return a text that is valid JSON. Raises `ValueError`. Source: RFC 8259."""
    try:
        decode(text, _validator)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    if text.count("[") + text.count("{") > _MAX_DEPTH:
        marks = _STRING.sub("", text)
        depths = accumulate((mark in "[{") - (mark in "]}") for mark in marks)
        if max(depths, default=0) > _MAX_DEPTH:
            raise ValueError("is nested too deeply")
    return text


def blob(text: str) -> bytes:
    """Decode base64. Raises `ValueError`."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is not base64") from None
