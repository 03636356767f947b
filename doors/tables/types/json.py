"""JSON encoding of parameters and rows for guests.

Integers have all of their 64 bits, and documents of json columns their text. An infinite real is the number
9e999, which JSON readers take for infinity or refuse. A blob is base64 (RFC 4648, section 4).
"""

import base64
import binascii
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from doors.tables.guest.problem import GuestProblem
from doors.tables.sqlite.errors import real_text
from doors.tables.types.registry import encode_base64
from engine.stepwise_json import Verbatim, marked, unmarked

Value = int | float | str | bytes | None
Convert = Callable[[Any], Any]


def _plain(value: bytes | Verbatim) -> str:
    return marked(value) if isinstance(value, Verbatim) else encode_base64(value)


# JSONEncoder.encode makes another one for each document, which takes half of the time of a row.
_parts_of = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, _plain, json.encoder.encode_basestring, None, ":", ",", False, False, False
)


def parameters(values: list[Any]) -> list[Value]:
    """Return the parameters of a statement as SQLite values. Raises `GuestProblem`."""
    for value in values:
        if type(value) in (dict, list, Verbatim):
            return [_parameter(value, number) for number, value in enumerate(values, 1)]
    return values


def _parameter(value: Any, number: int) -> Value:
    if type(value) is dict and value.keys() == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise GuestProblem("bad-parameters", f"${number} is not base64: {error}") from error
    if type(value) is dict or type(value) is list:
        try:
            return encode(value).decode()
        except RecursionError as error:
            raise GuestProblem("bad-parameters", f"${number} is nested too deeply") from error
    if type(value) is Verbatim:
        real = float(value.text)
        if math.isinf(real) and value.text.lstrip("-") != "9e999":
            hint = "Send it as text for a json or text column. Infinity is 9e999."
            raise GuestProblem("bad-parameters", f"${number} is beyond the range of a real: {value}", hint)
        return real
    return value  # type: ignore[no-any-return]


def tagged_blob(value: Value) -> Any:
    """Return a blob as an object, which no other SQLite value is, and other values unchanged."""
    return {"base64": encode_base64(value)} if type(value) is bytes else value


def encode_rows(
    names: Sequence[str] | None, converters: Sequence[tuple[int, Convert]], rows: Sequence[Sequence[Any]]
) -> bytes:
    """Return rows as JSON objects separated by commas, in UTF-8; as arrays without `names`.

    `converters` has the index of a column and the function that turns its values into JSON. Of columns
    with one name, the object has the value of the last.
    """
    if converters:
        rows = converted = [list(row) for row in rows]
        for values in converted:
            for index, convert in converters:
                values[index] = convert(values[index])
    documents = rows if names is None else [dict(zip(names, row, strict=False)) for row in rows]
    return encode(documents)[1:-1]


def encode(document: Any) -> bytes:
    """Return a document as JSON in UTF-8. Raises `RecursionError` when it is nested too deeply."""
    try:
        parts = _parts_of(document, 0)
    except ValueError:
        parts = _parts_of(_with_infinity(document), 0)
    # The escape of half a surrogate pair, which is all that UTF-8 lacks, is its escape in JSON, too.
    return unmarked("".join(parts)).encode(errors="backslashreplace")


def _with_infinity(value: Any) -> Any:
    if type(value) is float and math.isinf(value):
        return Verbatim(real_text(value))
    if type(value) is dict:
        return {key: _with_infinity(inner) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return [_with_infinity(inner) for inner in value]
    return value
