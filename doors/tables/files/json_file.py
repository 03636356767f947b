"""JSON and JSON Lines, read and written one row at a time. Source: RFC 8259, https://jsonlines.org

Each value has its source text, so that json columns preserve every digit.
"""

import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, BinaryIO, Literal

from doors.tables.files.format import MAX_RECORD, FileLines, chunks, too_large
from doors.tables.sqlite.errors import TablesError, fold
from engine.stepwise_json import refuse_constant

Field = tuple[str, Any, str]
"""Name, value, and source text of the value."""

_BLANK = re.compile(r"[ \t\n\r]*")
_MINIFY = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+")|[ \t\n\r]+')


_scan = json.JSONDecoder(  # type: ignore[attr-defined]
    parse_constant=refuse_constant,
    parse_int=lambda digits: int(digits) if len(digits) < 100 else float(digits),
).scan_once


def minified(text: str) -> str:
    """Return JSON without whitespace between its values, and otherwise unchanged."""
    return _MINIFY.sub(lambda match: match[1] or "", text)


def text_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_ARRAY = "Write one array of objects: [{…}, {…}]; for one object per line, use jsonl."


class _Partial(Exception):
    """The object is incomplete or invalid. More input decides which."""


def objects(source: BinaryIO, format: Literal["json", "jsonl"]) -> Iterator[tuple[int, int, list[Field]]]:
    """Yield the line of each object, the bytes read so far, and its fields. Raises `TablesError`."""
    if format == "json":
        yield from _array(source)
        return
    lines = FileLines(source)
    for text in iter(lines.next, ""):
        if text.strip():
            try:
                fields, end = _object(text, _blank(text, 0), lines.line)
            except _Partial as error:
                raise _mistake(lines.line, str(error)) from None
            if _blank(text, end) != len(text):
                raise _mistake(lines.line, "something stands after the object")
            yield lines.line, lines.bytes, fields


class _JsonReader:
    """A text that is read in pieces: the part that is held, a position in it, and its line in the file."""

    def __init__(self, source: BinaryIO) -> None:
        self._pieces = chunks(source)
        self._text = ""
        self._at = 0
        self.line = 1
        self.bytes = 0

    def _read_more(self, characters: int = 1) -> bool:
        """Read at least `characters` more, if there are any; return whether there are."""
        pieces, size = [self._text[self._at :]], 0
        while size < characters and (piece := next(self._pieces, "")):
            pieces.append(piece)
            size += len(piece)
            self.bytes += len(piece.encode())
        self._text, self._at = "".join(pieces), 0
        return size > 0

    def peek(self) -> str:
        """Return the next character that is not whitespace, or an empty text at the end."""
        while True:
            end = _blank(self._text, self._at)
            self._advance(end)
            if end < len(self._text):
                return self._text[end]
            if not self._read_more():
                return ""

    def take(self, marks: str) -> str:
        """Consume and return the next character, which must be one of `marks`. Raises `TablesError`."""
        character = self.peek()
        if not character or character not in marks:
            problem = f"{character!r} stands" if character else "the file ends"
            raise _mistake(self.line, f"{problem} where {' or '.join(marks)} was expected", _ARRAY)
        self._at += 1
        return character

    def object(self) -> list[Field]:
        """Consume and return the next object. Raises `TablesError`."""
        if not self.peek():
            raise _mistake(self.line, "the file ends where a row was expected", _ARRAY)
        while True:
            try:
                fields, end = _object(self._text, self._at, self.line)
            except _Partial as error:
                size = len(self._text) - self._at
                if size > MAX_RECORD:
                    raise too_large(self.line) from None
                # As much again: the object is parsed from its start each time.
                if not self._read_more(size):
                    raise _mistake(self.line, str(error)) from None
            else:
                self._advance(end)
                return fields

    def _advance(self, end: int) -> None:
        self.line += self._text.count("\n", self._at, end)
        self._at = end


def _array(source: BinaryIO) -> Iterator[tuple[int, int, list[Field]]]:
    reader = _JsonReader(source)
    reader.take("[")
    separator = reader.take("]") if reader.peek() == "]" else ","
    while separator == ",":
        reader.peek()
        line, fields = reader.line, reader.object()
        yield line, reader.bytes, fields
        separator = reader.take(",]")
    if reader.peek():
        raise _mistake(reader.line, "unexpected text after the array", _ARRAY)


def _object(text: str, position: int, line: int) -> tuple[list[Field], int]:
    """Parse the object at a position; return its fields and its end. Raises `_Partial`."""
    fields: list[Field] = []
    names: set[str] = set()
    if text[position : position + 1] != "{":
        raise _mistake(line, "a row is not an object", 'Each row is an object: {"name": "value"}.')
    position = _blank(text, position + 1)
    if text[position : position + 1] == "}":
        return fields, position + 1
    try:
        while True:
            if text[position : position + 1] != '"':
                raise _Partial("a name in double quotes was expected")
            name, position = scanstring(text, position + 1, True)
            position = _blank(text, position)
            if text[position : position + 1] != ":":
                raise _Partial(f"a colon was expected after {name}")
            position = _blank(text, position + 1)
            value, end = _scan(text, position)
            if fold(name) in names:
                raise _mistake(line, f"a row names {name} twice", "Remove one of them.")
            names.add(fold(name))
            fields.append((name, value, text[position:end]))
            position = _blank(text, end)
            separator = text[position : position + 1]
            if separator == "}":
                return fields, position + 1
            if separator != ",":
                raise _Partial(f"a comma was expected after the value of {name}")
            position = _blank(text, position + 1)
    except StopIteration:
        raise _Partial("a value was expected") from None
    except RecursionError:
        raise _Partial("a value is nested too deeply") from None
    except ValueError as error:
        raise _Partial(str(error).partition(":")[0]) from None


def _blank(text: str, at: int) -> int:
    if at < len(text) and text[at] > " ":
        return at
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _mistake(line: int, problem: str, hint: str = "") -> TablesError:
    return TablesError(f"line {line}: {problem}", hint or "Correct the line; nothing was imported.")
