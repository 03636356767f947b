"""Conversion between stored values and the cells of CSV and JSON files.

An exported value is imported as the same value. Tables without STRICT may hold values of another type than
their column's; those are written and read unchanged.
"""

from collections.abc import Callable
from typing import Any

from doors.tables.files.json_file import minified, text_json
from doors.tables.sqlite.catalog import Column, Table
from doors.tables.sqlite.connections import MAX_VALUE
from doors.tables.sqlite.errors import INTEGERS, Value, real_text
from doors.tables.types.parse import NUMBER, integer, json_text, real
from doors.tables.types.registry import TYPES, ColumnType, TypeName, coerce, encode_base64

FromText = Callable[[str], Value]
FromJson = Callable[[Any, str], Value]
_TOO_LARGE = f"has more than {MAX_VALUE >> 20} MiB"


def text_cell(value: Value, name: TypeName) -> str | None:
    """Return a value as a cell of CSV."""
    form = TYPES[name].form
    match value:
        case None:
            return None
        case bytes():
            return encode_base64(value)
        case str() if form == "format":
            return _canonical(value, TYPES[name])
        case str():
            return value
        case 0 | 1 if form == "bool":
            return "true" if value else "false"
        case float():
            return real_text(value)
    return str(value)


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


def _canonical(value: str, type: ColumnType) -> str:
    try:
        return str(type.parse(value))
    except ValueError:
        return value


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
            if strict and type.form == "string" and not isinstance(value, str) and value is not None:
                return _bounded(source_text)  # The text of a number as it is in the file: 1.10.
            return _bounded(_to_stored(value, source_text, type))
        except ValueError:
            if strict or isinstance(value, bool | list | dict) or _is_beyond(value):
                raise
            if isinstance(value, str):
                return _bounded(_lenient(value, type))
            return real(source_text) if isinstance(value, float) else value

    return read


def _to_stored(value: Any, source_text: str, type: ColumnType) -> Value:
    match value:
        case None:
            return None
        case _ if type.form == "document":
            return minified(source_text)
        case bool() if type.form == "bool":
            return int(value)
        case bool() | list() | dict() if type.form == "string":
            return source_text
        case bool():
            raise ValueError("is true or false")
        case list():
            raise ValueError("is an array")
        case dict():
            raise ValueError("is an object")
        case str():
            return type.parse(value)
    return _number(value, source_text, type)


def _number(value: int | float, source_text: str, type: ColumnType) -> Value:
    if type.form == "float" or isinstance(value, float):
        value = real(source_text)
    if type.form == "float":
        return value
    if _is_beyond(value):
        raise ValueError("is beyond 64 bits")
    if type.form == "string":
        return value
    if type.storage != "INTEGER":
        raise ValueError(f"is a number, not a {type.name}")
    if isinstance(value, float):
        raise ValueError("has a fraction or too many digits")
    if type.form == "bool" and value not in (0, 1):
        raise ValueError(f"is a number, not a {type.name}")
    return coerce(value, type.name)


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
