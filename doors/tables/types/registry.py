"""The registry of column types, one entry per type, and conversion of values between them.

To add a type, add one `ColumnType` to `_ENTRIES`. The database, the API, the command line and the Console
read everything they know of a type from its entry.
"""

import base64
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from doors.tables.sqlite.errors import Value, real_text
from doors.tables.types import parse
from engine.stepwise_json import Verbatim

Form = Literal["int", "float", "bool", "string", "format", "document", "bytes"]
"""How values are stored and shown. `format`: text in one canonical spelling; `document`: JSON text."""
TypeName = str
"""The name of an entry of `TYPES`."""

_STORAGE: dict[Form, str] = {
    "int": "INTEGER",
    "float": "REAL",
    "bool": "INTEGER",
    "string": "TEXT",
    "format": "TEXT",
    "document": "TEXT",
    "bytes": "BLOB",
}
_AFFINITY_ORDER = ("INTEGER", "TEXT", "BLOB", "REAL")
"""Source: https://sqlite.org/datatype3.html#determination_of_column_affinity"""
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d+)?Z?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """One column type.

    `check` is the SQL condition that marks a column of this type, with `{0}` for the quoted column.
    `declared_as` lists the words by which a declared type without that check is recognized.
    `parse` turns text into the stored value, `to_json` the stored value into JSON for guests.
    `infer` returns whether a cell of CSV is a value of this type, which is written back as the same text or
    as another spelling of it. It may raise `ValueError`. The lowest `infer_rank` wins.
    `pattern` is a regular expression that typed text has to match; `example` is shown when it does not.
    `now_sql` is the SQL of the default `now()`, `now` turns the current timestamp into a cell.
    Widths are in terminal cells: `width` for a column without rows, `min_width` for any.
    """

    name: TypeName
    form: Form
    parse: Callable[[str], Value]
    check: str = ""
    declared_as: tuple[str, ...] = ()
    to_json: Callable[[Any], Any] | None = None
    infer: Callable[[str], bool] | None = None
    infer_rank: int = 0
    pattern: str = ""
    example: str = ""
    now_sql: str = ""
    now: Callable[[str], str] | None = None
    width: int = 0
    min_width: int = 0

    @property
    def storage(self) -> str:
        """The SQLite type of the values."""
        return _STORAGE[self.form]

    @property
    def is_rowid(self) -> bool:
        """True if a primary key of this type is the rowid."""
        return self.storage == "INTEGER" and not self.check


def _is_real(text: str) -> bool:
    """Return whether a number is written as programs write it: 1.5, 5, 1e-07, 1e-7."""
    shown = real_text(parse.real(text) or 0.0)  # SQLite stores -0.0 as 0.0.
    return text in (shown, shown.removesuffix(".0"), shown.replace("e-0", "e-"))


def _parses(parser: Callable[[str], Any], shape: str) -> Callable[[str], bool]:
    """Return a test whether a text begins with a shape and can be parsed."""
    pattern = re.compile(shape, re.ASCII)
    return lambda text: bool(pattern.match(text)) and parser(text) is not None


def _timestamp_json(value: Any) -> Any:
    if type(value) is not str or (len(value) == 24 and value[10] == "T" and value[23] == "Z"):
        return value
    match = _TIMESTAMP.fullmatch(value)
    if not match:
        return value
    return f"{match[1]}T{match[2]}{(match[3] or '.').ljust(4, '0')}Z"


