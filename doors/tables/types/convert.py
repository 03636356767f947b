"""Values of the logical types: what fits which type, and how a value of one becomes one of another.

Conversions keep what a value says, or refuse with a `ValueError` whose text ends a sentence that names the
value: "7.5 has a fraction".
"""

import base64
import binascii
import json
import re
from datetime import UTC, datetime

from doors.tables.sqlite.catalog import ColumnType
from doors.tables.sqlite.errors import INTEGERS, Value

_INTEGER = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?inf(?:inity)?", re.IGNORECASE)
_TRUTH = {"true": 1, "t": 1, "yes": 1, "1": 1, "false": 0, "f": 0, "no": 0, "0": 0}
_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?: ?(Z|[+-]\d\d:?\d\d))?)?", re.ASCII
)
_EXACT = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z", re.ASCII
)
"""Moments that are as columns hold them, and surely on the calendar."""
TRUE, FALSE = "true", "false"


def timestamp(text: str) -> str:
    """Return a moment as columns hold it: `2026-01-02T03:04:05.678Z`.

    Takes ISO 8601 with a blank for the T, any offset, or a date alone, which is its midnight; what says no
    offset is in UTC, and digits beyond milliseconds are cut off. Source: ISO 8601, RFC 3339.
    """
    if _EXACT.fullmatch(text):
        return text
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise ValueError("is no timestamp such as 2026-01-02T03:04:05.678Z")
    year, month, day, hour, minute, second, fraction, offset = found.groups()
    millis = int(((fraction or "") + "000")[:3])
    # Python has no year 0; its days are those of 2000, which is a leap year too.
    early = year == "0000"
    try:
        moment = datetime(
            2000 if early else int(year),
            int(month),
            int(day),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
        )
        if offset and offset != "Z":
            if early:
                raise ValueError
            moment = datetime.fromisoformat(f"{moment.isoformat()}{offset}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("is no moment that the calendar has") from None
    year = "0000" if early else f"{moment.year:04}"
    return f"{year}-{moment:%m-%dT%H:%M:%S}.{millis:03}Z"


def integer(text: str) -> int:
    """Read a whole number of 64 bits."""
    if not _INTEGER.fullmatch(text.strip()):
        raise ValueError("is no whole number")
    if len(text) > 5000 or (value := int(text)) not in INTEGERS:
        raise ValueError("is beyond 64 bits")
    return value


def real(text: str) -> float:
    """Read a number."""
    if not _REAL.fullmatch(text.strip()):
        raise ValueError("is no number")
    return float(text)


def boolean(text: str) -> int:
    """Read true or false, as 1 or 0."""
    found = _TRUTH.get(text.strip().lower())
    if found is None:
        raise ValueError("is neither true nor false")
    return found


def json_text(text: str) -> str:
    """Hold a text to be JSON. Source: RFC 8259."""
    try:
        json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError):
        raise ValueError("is no JSON") from None
    return text


def _no_json(name: str) -> None:
    raise ValueError(name)


def blob(text: str) -> bytes:
    """Read base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is no base64") from None


def base64_text(value: bytes) -> str:
    """Write base64."""
    return base64.b64encode(value).decode()


def from_text(text: str, type: ColumnType) -> Value:
    """Read a value of a logical type."""
    match type:
        case "integer":
            return integer(text)
        case "real":
            return real(text)
        case "boolean":
            return boolean(text)
        case "timestamp":
            return timestamp(text)
        case "json":
            return json_text(text)
        case "blob":
            return blob(text)
    return text


def fits(value: Value, type: ColumnType) -> Value:
    """Return a value as a column of the type holds it. Raises `ValueError` where it is none of the type."""
    if value is None:
        return None
    match type, value:
        case "integer", int():
            return value
        case "real", int() | float():
            return float(value)
        case "boolean", 0 | 1:
            return int(value)
        case ("text", str()) | ("blob", bytes()):
            return value
        case "timestamp", str():
            return timestamp(value)
        case "json", str():
            return json_text(value)
    raise ValueError(f"is no {type}")


def convert(value: Value, old: ColumnType, new: ColumnType) -> Value:
    """Return what a value of one type is in another. What is stored may also be of no type's."""
    if value is None:
        return None
    if isinstance(value, bytes) and new != "blob":
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise ValueError("is no text in UTF-8") from None
    if isinstance(value, bytes):
        return value
    if new == "blob":
        return text_of(value, old).encode()
    if new == "text":
        return text_of(value, old)
    if new == "json":
        return _as_json(value, old)
    if isinstance(value, str):
        return from_text(value, new)
    if new == "timestamp":
        raise ValueError("is a number, not a timestamp such as 2026-01-02T03:04:05.678Z")
    if isinstance(value, float) and new in ("integer", "boolean"):
        if not value.is_integer():
            raise ValueError("has a fraction")
        value = int(value)
    if new == "real" and float(value) != value:
        raise ValueError("has more digits than a real can hold")
    if new == "integer" and value not in INTEGERS:
        raise ValueError("is beyond 64 bits")
    return fits(value, new)


def text_of(value: int | float | str, type: ColumnType) -> str:
    """Return a value as a text that people read."""
    if isinstance(value, str):
        return value
    if type == "boolean" and value in (0, 1):
        return TRUE if value else FALSE
    return repr(value)


def _as_json(value: int | float | str, old: ColumnType) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if old == "timestamp" else json_text(value)
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise ValueError("is no number of JSON")
    return text_of(value, old)


def shown(value: Value) -> str:
    """Return a value for a message: short, and on one line."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return f"a blob of {len(value)} bytes"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:50]}… ({len(str(value))} characters)"
