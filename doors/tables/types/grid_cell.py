"""Values of rows as cells of JSON, and back: a cell says exactly what is stored, whatever its column is for.

| stored | cell |
|---|---|
| null, integer, real, text | null, a number with all its digits (9e999 is infinity), a string |
| 0 or 1 in a column of booleans | false, true |
| text in a column of timestamps | ISO 8601, UTC, milliseconds, Z |
| text in a column of json | that very text, as a string: digits, blanks and order stay |
| a blob, and text that is not UTF-8 | `{"base64": "…"}` |
| the same of more than 1024 bytes, in a window | `{"cut": bytes, "text": "…"}`, or with `"base64"` |
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from doors.tables.sqlite.catalog import Column, ColumnType, Table
from doors.tables.sqlite.errors import Value
from doors.tables.types.convert import base64_text, blob, json_text
from doors.tables.types.json import CONVERTERS
from doors.tables.types.text import from_json

CUT = 1024
"""Bytes of a value that are shown in a window; of a larger one this many, and its size."""


def selected(expression: str, *, cut: int, as_bytes: bool = False) -> str:
    """Return the three columns of a statement that `cell` makes a cell of: value, bytes, whether it is text.

    With `as_bytes` text comes as its bytes, so that text which is not UTF-8 can be read at all.
    """
    blob = f"CAST({expression} AS BLOB)"
    text = f"typeof({expression}) = 'text'"
    whole = f"iif({text}, {blob}, {expression})" if as_bytes else expression
    size = f"octet_length({expression})"
    return f"iif({size} > {cut}, substr({blob}, 1, {cut}), {whole}), {size}, {text}"


def cell(found: Sequence[Any], type: ColumnType, *, cut: int) -> Any:
    """Return the cell of the three values that a statement with `selected` gave."""
    value, size, text = found
    if size is not None and size > cut:
        shown = {"text": value.decode(errors="ignore")} if text else {"base64": base64_text(value)}
        return {"cut": size, **shown}
    return whole(value_of(found), type)


def value_of(found: Sequence[Any]) -> Value:
    """Return the value itself of those three, which was not cut: text that is not UTF-8 as its bytes."""
    value: Value = found[0]
    if found[2] and isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode()
    return value


def whole(value: Value, type: ColumnType) -> Any:
    """Return the cell of a value, however large it is."""
    if isinstance(value, bytes):
        return {"base64": base64_text(value)}
    if type == "boolean" and isinstance(value, int):
        return CONVERTERS[type](value)
    return CONVERTERS[type](value) if type == "timestamp" else value


def stored(given: Any, table: Table, column: Column, now: str) -> Value:
    """Return what a cell is stored as, `now()` as the moment `now`. Raises `ValueError`.

    Every type takes a text that says its value; tables that are not STRICT take what their column is not
    for. The text of the error ends a sentence that names the value: "is no whole number".
    """
    if given is None:
        return None
    if isinstance(given, dict) and "cut" in given:
        raise ValueError("is only the beginning of a longer one")
    if isinstance(given, dict) and given.keys() == {"base64"} and isinstance(given["base64"], str):
        if column.type == "blob" or not table.strict:
            return blob(given["base64"])
        raise ValueError("is a blob")
    if column.type == "timestamp" and isinstance(given, str) and given.strip().lower() == "now()":
        return now
    if column.type == "json" and isinstance(given, str):
        return json_text(given)
    return from_json(table, column)(given, json.dumps(given, ensure_ascii=False, separators=(",", ":")))


def same(value: Value, given: Any, table: Table, column: Column) -> bool:
    """Say whether a cell, as somebody saw it, is what is stored now."""
    now = whole(value, column.type)
    if isinstance(now, bool) == isinstance(given, bool) and now == given:
        return True
    try:
        wanted = stored(given, table, column, "")
    except ValueError:
        return False
    return type(wanted) is type(value) and wanted == value