def _document_json(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        return Verbatim(parse.json_text(value))
    except ValueError:
        return value


_NOW = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"

INTEGER = ColumnType(
    name="integer",
    form="int",
    declared_as=("INT",),
    parse=parse.integer,
    infer=lambda text: str(parse.integer(text)) == text,
    infer_rank=1,
    example="42",
    width=8,
    min_width=8,
)
REAL = ColumnType(
    name="real",
    form="float",
    declared_as=("REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL"),
    parse=parse.real,
    infer=_is_real,
    infer_rank=2,
    example="1.5",
    width=10,
    min_width=8,
)
TEXT = ColumnType(
    name="text",
    form="string",
    declared_as=("CHAR", "CLOB", "TEXT"),
    parse=str,
    infer=lambda text: True,
    infer_rank=9,
    now_sql=_NOW,
    width=16,
    min_width=12,
)
TIMESTAMP = ColumnType(
    name="timestamp",
    form="format",
    check="{0} IS strftime('%Y-%m-%dT%H:%M:%fZ', {0})",
    declared_as=("TIMESTAMP", "DATETIME"),
    parse=parse.timestamp,
    to_json=_timestamp_json,
    infer=_parses(parse.timestamp, r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.]*(?: ?(?:Z|[+-]00:?00))?\Z"),
    infer_rank=4,
    pattern=rf"{parse.DAY}(?:[T ]{parse.TIME})?",
    example="2026-01-02T03:04:05Z",
    now_sql=_NOW,
    now=str,
    width=24,
    min_width=10,
)
BLOB = ColumnType(
    name="blob",
    form="bytes",
    declared_as=("BLOB", "BYTEA", "BINARY"),
    parse=parse.blob,
    # Text as bytes, so that every string of a blob column is base64.
    to_json=lambda value: value.encode() if type(value) is str else value,
    example="AQID",
    min_width=12,
)
_ENTRIES = (
    INTEGER,
    REAL,
    TEXT,
    ColumnType(
        name="boolean",
        form="bool",
        check="{0} IN (0, 1)",
        declared_as=("BOOL",),
        parse=parse.boolean,
        to_json=lambda value: bool(value) if value in (0, 1) else value,
        infer=lambda text: text.lower() in ("true", "false"),
        infer_rank=3,
        example="true",
        width=7,
    ),
    TIMESTAMP,
    ColumnType(
        name="date",
        form="format",
        check="{0} IS strftime('%Y-%m-%d', {0})",
        declared_as=("DATE",),
        parse=parse.date,
        infer=_parses(parse.date, r"\d{4}-\d\d-\d\d\Z"),
        infer_rank=5,
        pattern=parse.DAY,
        example="2026-01-31",
        now_sql="strftime('%Y-%m-%d', 'now')",
        now=lambda timestamp: timestamp[:10],
        width=10,
        min_width=10,
    ),
    ColumnType(
        name="json",
        form="document",
        check="json_valid({0})",
        declared_as=("JSON",),
        parse=parse.json_text,
        to_json=_document_json,
        infer=_parses(parse.json_text, r"[{\[]"),
        infer_rank=6,
        example='{"a": 1}',
        width=16,
        min_width=12,
    ),
    BLOB,
)
TYPES: dict[TypeName, ColumnType] = {entry.name: entry for entry in _ENTRIES}
"""Every column type by name, in the order in which they are listed."""


def declared_type(declared: str) -> ColumnType:
    """Return the type of a column that has no check of a type, by its declared SQL type.

    The words of types that SQLite does not have come first, then SQLite's own affinity rules.
    """
    text = re.sub(r"\(.*", "", declared.upper())
    order = sorted(TYPES.values(), key=lambda each: -1 if each.check else _AFFINITY_ORDER.index(each.storage))
    return next((each for each in order if any(word in text for word in each.declared_as)), TEXT)


def encode_base64(value: bytes) -> str:
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
    """Return a value of one type as a value of another, or raise `ValueError`: "has a fraction".

    `value` may be of any SQLite type, whatever its old type says.
    """
    old, new = TYPES[old_name], TYPES[new_name]
    if isinstance(value, bytes) and new.form != "bytes":
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise ValueError("is not text in UTF-8") from None
    if value is None or isinstance(value, bytes):
        return value
    match new.form, value:
        case "bytes", _:
            return text_of(value, old).encode()
        case "document", str() if old.form == "format":
            return json.dumps(value, ensure_ascii=False)
        case "document", float() if math.isinf(value):
            raise ValueError("is not a JSON number")
        case "string" | "document", _:
            return new.parse(text_of(value, old))
        case _, str():
            return new.parse(value)
        case _, float() if new.storage == "INTEGER" and not value.is_integer():
            raise ValueError("has a fraction")
        case "int" | "bool", _:
            return new.parse(str(int(value)))
    return of_number(repr(value), new)


def of_number(text: str, type: ColumnType) -> Value:
    """Return the text of a number as a value of a type. Raises `ValueError`."""
    if type.storage not in ("INTEGER", "REAL"):
        raise ValueError(f"is a number, not a {type.name} such as {type.example}")
    return type.parse(text)


def text_of(value: int | float | str, type: ColumnType) -> str:
    """Return a value as text: a boolean as `true` or `false`, a number with all its digits."""
    if isinstance(value, str):
        return value
    if type.form == "bool" and value in (0, 1):
        return "true" if value else "false"
    return real_text(value) if isinstance(value, float) else str(value)


def excerpt(value: Value | Verbatim) -> str:
    """Return a value for a message: at most 60 characters, on one line."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return f"a blob of {len(value)} byte{'s' * (len(value) != 1)}"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:50]}… ({len(str(value))} characters)"
