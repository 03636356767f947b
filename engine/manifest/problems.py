"""Mistakes in a manifest, each with its position and a hint, and the positions in a TOML text.

`tomllib` reads the values. A text that is not valid TOML is scanned as far as possible, so that a duplicate
key can be reported with both positions.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from engine.errors import SvcError

KeyPath = tuple[str | int, ...]
"""The way to a value: names of tables and keys, and indices (from 0) into arrays."""

_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|'
    r"'''.*?'{3,5}|"
    r'"(?:[^"\\\n]|\\.)*"|'
    r"'[^'\n]*'",
    re.DOTALL,
)
"""A string, with its quotes."""
_SCALAR = re.compile(r"[^,\]}#\n]+")
_OPAQUE = re.compile(rf"{STRING.pattern}|#[^\n]*|[\"']", re.DOTALL)
"""A string, a comment, or the quote of a string that never ends."""
_BRACKET = re.compile(rf"{_OPAQUE.pattern}|[\[\]{{}}]", re.DOTALL)
"""As `_OPAQUE`, or a bracket outside of strings and comments."""
_DEPTH = 64
MAX_KEY_PARTS = 64
"""Maximum parts of a dotted key. `tomllib` takes memory by the square of their number."""


class Position(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Position of one `key = value`, as offsets into the text.

    `base` is the table that the key is relative to: of a header, or of an inline table. `parts` has the start
    of each part of the key (`a.b` has two) and `key_end` the end of the last; the value is from `value` up to
    `end`.
    """

    base: KeyPath
    parts: tuple[int, ...]
    key_end: int
    value: int
    end: int

    @property
    def start(self) -> int:
        return self.parts[0]


@dataclass(frozen=True, slots=True)
class Positions:
    """Offsets of keys in a text. `again` has duplicate keys with their second offset.

    `pairs` has every `key = value`, those in inline tables too, in the order of their ends; `headers` has the
    offset behind each `[table]`.
    """

    text: str
    first: dict[KeyPath, int] = field(default_factory=dict)
    again: dict[KeyPath, int] = field(default_factory=dict)
    pairs: dict[KeyPath, Pair] = field(default_factory=dict)
    headers: dict[KeyPath, int] = field(default_factory=dict)

    def nearest(self, path: KeyPath) -> Position:
        """Return the position of a key, or of the nearest table around it."""
        lengths = range(len(path), 0, -1)
        found = (self.first[path[:length]] for length in lengths if path[:length] in self.first)
        return position_at(self.text, next(found, 0))


class _ScanError(Exception):
    """The rest of the text is invalid TOML."""


def has_long_key(text: str) -> bool:
    """Return whether a line has more dots outside of strings than a key may have. Takes linear time."""
    bare, at = [], 0
    for match in _OPAQUE.finditer(text):
        if match.group() in ('"', "'"):
            break
        bare.append(text[at : match.start()])
        at = match.end()
    bare.append(text[at:])
    return any(line.count(".") >= MAX_KEY_PARTS for line in "".join(bare).split("\n"))


def position_at(text: str, index: int) -> Position:
    """Return the position of a character of a text whose lines end in `\\n`."""
    return Position(text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))


def find_unclosed(text: str) -> tuple[str, Position] | None:
    """Return the innermost bracket, `[` or `{`, that is not closed, and its position; None if all are."""
    unclosed: list[int] = []
    for match in _BRACKET.finditer(text):
        if match.group() in ("[", "{"):
            unclosed.append(match.start())
        elif match.group() in ("]", "}") and unclosed:
            unclosed.pop()
    if not unclosed:
        return None
    return text[unclosed[-1]], position_at(text, unclosed[-1])


def find_positions(text: str) -> Positions:
    """Return the positions in a text whose lines end in `\\n`."""
    scan = _Scan(text)
    with suppress(_ScanError):
        scan.document()
    return scan.positions


