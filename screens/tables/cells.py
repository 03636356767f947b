"""Conversion between the cells of the control API and the text of the grid. Pure.

A cell is null, true or false, a number, a text, `{"base64": …}`, or `{"size": bytes, …}` for the first bytes
of a long value.
"""

import math
import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from rich.cells import cell_len

from screens.widgets.rows import ListColumn, Piece, Tone, sanitize
from svc_tui.tables_syntax import COMPUTED, TypeInfo, check_json
from svc_tui.terminal.units import size

NOW = "now()"
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**63 - 1


def piece(value: Any) -> Piece:
    """Return the short text of a cell in the grid, and its style."""
    if value is None:
        return "null", "dim"
    if isinstance(value, dict):
        if "text" in value:
            return f"{value['text']}…", ""
        return f"blob, {size(value.get('size', len(value.get('base64', '')) * 3 // 4))}", "dim"
    return as_text(value), ""


_TONES: dict[str, Tone] = {
    "int": "teal", "float": "teal", "bool": "orange", "format": "violet", "document": "yellow",
}  # fmt: skip


def typed_piece(value: Any, type: TypeInfo) -> Piece:
    """Return the short text of a cell, in the hue of its type; a computed column has that of its value."""
    text, tone = piece(value)
    form = type.form
    if type is COMPUTED:
        form = "bool" if isinstance(value, bool) else "int" if isinstance(value, int | float) else form
    return text, tone or _TONES.get(form, "")


def as_text(value: Any) -> str:
    """Return the text of a cell to edit or copy: empty for null, the first bytes of a cut value."""
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
    """Return a cell for a request. Infinity, which JSON does not have, is sent as text."""
    return str(value).replace("inf", "9e999") if isinstance(value, float) and math.isinf(value) else value


def is_cut(value: Any) -> bool:
    """Return whether a cell has only the first bytes of a long value."""
    return isinstance(value, dict) and "size" in value


def read(text: str, type: TypeInfo) -> Any:
    """Return the cell for typed text. Raises `ValueError` with a message for the user."""
    word = text.strip()
    match type.form:
        case "int":
            if not _INTEGER.fullmatch(word):
                raise ValueError("this is not a whole number")
            if not _MIN_INTEGER <= int(word) <= _MAX_INTEGER:
                raise ValueError("this number needs more than 64 bits")
            return int(word)
        case "float":
            return _number(word)
        case "bool" if word.lower() in (*type.true_words, *type.false_words):
            return word.lower() in type.true_words
        case "bool":
            raise ValueError("write true or false")
        case "format" if type.accepts_now and word.lower() == NOW:
            return NOW
        case "format" if not re.fullmatch(type.pattern, word):
            or_now = f", or {NOW}" if type.accepts_now else ""
            raise ValueError(f"write a {type.name} as {type.example}{or_now}")
        case "format":
            return word
        case "document":
            try:
                check_json(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"this is not JSON: {error}") from None
        case "bytes":
            try:
                b64decode(word, validate=True)
            except (Error, ValueError):
                raise ValueError(f"write a {type.name} as base64") from None
            return {"base64": word}
    return text


def _number(word: str) -> float:
    try:
        number, exact = float(word), Decimal(word.replace("9e999", "inf"))
    except (ValueError, InvalidOperation):
        raise ValueError("this is not a number") from None
    if math.isnan(number):
        raise ValueError("this is not a number; ctrl+n writes null")
    if exact != Decimal(repr(number)):
        raise ValueError(f"a real would be {as_text(number)}")
    return number


MEASURED_ROWS = 50
"""Rows of a table that are measured."""
DEFAULT_MAX_WIDTH = 24
"""Default maximum width of a column, in terminal cells. A column grows beyond it if there is room."""
MAX_WIDTH = 200
"""Maximum width that a column can grow to, in terminal cells."""


def measure_columns(
    titles: Sequence[str], types: Sequence[TypeInfo], columns: Iterable[Iterable[str]]
) -> tuple[ListColumn, ...]:
    """Return columns for texts; one without texts has the width of its type."""
    measured = []
    for title, type, texts in zip(titles, types, columns, strict=True):
        title_width, longest = cell_len(sanitize(title)), max(map(_cells, texts), default=None)
        if longest is None:
            width = longest = comfortable = max(title_width, type.min_width, type.width)
        else:
            longest = min(max(title_width, longest), MAX_WIDTH)
            width = min(longest, max(DEFAULT_MAX_WIDTH, title_width))
            comfortable = max(longest, type.min_width)
        column = ListColumn(title, width, type.align_right, preferred=longest, comfortable=comfortable)
        measured.append(column)
    return tuple(measured)


def _cells(text: str) -> int:
    """Return the cells of a text. Each ASCII character has one, also a control character that is replaced."""
    return len(text) if text.isascii() else cell_len(sanitize(text[: MAX_WIDTH + 1]))
