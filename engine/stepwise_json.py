"""JSON parsed in short steps, so that other threads run between them, and numbers as texts. Source: RFC 8259

The parsers of `json` and pydantic hold the interpreter's lock until a document is complete. Here one call
into C consumes at most `MAX_STEP` characters.
"""

import json
import re
import secrets
from functools import partial
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

MAX_STEP = 64 << 10
"""Maximum characters that are parsed in one step, as in the patterns."""
MAX_DEPTH = 32
"""Maximum nesting of arrays and objects that are longer than one step."""
MAX_NAMES = 10_000
"""Maximum members of an object longer than one step. A validator reports an error for each unknown one."""
_BLANK = re.compile(r"[ \t\n\r]{0,65536}")
_PLAIN = re.compile(r'"([^"\\\x00-\x1f]{0,65536})"')
_ESCAPED = re.compile(
    r'(?:[^"\\]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[^u]){1,4096}'
)
"""A piece of a string. A surrogate pair stays in one piece."""
_SCALAR = re.compile(r"[-+.\w]{1,5000}")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MARK = f"verbatim {secrets.token_hex(16)} "
"""Start of a string that stands for a `Verbatim` while JSON is encoded. No other string has it."""
_MARKED = re.compile(rf'"{_MARK}((?:[^"\\]|\\.)*+)"')


def refuse_constant(name: str) -> float:
    """Raise `ValueError` for `NaN` and `Infinity`, which Python reads as JSON."""
    raise ValueError(f"{name} is not a JSON number")


class Verbatim:
    """A JSON text that is written as it is: a number that a Python number would change, or a document."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def exact_number(text: str) -> float | Verbatim:
    """Return a number as a float if that has the same text."""
    value = float(text)
    return value if repr(value) == text else Verbatim(text)


exact_decoder = json.JSONDecoder(parse_constant=refuse_constant, parse_float=exact_number)
"""Preserves the text of every number that is not an integer, and refuses NaN and Infinity."""
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_scan_exactly = exact_decoder.scan_once  # type: ignore[attr-defined]


load_verbatim = partial(json.loads, parse_constant=Verbatim, parse_float=Verbatim, parse_int=Verbatim)
"""Parses JSON and preserves the text of every number, and NaN and Infinity."""


def marked(value: Verbatim) -> str:
    """Return the string that an encoder writes for a value, until `unmarked` puts its text in that place."""
    return _MARK + value.text


def unmarked(text: str) -> str:
    """Return encoded JSON with the texts of its `marked` values."""
    if _MARK not in text:
        return text
    return _MARKED.sub(lambda match: str(json.loads(f'"{match[1]}"')), text)


def dump_verbatim(document: Any, **options: Any) -> str:
    """Return a document of `load_verbatim` as JSON, with the options of `json.dumps`."""
    return unmarked(json.dumps(document, ensure_ascii=False, default=marked, **options))


class TooComplex(ValueError):
    """A document has too many values, members of an object, or levels of nesting."""


def parse(text: str, max_values: int, *, exact: bool = False) -> Any:
    """Return the value of a JSON document, by `exact_decoder` if `exact`.

    Raises ValueError, which is JSONDecodeError for invalid syntax and TooComplex above a maximum.
    """
    parser = _Parser(text, max_values, _scan_exactly if exact else _scan)
    value = parser.value(0)
    if parser.peek():
        raise parser.error("text after the value")
    return value


class _Parser:
    def __init__(self, text: str, max_values: int, scan: Any) -> None:
        self._scan = scan
        self._text = text
        self._at = 0
        self._window = ""
        self._window_at = 0
        self._max_values = self._values_left = max_values

    def error(self, message: str) -> json.JSONDecodeError:
        """Return the error for invalid syntax at the current position."""
        return json.JSONDecodeError(message, self._text, self._at)

    def peek(self) -> str:
        """Skip whitespace and return the next character, or an empty text at the end."""
        text = self._text
        while (character := text[self._at : self._at + 1]) in (" ", "\n", "\t", "\r"):
            match = _BLANK.match(text, self._at)
            assert match is not None
            self._at = match.end()
        return character

    def value(self, depth: int) -> Any:
        """Consume and return the next value."""
        self._count(1)
        character = self.peek()
        if character == '"':
            return self._string()
        if character in ("{", "["):
            if (short := self._short()) is not None:
                return short
            if depth >= MAX_DEPTH:
                raise TooComplex(f"more than {MAX_DEPTH} levels of nesting")
            self._at += 1
            return self._object(depth + 1) if character == "{" else self._array(depth + 1)
        match = _SCALAR.match(self._text, self._at)
        if match is None:
            raise self.error("a value was expected")
        try:
            value, end = self._scan(match[0], 0)
        except StopIteration:
            raise self.error("a value was expected") from None
        self._at += end
        return value

    def _count(self, values: int) -> None:
        self._values_left -= values
        if self._values_left < 0:
            raise TooComplex(f"more than {self._max_values:,} values")

    def _short(self) -> Any:
        """Consume and return the next array or object if it ends within one step, otherwise return None."""
        while True:
            offset = self._at - self._window_at
            if offset < len(self._window):
                try:
                    value, end = self._scan(self._window, offset)
                    if _SURROGATE.search(self._window, offset, end):
                        json.dumps(value, ensure_ascii=False).encode()  # raises for half a surrogate pair
                except (StopIteration, ValueError, RecursionError):
                    if offset == 0:
                        return None
                else:
                    outline = _STRING.sub("", self._window[offset:end])
                    self._count(sum(map(outline.count, ",[{")))
                    self._at += end - offset
                    return value
            self._window, self._window_at = self._text[self._at : self._at + MAX_STEP], self._at

    def _object(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        if self._continues("}", first=True):
            while True:
                if self.peek() != '"':
                    raise self.error("a name was expected")
                name = self._string()
                if self.peek() != ":":
                    raise self.error("a colon was expected")
                self._at += 1
                members[name] = self.value(depth)
                if len(members) > MAX_NAMES:
                    raise TooComplex(f"an object with more than {MAX_NAMES:,} members")
                if not self._continues("}"):
                    break
        return members

    def _array(self, depth: int) -> list[Any]:
        values: list[Any] = []
        if self._continues("]", first=True):
            values.append(self.value(depth))
            while self._continues("]"):
                values.append(self.value(depth))
        return values

    def _continues(self, end: str, *, first: bool = False) -> bool:
        """Consume a comma or the end of an array or object. Return whether another member follows."""
        character = self.peek()
        if character == end:
            self._at += 1
            return False
        if not first:
            if character != ",":
                raise self.error("a comma was expected")
            self._at += 1
        return True

    def _string(self) -> str:
        match = _PLAIN.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
            return match[1]
        pieces = []
        self._at += 1
        while (match := _ESCAPED.match(self._text, self._at)) is not None:
            piece: str = scanstring(f'{match[0]}"', 0, True)[0]
            if _SURROGATE.search(match[0]):
                try:
                    piece.encode()
                except UnicodeEncodeError:
                    raise self.error("half a surrogate pair") from None
            pieces.append(piece)
            self._at = match.end()
        if self._text[self._at : self._at + 1] != '"':
            raise self.error("a string has no end")
        self._at += 1
        return "".join(pieces)
