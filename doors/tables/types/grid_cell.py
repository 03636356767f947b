"""Conversion between stored values and cells: of grids and row changes, and of CSV and JSON files.

An exported value is imported as the same value. Tables without STRICT may hold values of another type than
their column's, and timestamps of any form; those are written and read unchanged. A cell of a grid gives the
stored value exactly, also when it is not of its column's type.

| stored | cell |
|---|---|
| null, integer, real, text | null, a number with all its digits (9e999 is infinity), a string |
| 0 or 1 in a boolean column | false, true |
| text in a timestamp column | ISO 8601, UTC, milliseconds, Z |
| text in a json column | that text as a string: digits, spaces and order are preserved |
| a blob, and text that is not UTF-8 | `{"base64": "…"}` |
| more than 1024 bytes, in a window of rows | `{"size": bytes, "text": "…"}`, or with `"base64"` |
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from doors.tables.files.json_file import minified, text_json
from doors.tables.sqlite.catalog import Column, Table
from doors.tables.sqlite.connections import MAX_VALUE
from doors.tables.sqlite.errors import INTEGERS, Value
from doors.tables.types.json import encode
from doors.tables.types.parse import NUMBER, blob, integer, json_text, real
from doors.tables.types.registry import TEXT, TYPES, ColumnType, TypeName, encode_base64, of_number, text_of
from engine.stepwise_json import Verbatim

FromText = Callable[[str], Value]
FromJson = Callable[[Any, str], Value]
_TOO_LARGE = f"has more than {MAX_VALUE >> 20} MiB"


def text_cell(value: Value, name: TypeName) -> str | None:
    """Return a value as a cell of CSV."""
    if value is None:
        return None
    return encode_base64(value) if isinstance(value, bytes) else text_of(value, TYPES[name])


def json_cell(value: Value, name: TypeName) -> str:
    """Return a value as JSON, on one line."""
    if value is None:
        return "null"
    if isinstance(value, str) and TYPES[name].form == "document":
        try:
            return minified(json_text(value))
        except ValueError:
            return text_json(value)
    text = text_cell(value, name) or ""
    return text_json(text) if isinstance(value, str | bytes) else text


def from_csv(table: Table, column: Column) -> FromText:
    """Return the function that reads a cell of CSV for a column. It raises `ValueError`."""
    type = TYPES[column.type]
    if table.strict:
        return lambda text: _bounded(type.parse(text))
    return lambda text: _bounded(_lenient(text, type))


def _lenient(text: str, type: ColumnType) -> Value:
    try:
        if type.form == "float" and not any(character in text for character in ".eE"):
            return integer(text)
        return type.parse(text)
    except ValueError:
        if type.storage in ("INTEGER", "REAL") and NUMBER.fullmatch(text.strip()):
            real(text)  # SQLite makes it a real, which has to be the same number.
        return text


def from_json(table: Table, column: Column) -> FromJson:
    """Return the function that reads a JSON value for a column. It raises `ValueError`.

    The function takes the value and the text it was read from.
    """
    type, strict = TYPES[column.type], table.strict

    def read(value: Any, source_text: str) -> Value:
        try:
            return _bounded(_to_stored(value, source_text, type, strict=strict))
        except ValueError:
            if strict or isinstance(value, bool | list | dict) or _is_beyond(value):
                raise
            if isinstance(value, str):
                return _bounded(_lenient(value, type))
            return real(source_text) if isinstance(value, float) else value

    return read


def exact_from_json(table: Table, column: Column) -> FromJson:
    """Return the function that reads a JSON value of a file, whose texts stay as they are without STRICT."""
    read, is_exact = from_json(table, column), exact_column(table, column) is not column

    def read_exactly(value: Any, source_text: str) -> Value:
        return _bounded(value) if is_exact and isinstance(value, str) else read(value, source_text)

    return read_exactly


def _to_stored(value: Any, source_text: str, type: ColumnType, *, strict: bool) -> Value:
    match value:
        case None:
            return None
        case _ if type.form == "document":
            return minified(source_text)
        case bool() if type.form == "bool":
            return int(value)
        case str():
            return type.parse(value)
        case _ if type.form == "string" and (strict or isinstance(value, bool | list | dict)):
            return source_text  # That of a number is as it is in the file: 1.10.
        case bool():
            raise ValueError("is true or false")
        case list():
            raise ValueError("is an array")
        case dict():
            raise ValueError("is an object")
        case int() if type.form == "string" and not _is_beyond(value):
            return value
        case float() if type.form == "string":
            return real(source_text)
        case float() if type.storage == "INTEGER":
            raise ValueError("has a fraction or too many digits")
        case int() if _is_beyond(value) and type.form != "float":
            raise ValueError("is beyond 64 bits")
    return of_number(source_text, type)


def _is_beyond(value: Any) -> bool:
    return isinstance(value, int) and value not in INTEGERS


def _bounded(value: Value) -> Value:
    """Return a value that SQLite can store. Raises `ValueError` for one that is too large or not Unicode."""
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


CUT = 1024
"""Bytes of a value that a window of rows gives. A larger value is cut to this and sent with its size."""


class Selected(NamedTuple):
    """The three result columns of `selected`."""

    value: Any
    size: int | None
    is_text: bool


def selected(expression: str, *, cut: int) -> str:
    """Return the result columns of a `Selected`: the value, its size in bytes, and whether it is text.

    Text is selected as bytes, so that text that is not UTF-8 can be read.
    """
    blob = f"CAST({expression} AS BLOB)"
    text = f"typeof({expression}) = 'text'"
    size = f"octet_length({expression})"
    return f"iif({size} > {cut}, substr({blob}, 1, {cut}), iif({text}, {blob}, {expression})), {size}, {text}"


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
    is_shown = type.form == "format" or (type.form == "bool" and isinstance(value, int))
    return type.to_json(value) if type.to_json and is_shown else value


def exact_column(table: Table, column: Column) -> Column:
    """Return a column as a type that leaves its values as they are.

    Without STRICT, the text of a timestamp may have any form.
    """
    is_text = not table.strict and TYPES[column.type].form == "format"
    return replace(column, type=TEXT.name) if is_text else column


def key_column(table: Table, name: str) -> Column:
    """Return a column of the key of a table. Only the exact value identifies a row."""
    return exact_column(table, table.column(name))


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


def same(result: Selected, read_cell: Any, table: Table, column: Column) -> bool:
    """Return whether a cell that a client has read equals the complete stored value of a result.

    A truncated cell is compared by its size and beginning.
    """
    if isinstance(read_cell, dict) and "size" in read_cell:
        is_long = result.size is not None and result.size > CUT
        return is_long and bool(
            cell(result._replace(value=result.value[:CUT]), column.type, cut=CUT) == read_cell
        )
    value = value_of(result)
    current_cell = full_cell(value, column.type)
    if isinstance(current_cell, bool) == isinstance(read_cell, bool) and current_cell == read_cell:
        return True
    try:
        expected = stored(read_cell, table, column, "")
    except ValueError:
        return False
    return type(expected) is type(value) and expected == value
