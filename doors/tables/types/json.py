"""Values as they cross: JSON to what SQLite stores, and what it stores to JSON, by the types of columns.

Integers keep all of their 64 bits. An infinite real is the number 9e999, which every JSON reader takes for
infinity or refuses; a blob is base 64 (RFC 4648, 4).
"""

import base64
import binascii
import json
import re
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from doors.tables.guest.problem import Problem

Value = int | float | str | bytes | None
Convert = Callable[[Any], Any]

_INFINITY = f"infinity {secrets.token_hex(16)}"
"""Stands for an infinite real until the JSON is written: no guest can have stored it."""
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d+)?Z?")


def _not_a_number(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


decoder = json.JSONDecoder(parse_constant=_not_a_number)
"""Reads JSON, and nothing more than JSON."""
_encoder = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"), default=_base64
)


def parameters(values: list[Any]) -> list[Value]:
    """Return the parameters of a statement as SQLite takes them. Raises `Problem`."""
    for value in values:
        if type(value) is dict or type(value) is list:
            return [_parameter(value, number) for number, value in enumerate(values, 1)]
    return values


def _parameter(value: Any, number: int) -> Value:
    if type(value) is dict and value.keys() == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise Problem("bad-parameters", f"${number} is not base 64: {error}") from error
    if type(value) is dict or type(value) is list:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return value  # type: ignore[no-any-return]


def _boolean(value: Any) -> Any:
    return bool(value) if value in (0, 1) else value


def _json(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        return decoder.decode(value)
    except (ValueError, RecursionError):
        return value


def _timestamp(value: Any) -> Any:
    if type(value) is not str or (len(value) == 24 and value[10] == "T" and value[23] == "Z"):
        return value
    found = _MOMENT.fullmatch(value)
    if not found:
        return value
    return f"{found[1]}T{found[2]}{(found[3] or '.')[:4].ljust(4, '0')}Z"


def _blob(value: Any) -> Any:
    """Text in a column of blobs comes as its bytes, so that every string of such a column is base 64."""
    return value.encode() if type(value) is str else value


CONVERTERS: dict[str, Convert] = {"blob": _blob, "boolean": _boolean, "json": _json, "timestamp": _timestamp}
"""What the values of a column become, by its logical type; other types stay what they are."""


def encode_rows(
    names: Sequence[str], converters: Sequence[tuple[int, Convert]], rows: Sequence[Sequence[Any]]
) -> bytes:
    """Return rows as JSON objects with commas between them, in UTF-8. Raises `Problem`."""
    if converters:
        rows = [_converted(row, converters) for row in rows]
    objects = [dict(zip(names, row, strict=False)) for row in rows]
    try:
        return encoded(objects)[1:-1]
    except RecursionError as error:
        raise Problem(
            "sql-error", "a JSON value is nested too deeply", "Read it as text: CAST(… AS text)."
        ) from error


def encoded(document: Any) -> bytes:
    """Return a document as JSON in UTF-8. Raises `RecursionError` where it is nested too deeply."""
    try:
        return _encoder.encode(document).encode()
    except ValueError:
        text = _encoder.encode(_finite(document))
    return text.replace(f'"-{_INFINITY}"', "-9e999").replace(f'"{_INFINITY}"', "9e999").encode()


def _converted(row: Sequence[Any], converters: Sequence[tuple[int, Convert]]) -> list[Any]:
    values = list(row)
    for index, convert in converters:
        values[index] = convert(values[index])
    return values


def _finite(value: Any) -> Any:
    """Return a value with every infinite real in it replaced by what stands for it."""
    if type(value) is float and value in (float("inf"), float("-inf")):
        return _INFINITY if value > 0 else f"-{_INFINITY}"
    if type(value) is dict:
        return {key: _finite(inner) for key, inner in value.items()}
    if type(value) is list:
        return [_finite(inner) for inner in value]
    return value
