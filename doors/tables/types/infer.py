"""The types of a file's columns, told by all of its rows: in one pass, and with the memory of one row.

A type is one that every value fits without losing anything: leading zeros make text of numbers, a date alone
stays the text that it is. Blobs can not be told from text.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from doors.tables.files import csv_file
from doors.tables.files.format import Format, Preview
from doors.tables.files.json_file import objects
from doors.tables.files.text_reader import Lines
from doors.tables.sqlite.catalog import TYPES, Column, ColumnType
from doors.tables.sqlite.errors import INTEGERS, TablesError, fold
from doors.tables.types.convert import timestamp
from doors.tables.types.text import is_json

SHOWN = 20
"""How many rows a preview has."""
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_REAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_CSV: tuple[ColumnType, ...] = ("integer", "real", "boolean", "timestamp", "json", "text")
_JSON: tuple[ColumnType, ...] = ("integer", "real", "boolean", "timestamp", "text", "json")
"""Of the types that all values fit, a column gets the first. JSON tells text from the rest, CSV does not."""


@dataclass(slots=True)
class _Seen:
    """What was seen of one column: the types that are still possible, and whether it could be the key."""

    name: str
    order: tuple[ColumnType, ...]
    left: set[ColumnType] = field(default_factory=lambda: set(TYPES))
    values: int = 0
    missing: bool = False
    rising: bool = True
    last: int | None = None

    def see_text(self, text: str | None) -> None:
        if text is None:
            self.missing = True
            return
        self.values += 1
        self.left = {type for type in self.left if _fits(text, type)}
        self._see_number(int(text) if "integer" in self.left else None)

    def see_value(self, value: Any) -> None:
        """See a value of JSON: its own type counts, and only text may also be a timestamp."""
        if value is None:
            self.missing = True
            return
        self.values += 1
        self.left &= _types_of(value)
        whole = isinstance(value, int) and not isinstance(value, bool)
        self._see_number(value if whole and "integer" in self.left else None)

    def _see_number(self, value: int | None) -> None:
        self.rising = self.rising and value is not None and (self.last is None or value > self.last)
        self.last = value

    def column(self) -> Column:
        type: ColumnType = next((type for type in self.order if self.values and type in self.left), "text")
        key = fold(self.name) == "id" and type == "integer" and self.rising and not self.missing
        return Column(self.name, type, nullable=not key, primary_key=key)


def _types_of(value: Any) -> set[ColumnType]:
    """Return the types that a value of JSON fits."""
    if isinstance(value, bool):
        return {"boolean", "json"}
    if isinstance(value, str):
        return {"timestamp", "text", "json"} if _fits(value, "timestamp") else {"text", "json"}
    if isinstance(value, int) and value in INTEGERS:
        return {"integer", "real", "json"} if abs(value) <= 2**53 else {"integer", "json"}
    if isinstance(value, int | float):
        return {"real", "json"}
    return {"json"}


def _fits(text: str, type: ColumnType) -> bool:
    match type:
        case "integer":
            return bool(_INTEGER.fullmatch(text)) and int(text) in INTEGERS
        case "real":
            return bool(_REAL.fullmatch(text)) and (len(text) < 17 or float(text) == _exactly(text))
        case "boolean":
            return text.lower() in ("true", "false")
        case "timestamp":
            try:
                return bool(_MOMENT.match(text)) and bool(timestamp(text))
            except ValueError:
                return False
        case "json":
            return is_json(text)
    return type == "text"


def _exactly(text: str) -> int | float:
    """A whole number keeps all of its digits, or is no real."""
    return int(text) if text.lstrip("-").isdigit() and len(text) < 400 else float(text)


def preview(source: BinaryIO, format: Format) -> Preview:
    """Read a whole file of rows and return what it would become. Raises `TablesError`.

    For `csv`, `json` and `jsonl`; the source is read from its beginning, and left at its end.
    """
    source.seek(0)
    if format == "csv":
        return _preview_csv(source)
    if format in ("json", "jsonl"):
        return _preview_json(source, format)
    raise TablesError(f"{format} says itself what its tables are", "Import it as it is.")


def _preview_csv(source: BinaryIO) -> Preview:
    names, rows = csv_file.read(Lines(source))
    return infer(names, (cells for _, cells in rows), SHOWN)


def infer(
    names: Sequence[str], rows: Iterable[csv_file.Cells], shown: int, *, header: bool = True
) -> Preview:
    """Return what rows of texts would become, with the first of them; `header`: the names are their own."""
    seen = [_Seen(name, _CSV) for name in names]
    first, count = [], 0
    for count, cells in enumerate(rows, 1):
        if count <= shown:
            first.append(tuple(cells))
        for column, cell in zip(seen, cells, strict=True):
            column.see_text(cell)
    return Preview(tuple(column.column() for column in seen), tuple(first), count, header)


def is_plain_text(text: str) -> bool:
    """Say whether a text can be a value of no other type."""
    return not any(_fits(text, type) for type in _CSV if type != "text")


def _preview_json(source: BinaryIO, format: Any) -> Preview:
    seen: dict[str, _Seen] = {}
    first: list[dict[str, str | None]] = []
    count = 0
    for count, (_, _, fields) in enumerate(objects(source, format), 1):
        if count <= SHOWN:
            first.append({fold(name): _shown(value, written) for name, value, written in fields})
        for name, value, _ in fields:
            if fold(name) not in seen:
                seen[fold(name)] = _Seen(name, _JSON, missing=count > 1)
            seen[fold(name)].see_value(value)
        if len(fields) < len(seen):
            for absent in seen.keys() - {fold(name) for name, _, _ in fields}:
                seen[absent].missing = True
    rows = tuple(tuple(row.get(name) for name in seen) for row in first)
    return Preview(tuple(column.column() for column in seen.values()), rows, count)


def _shown(value: Any, written: str) -> str | None:
    return value if isinstance(value, str) else None if value is None else written
