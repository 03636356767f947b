"""Conversion of values between column types.

A conversion preserves the value or raises `ValueError` with the end of a sentence about the value:
"7.5 has a fraction".
"""

import base64
import json

from doors.tables.sqlite.errors import INTEGERS, Value
from doors.tables.types.parse import json_text
from doors.tables.types.registry import TYPES, ColumnType, TypeName
from engine.stepwise_json import Verbatim


def encode_base64(value: bytes) -> str:
    """Return bytes as base64."""
    return base64.b64encode(value).decode()


def coerce(value: Value, name: TypeName) -> Value:
    """Return an SQL value as a column of the type stores it. Raises `ValueError` for other values."""
    type = TYPES[name]
    match type.storage, value:
        case _, None:
            return None
        case "INTEGER", int():
            return type.parse(str(value))
        case "REAL", int() | float():
            return float(value)
        case "TEXT", str():
            return type.parse(value)
        case "BLOB", bytes():
            return value
    raise ValueError(f"is not a value of type {name}")


def convert(value: Value, old_name: TypeName, new_name: TypeName) -> Value:
    """Return a value of one type as a value of another. Raises `ValueError`.

    `value` may be of any SQLite type, whatever its old type says.
    """
    old, new = TYPES[old_name], TYPES[new_name]
    if value is None:
        return None
    if isinstance(value, bytes) and new.form != "bytes":
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise ValueError("is not text in UTF-8") from None
    if isinstance(value, bytes):
        return value
    match new.form, value:
        case "bytes", _:
            return format_value(value, old).encode()
        case "string", _:
            return format_value(value, old)
        case "document", _:
            return _to_document(value, old)
        case _, str():
            return new.parse(value)
        case "format", _:
            raise ValueError(f"is a number, not a {new.name} such as {new.example}")
        case "float", _ if float(value) != value:
            raise ValueError("has more digits than a real can hold")
        case "float", _:
            return float(value)
        case _, float() if not value.is_integer():
            raise ValueError("has a fraction")
    if int(value) not in INTEGERS:
        raise ValueError("is beyond 64 bits")
    return coerce(int(value), new_name)


def format_value(value: int | float | str | Verbatim, type: ColumnType) -> str:
    """Return a value as text: a boolean as `true` or `false`, a number with all its digits."""
    if isinstance(value, str):
        return value
    if type.form == "bool" and value in (0, 1):
        return "true" if value else "false"
    return repr(value)


def _to_document(value: int | float | str, old: ColumnType) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if old.form == "format" else json_text(value)
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise ValueError("is not a JSON number")
    return format_value(value, old)


def preview(value: Value | Verbatim) -> str:
    """Return a value for a message: at most 60 characters, on one line."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return f"a blob of {len(value)} byte{'s' * (len(value) != 1)}"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:50]}… ({len(str(value))} characters)"
