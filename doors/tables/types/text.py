"""Values of a table as the cells of a file, and back: what is written is read as the very same value.

Tables that migrations made without STRICT may hold values that are none of their column's type; those are
written as they are, and taken back as they are.
"""

import json
from collections.abc import Callable
from typing import Any

from doors.tables.files.json_file import minified, text_json
from doors.tables.sqlite.catalog import Column, ColumnType, Table
from doors.tables.sqlite.connections import MAX_VALUE
from doors.tables.sqlite.errors import INTEGERS, Value
from doors.tables.types.convert import base64_text, from_text, json_text, timestamp

FromText = Callable[[str], Value]
FromJson = Callable[[Any, str], Value]
_INFINITE = {float("inf"): "9e999", float("-inf"): "-9e999"}


def text_cell(value: Value, type: ColumnType) -> str | None:
    """Return a value as a cell of CSV."""
    match value:
        case None:
            return None
        case bytes():
            return base64_text(value)
        case str():
            return _moment(value) if type == "timestamp" else value
        case 0 | 1 if type == "boolean":
            return "true" if value else "false"
        case float():
            return _INFINITE.get(value) or repr(value)
    return str(value)


def json_cell(value: Value, type: ColumnType) -> str:
    """Return a value as JSON, on one line."""
    if value is None:
        return "null"
    if isinstance(value, str) and type == "json":
        try:
            return minified(json_text(value))
        except ValueError:
            return text_json(value)
    text = text_cell(value, type) or ""
    return text_json(text) if isinstance(value, str | bytes) else text


def _moment(value: str) -> str:
    try:
        return timestamp(value)
    except ValueError:
        return value


def from_csv(table: Table, column: Column) -> FromText:
    """Return the function that reads a cell of CSV for a column. It raises `ValueError`."""
    type = column.type
    if table.strict:
        return lambda text: _bounded(from_text(text, type))
    return lambda text: _bounded(_lenient(text, type))


def _lenient(text: str, type: ColumnType) -> Value:
    try:
        if type == "real" and not any(mark in text for mark in ".eE"):
            return from_text(text, "integer")
        return from_text(text, type)
    except ValueError:
        return text


def from_json(table: Table, column: Column) -> FromJson:
    """Return the function that reads a value of JSON, and what it was written as, for a column."""
    type, strict = column.type, table.strict

    def read(value: Any, written: str) -> Value:
        try:
            return _bounded(_typed(value, written, type))
        except ValueError:
            if strict or isinstance(value, bool | list | dict) or _is_beyond(value):
                raise
            return _bounded(value)

    return read


def _typed(value: Any, written: str, type: ColumnType) -> Value:
    if value is None:
        return None
    if type == "json":
        return minified(written)
    if isinstance(value, list | dict):
        if type == "text":
            return written
        raise ValueError(f"is {'an array' if isinstance(value, list) else 'an object'}")
    if isinstance(value, bool):
        if type == "boolean":
            return int(value)
        if type == "text":
            return written
        raise ValueError("is true or false")
    if isinstance(value, str):
        return from_text(value, type)
    return _number(value, type)


def _number(value: int | float, type: ColumnType) -> Value:
    if type == "real":
        if float(value) != value:
            raise ValueError("has more digits than a real can hold")
        return float(value)
    if _is_beyond(value):
        raise ValueError("is beyond 64 bits")
    if type == "text":
        return value
    if type in ("integer", "boolean") and isinstance(value, float):
        raise ValueError("has a fraction or too many digits")
    if type == "integer" or (type == "boolean" and value in (0, 1)):
        return value
    raise ValueError(f"is a number, not a {type}")


def _is_beyond(value: Any) -> bool:
    return isinstance(value, int) and value not in INTEGERS


def _bounded(value: Value) -> Value:
    if isinstance(value, str):
        if len(value) * 4 > MAX_VALUE and len(value.encode(errors="surrogatepass")) > MAX_VALUE:
            raise ValueError(_TOO_LARGE)
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError("has half of a character (a lone surrogate)") from None
    elif isinstance(value, bytes) and len(value) > MAX_VALUE:
        raise ValueError(_TOO_LARGE)
    return value


_TOO_LARGE = f"has more than {MAX_VALUE >> 20} MiB"


def is_json(text: str) -> bool:
    """Say whether a text is an array or object of JSON."""
    if not text.startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
