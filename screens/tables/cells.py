"""Cells as people read and write them, by the type of their column. Pure.

A cell comes and goes as the control API's grids have it: null, true, a number, a text, `{"base64": …}`, and
`{"cut": bytes, …}` for the beginning of a long one.
"""

import json
import math
import re
from base64 import b64decode
from binascii import Error
from datetime import datetime
from typing import Any

from screens.widgets.row_source import Piece

NOW = "now()"
TRUE, FALSE = ("true", "t", "yes", "y", "1", "on"), ("false", "f", "no", "n", "0", "off")
RIGHT = frozenset({"integer", "real"})
"""Types whose cells stand at the right of their column."""
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_LEAST, _MOST = -(2**63), 2**63 - 1


def piece(value: Any) -> Piece:
    """Return a cell for a line of the grid."""
    if value is None:
        return "null", "dim"
    if isinstance(value, dict):
        if "text" in value:
            return f"{value['text']}…", ""
        return f"blob, {_size(value)}", "dim"
    return as_text(value), ""


def as_text(value: Any) -> str:
    """Return a cell as the text that says it; nothing for null. What was cut is not all of it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return str(value.get("text", value.get("base64", "")))
    if isinstance(value, float):
        return repr(value).removesuffix(".0") if math.isfinite(value) else str(value)
    return str(value)


def sent(value: Any) -> Any:
    """Return a cell as a request has it: JSON knows no infinity, and the API takes it as a text."""
    return str(value).replace("inf", "9e999") if isinstance(value, float) and math.isinf(value) else value


def is_cut(value: Any) -> bool:
    """Whether this is only the beginning of a long cell."""
    return isinstance(value, dict) and "cut" in value


def read(text: str, type: str) -> Any:
    """Return the cell that a text says. Raises `ValueError` with what is wrong with it, for people."""
    word = text.strip()
    match type:
        case "integer":
            if not _INTEGER.fullmatch(word):
                raise ValueError("this is no whole number")
            if not _LEAST <= int(word) <= _MOST:
                raise ValueError("this number needs more than 64 bits")
            return int(word)
        case "real":
            try:
                number = float(word)
            except ValueError:
                raise ValueError("this is no number") from None
            if math.isnan(number):
                raise ValueError("this is no number; ctrl+n writes null")
            return number
        case "boolean":
            if word.lower() in TRUE:
                return True
            if word.lower() in FALSE:
                return False
            raise ValueError("write true or false")
        case "timestamp":
            return _moment(word)
        case "json":
            try:
                json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"this is no JSON: {error}") from None
            return text
        case "blob":
            try:
                b64decode(word, validate=True)
            except (Error, ValueError):
                raise ValueError("write a blob as base64") from None
            return {"base64": word}
        case _:
            return text


def _moment(word: str) -> str:
    if word.lower() == NOW:
        return NOW
    try:
        datetime.fromisoformat(word)
    except ValueError:
        raise ValueError("write a time as 2026-01-02T03:04:05Z, or now()") from None
    return word


def _size(value: dict[str, Any]) -> str:
    count = value.get("cut", len(value.get("base64", "")) * 3 // 4)
    return f"{count} B" if count < 1000 else f"{count / 1024:,.0f} KiB"
