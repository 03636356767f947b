"""JSON and JSON Lines, read and written one row at a time. Source: RFC 8259, https://jsonlines.org

Each value has its source text, so that json columns preserve every digit.
"""

import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, BinaryIO, Literal

from doors.tables.files.format import MAX_RECORD
from doors.tables.files.text_reader import FileLines, chunks, too_large
from doors.tables.sqlite.errors import TablesError, fold

Field = tuple[str, Any, str]
"""Name, value, and the value as it was written."""

_BLANK = re.compile(r"[ \t\n\r]*")
_MINIFY = re.compile(r'("(?:[^"\\]++|\\.)*+")|[ \t\n\r]+')


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 100 else float(digits)


_scan = json.JSONDecoder(parse_constant=_no_constant, parse_int=_integer).scan_once  # type: ignore[attr-defined]


def minified(text: str) -> str:
    """Return JSON on one line, without the blanks between its values, and nothing else changed."""
    return _MINIFY.sub(lambda match: match[1] or "", text)


def text_json(text: str) -> str:
    """Return a text as a JSON string."""
    return json.dumps(text, ensure_ascii=False)


_ARRAY = "The file is one array of objects: [{…}, {…}]; for an object a line, say jsonl."


class _Partial(Exception):
    """The text ends before the object does, or has a mistake; which of them is seen when there is more."""


def objects(source: BinaryIO, format: Literal["json", "jsonl"]) -> Iterator[tuple[int, int, list[Field]]]:
    """Yield the line of each object, the bytes read so far, and its fields. Raises `TablesError`."""
    if format == "jsonl":
        lines = FileLines(source)
        for text in lines:
            if text.strip():
                yield lines.line, lines.bytes, _only(text, lines.line)
        return
    yield from _array(source)


def _only(text: str, line: int) -> list[Field]:
    start = _blank(text, 0)
    try:
        fields, end = _object(text, start, line)
    except _Partial as error:
        raise _mistake(line, str(error)) from None
    if _blank(text, end) != len(text):
        raise _mistake(line, "something stands after the object")
    return fields


class _Reader:
    """A text that is read in pieces: the part that is held, a place in it, and its line in the file."""

    def __init__(self, source: BinaryIO) -> None:
        self._pieces = chunks(source)
        self._held = ""
        self._at = 0
        self.line = 1
        self.bytes = 0

    def _more(self) -> bool:
        piece = next(self._pieces, "")
        self._held, self._at = self._held[self._at :] + piece, 0
        self.bytes += len(piece.encode())
        return piece != ""

    def peek(self) -> str:
        """Return the next character that is not blank, or an empty text at the end."""
        while True:
            end = _blank(self._held, self._at)
            self._pass(end)
            if end < len(self._held):
                return self._held[end]
            if not self._more():
                return ""

    def take(self, marks: str) -> str:
        """Return the next mark, which has to be one of these."""
        found = self.peek()
        if not found or found not in marks:
            what = f"{found!r} stands" if found else "the file ends"
            raise _mistake(self.line, f"{what} where {' or '.join(marks)} was expected", _ARRAY)
        self._at += 1
        return found

    def object(self) -> list[Field]:
        """Return the object that is next."""
        if not self.peek():
            raise _mistake(self.line, "the file ends where a row was expected", _ARRAY)
        while True:
            try:
                fields, end = _object(self._held, self._at, self.line)
            except _Partial as error:
                if len(self._held) - self._at > MAX_RECORD:
                    raise too_large(self.line) from None
                if not self._more():
                    raise _mistake(self.line, str(error)) from None
            else:
                self._pass(end)
                return fields

    def _pass(self, end: int) -> None:
        self.line += self._held.count("\n", self._at, end)
        self._at = end


def _array(source: BinaryIO) -> Iterator[tuple[int, int, list[Field]]]:
    reader = _Reader(source)
    reader.take("[")
    if reader.peek() == "]":
        reader.take("]")
    else:
        mark = ","
        while mark == ",":
            reader.peek()
            line = reader.line
            fields = reader.object()
            yield line, reader.bytes, fields
            mark = reader.take(",]")
    if reader.peek():
        raise _mistake(reader.line, "something stands after the array", _ARRAY)


def _object(text: str, at: int, line: int) -> tuple[list[Field], int]:
    """Read an object at a place in a text; return its fields and where it ends. Raises `_Partial`."""
    fields: list[Field] = []
    seen: set[str] = set()
    if text[at : at + 1] != "{":
        raise _mistake(line, "a row is not an object", 'Each row is an object: {"name": "value"}.')
    at = _blank(text, at + 1)
    if text[at : at + 1] == "}":
        return fields, at + 1
    try:
        while True:
            if text[at : at + 1] != '"':
                raise _Partial("a name in double quotes was expected")
            name, at = scanstring(text, at + 1, True)
            at = _blank(text, at)
            if text[at : at + 1] != ":":
                raise _Partial(f"a colon was expected after {name}")
            at = _blank(text, at + 1)
            value, end = _scan(text, at)
            if fold(name) in seen:
                raise _mistake(line, f"a row names {name} twice", "Remove one of them.")
            seen.add(fold(name))
            fields.append((name, value, text[at:end]))
            at = _blank(text, end)
            mark = text[at : at + 1]
            if mark == "}":
                return fields, at + 1
            if mark != ",":
                raise _Partial(f"a comma was expected after the value of {name}")
            at = _blank(text, at + 1)
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


def _mistake(line: int, what: str, hint: str = "") -> TablesError:
    return TablesError(f"line {line}: {what}", hint or "Correct the line; nothing was imported.")
