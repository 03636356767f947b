"""Conversion between stored values and the JSON cells of grids and row changes.

A cell gives the stored value exactly, also when it is not of its column's type.

| stored | cell |
|---|---|
| null, integer, real, text | null, a number with all its digits (9e999 is infinity), a string |
| 0 or 1 in a boolean column | false, true |
| text in a timestamp column | ISO 8601, UTC, milliseconds, Z |
| text in a json column | that text as a string: digits, spaces and order are preserved |
| a blob, and text that is not UTF-8 | `{"base64": "…"}` |
| more than 1024 bytes, in a window of rows | `{"size": bytes, "text": "…"}`, or with `"base64"` |
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from doors.tables.sqlite.catalog import Column, Table
from doors.tables.sqlite.errors import Value
from doors.tables.types.json import encode
from doors.tables.types.parse import blob, json_text
from doors.tables.types.registry import TEXT, TYPES, TypeName, encode_base64
from doors.tables.types.text import from_json
from engine.stepwise_json import Verbatim

CUT = 1024
"""Bytes of a value that a window of rows gives. A larger value is cut to this and sent with its size."""


class Selected(NamedTuple):
    """The three result columns of `selected`."""

    value: Any
    size: int | None
    is_text: bool


def selected(expression: str, *, cut: int, as_bytes: bool = False) -> str:
    """Return the result columns of a `Selected`: the value, its size in bytes, and whether it is text.

    With `as_bytes` text is selected as bytes, so that text that is not UTF-8 can be read.
    """
    blob = f"CAST({expression} AS BLOB)"
    text = f"typeof({expression}) = 'text'"
    value = f"iif({text}, {blob}, {expression})" if as_bytes else expression
    size = f"octet_length({expression})"
    return f"iif({size} > {cut}, substr({blob}, 1, {cut}), {value}), {size}, {text}"


def results(row: Sequence[Any]) -> list[Selected]:
    """Return the results of consecutive expressions of `selected`; none for a row without them."""
    return [Selected(*row[at : at + 3]) for at in range(0, len(row) - 2, 3)]


def cells(row: Sequence[Selected], types: Iterable[TypeName], *, cut: int) -> list[Any]:
    """Return the cells for results of the types of columns."""
    return [cell(result, type, cut=cut) for result, type in zip(row, types, strict=True)]


def cell(result: Selected, type: TypeName, *, cut: int) -> Any:
    """Return the cell for a result."""
    value, size, is_text = result
    if size is not None and size > cut:
        start = {"text": value.decode(errors="ignore")} if is_text else {"base64": encode_base64(value)}
        return {"size": size, **start}
    return full_cell(value_of(result), type)


def value_of(result: Selected) -> Value:
    """Return the stored value; as bytes for text that is not UTF-8."""
    value: Value = result.value
    if result.is_text and isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode()
    return value


def full_cell(value: Value, name: TypeName) -> Any:
    """Return the cell of a value of any size; `name` is empty for a computed value."""
    if isinstance(value, bytes):
        return {"base64": encode_base64(value)}
    type = TYPES.get(name, TEXT)
    if type.to_json is None:
        return value
    if type.form == "format" or (type.form == "bool" and isinstance(value, int)):
        return type.to_json(value)
    return value


def stored(new_cell: Any, table: Table, column: Column, now: str) -> Value:
    """Return the value to store for a cell; `now` is the timestamp that replaces `now()`.

    Every type accepts its values as text. Tables without STRICT accept values of other types. Raises
    `ValueError` with the end of a sentence about the value: "is not a whole number".
    """
    type = TYPES[column.type]
    if new_cell is None:
        return None
    if isinstance(new_cell, dict) and "size" in new_cell:
        raise ValueError("is a truncated value")
    if isinstance(new_cell, dict) and new_cell.keys() == {"base64"} and isinstance(new_cell["base64"], str):
        if type.form == "bytes" or not table.strict:
            return blob(new_cell["base64"])
        raise ValueError("is a blob")
    if type.now is not None and isinstance(new_cell, str) and new_cell.strip().lower() == "now()":
        return type.now(now)
    if type.form == "document" and isinstance(new_cell, str):
        return json_text(new_cell)
    value = float(new_cell.text) if isinstance(new_cell, Verbatim) else new_cell
    return from_json(table, column)(value, encode(new_cell).decode())


def same(value: Value, read_cell: Any, table: Table, column: Column) -> bool:
    """Return whether a cell that a client has read equals the stored value."""
    current_cell = full_cell(value, column.type)
    if isinstance(current_cell, bool) == isinstance(read_cell, bool) and current_cell == read_cell:
        return True
    try:
        expected = stored(read_cell, table, column, "")
    except ValueError:
        return False
    return type(expected) is type(value) and expected == value