class _Scan:
    def __init__(self, text: str) -> None:
        self.positions = Positions(text)
        self._text = text
        self._at = 0
        self._parts: list[int] = []
        self._key_end = 0
        self._lengths: dict[KeyPath, int] = {}
        self._tables: set[KeyPath] = set()

    def document(self) -> None:
        table: KeyPath = ()
        while self._skip(_BLANK) < len(self._text):
            if self._text.startswith("[[", self._at):
                self._at += 2
                table = self._key((), header=True)
                self._expect("]]")
                index = self._lengths.get(table, 0)
                self._lengths[table] = index + 1
                table = (*table, index)
                self.positions.first[table] = self.positions.first[table[:-1]]
            elif self._text.startswith("[", self._at):
                self._at += 1
                table = self._key((), header=True)
                if table in self._tables:
                    self.positions.again.setdefault(table, self._parts[-1])
                self._tables.add(table)
                self._expect("]")
                self.positions.headers.setdefault(table, self._at)
            else:
                self._pair(table, 0)

    def _pair(self, table: KeyPath, depth: int) -> None:
        path = self._key(table)
        parts, key_end = tuple(self._parts), self._key_end
        self._expect("=")
        value = self._skip(_SPACE)
        self._value(path, depth)
        end = value + len(self._text[value : self._at].rstrip(" \t"))
        self.positions.pairs.setdefault(path, Pair(table, parts, key_end, value, end))

    def _key(self, base: KeyPath, *, header: bool = False) -> KeyPath:
        """Scan a dotted key below `base`, record the positions of its parts, and return its path."""
        path = base
        self._parts.clear()
        while True:
            start = self._skip(_SPACE)
            self._parts.append(start)
            token = self._take(_PART)
            self._key_end = self._at
            path = (*path, _decoded(token))
            if header and path in self._lengths and self._text[self._at : self._at + 1] == ".":
                path = (*path, self._lengths[path] - 1)
            duplicate = path in self.positions.first
            self.positions.first.setdefault(path, start)
            self._skip(_SPACE)
            if self._text[self._at : self._at + 1] != ".":
                if duplicate and not header:
                    self.positions.again.setdefault(path, start)
                return path
            self._at += 1

    def _value(self, path: KeyPath, depth: int) -> None:
        if depth > _DEPTH:
            raise _ScanError
        opening = self._text[self._at : self._at + 1]
        if opening == "[":
            self._series(path, "]", depth)
        elif opening == "{":
            self._series(path, "}", depth)
        else:
            self._take(STRING if opening in ('"', "'") else _SCALAR)

    def _series(self, path: KeyPath, closing: str, depth: int) -> None:
        self._at += 1
        index = 0
        while self._skip(_BLANK) < len(self._text):
            if self._text[self._at] == closing:
                self._at += 1
                return
            if closing == "}":
                self._pair(path, depth + 1)
            else:
                self.positions.first.setdefault((*path, index), self._at)
                self._value((*path, index), depth + 1)
                index += 1
            self._skip(_BLANK)
            if self._text.startswith(",", self._at):
                self._at += 1
        raise _ScanError

    def _skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._at

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise _ScanError
        self._at = match.end()
        return match.group()

    def _expect(self, sign: str) -> None:
        self._skip(_SPACE)
        if not self._text.startswith(sign, self._at):
            raise _ScanError
        self._at += len(sign)


def _decoded(token: str) -> str:
    if token[0] == "'":
        return token[1:-1]
    if token[0] == '"':
        try:
            return str(tomllib.loads(f"key = {token}")["key"])
        except tomllib.TOMLDecodeError as error:
            raise _ScanError from error
    return token


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, order=True)
class ManifestProblem:
    """One mistake.

    `line` and `column` count from 1; line 0 means the file as a whole. `key` is the key's path as TOML
    writes it (`resource.web.mounts."/api/*"`), or empty. `hint` is the next step, or empty.
    """

    line: int
    column: int
    key: str
    message: str
    hint: str = ""


class ManifestError(SvcError):
    """`svc.toml` is invalid. `problems` are in the order of the file, `path` is the file."""

    code = "manifest"

    def __init__(self, path: Path, problems: Iterable[ManifestProblem]) -> None:
        self.path = path
        # Control characters that message and hint quote from the file are escaped.
        lines = (replace(p, message=_escaped(p.message), hint=_escaped(p.hint)) for p in problems)
        self.problems = tuple(sorted(set(lines)))
        count = "1 mistake" if len(self.problems) == 1 else f"{len(self.problems)} mistakes"
        self.summary = f"{path.name} has {count}"
        listing = "\n".join(
            f"  {path.name}:{p.line}  {p.key + ': ' if p.key else ''}{p.message}"
            + (f"\n      {p.hint}" if p.hint else "")
            for p in self.problems
        )
        super().__init__(f"{self.summary}\n{listing}")


def mistake(path: Path, message: str, hint: str, *, line: int = 0, column: int = 0) -> ManifestError:
    """Return the error for one mistake that belongs to no key."""
    return ManifestError(path, [ManifestProblem(line, column, "", message, hint)])


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda match: json.dumps(match[0])[1:-1], text)


def dotted(path: KeyPath) -> str:
    """Format a key path as TOML does: `resource.web.egress[0]`, `mounts."/api/*"`."""
    written = ""
    for part in path:
        if isinstance(part, int):
            written += f"[{part}]"
            continue
        name = part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
        written += f".{name}" if written else name
    return written


def did_you_mean(word: str, choices: list[str]) -> str:
    """Return `Did you mean "…"?`, or the list of choices."""
    close = get_close_matches(word.lower(), choices, n=1, cutoff=0.5)
    if close:
        return f'Did you mean "{close[0]}"?'
    return f"Possible: {', '.join(choices)}." if choices else ""


def alternatives(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else "".join(choices)
