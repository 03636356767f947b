"""SQL tokenizer, and splitter of scripts into statements."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

Kind = Literal["word", "name", "string", "number", "mark"]

# A word has letters, digits, _, $ and all characters beyond ASCII. The sets name the others, because a large
# range takes 7 ms to compile.
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\n\f\r]+ | --[^\n]*(?:\n|$) | /\*.*?(?:\*/|$))
  | (?P<string>[xX]?'[^']*+(?:''[^']*+)*+')
  | (?P<name>"[^"]*+(?:""[^"]*+)*+" | `[^`]*+(?:``[^`]*+)*+` | \[[^\]]*+\])
  | (?P<word>[^\x00-\x23\x25-\x40\[-^`{-\x7f][^\x00-\x23\x25-/:-@\[-^`{-\x7f]*)
  | (?P<number>\d[\w.]*(?:(?<=[eE])[+-]\w+)? | \.\d[\w]*(?:(?<=[eE])[+-]\w+)?)
  | (?P<mark>\|\| | ->>? | <[=>] | >= | != | == | << | >> | .)
    """,
    re.DOTALL | re.VERBOSE,
)
# Groups repeat greedily, not possessively: Python before 3.11.5 continues such a match at a wrong position.
_PLAIN = re.compile(
    r"""
    (?: [^;'"`\[/-]++ | '[^']*+' | "[^"]*+" | `[^`]*+` | \[[^\]]*+\]
      | --[^\n]*+\n | /\*.*?\*/ | -(?=[^-]) | /(?=[^*])
    )*
    """,
    re.DOTALL | re.VERBOSE,
)
_BLANK = re.compile(r"(?:[ \t\n\f\r]++|--[^\n]*+(?:\n|\Z)|/\*[\s\S]*?(?:\*/|\Z))*")


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `spaced` is true after spaces or a comment."""

    kind: Kind
    text: str
    spaced: bool

    def is_word(self, *words: str) -> bool:
        """Return whether this is one of the keywords, which are in upper case."""
        return self.kind == "word" and self.text.upper() in words

    @property
    def value(self) -> str:
        """The unquoted name or string; the text of other tokens."""
        if self.kind in ("name", "string") and self.text[0] in "\"'`[":
            if self.text[0] == "[":
                return self.text[1:-1]
            quote = self.text[0]
            return self.text[1:-1].replace(quote * 2, quote)
        return self.text


def tokens(sql: str, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """Yield the tokens of SQL between two positions, without spaces and comments."""
    spaced = False
    for match in _TOKEN.finditer(sql, start, len(sql) if end is None else end):
        kind = match.lastgroup
        if kind == "space":
            spaced = True
        else:
            yield Token(kind, match[0], spaced)  # type: ignore[arg-type]
            spaced = False


def to_sql(parts: Iterable[Token]) -> str:
    """Return tokens as SQL, with one space for spaces and comments."""
    return "".join((" " if part.spaced else "") + part.text for part in parts).strip()


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """One statement without its semicolon and leading comments, and the number of its first line."""

    line: int
    sql: str


class StatementTooLong(Exception):
    """A statement exceeds the maximum length. `line` is its first line."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def statements(chunks: Iterable[str], max_length: int) -> Iterator[ParsedStatement]:
    """Split SQL, which arrives in chunks, into statements. Raises `StatementTooLong`.

    Buffers one statement and one chunk. Text after the last semicolon is a statement too, even with an open
    quote, so that SQLite reports the error.
    """
    buffer, line, position, start = "", 1, 0, 0
    for chunk in chunks:
        buffer += chunk
        while True:
            match = _PLAIN.match(buffer, position)
            position = match.end() if match else position
            if position >= len(buffer) or buffer[position] != ";":
                break
            if _is_in_trigger(buffer, start, position):
                position += 1
                continue
            text = buffer[start:position]
            yield from _statement(text, line)
            line += text.count("\n")
            position = start = position + 1
        buffer, position, start = buffer[start:], position - start, 0
        if len(buffer) > max_length:
            raise StatementTooLong(line)
    yield from _statement(buffer, line)


def _is_in_trigger(text: str, start: int, position: int) -> bool:
    """Return whether a semicolon is inside a trigger, which ends at the semicolon after `end`."""
    first = [token.text.lower() for token in islice(tokens(text, start, position), 3)]
    if (
        first[:1] != ["create"]
        or "trigger" not in first[1:]
        or first[1] not in ("temp", "temporary", "trigger")
    ):
        return False
    last = tokens(text, text.rfind(";", start, position) + 1, position)
    return [token.text.lower() for token in islice(last, 2)] != ["end"]


def _statement(text: str, line: int) -> Iterator[ParsedStatement]:
    blank = _BLANK.match(text)
    start = blank.end() if blank else 0
    if sql := text[start:].strip(" \t\n\f\r"):
        yield ParsedStatement(line + text.count("\n", 0, start), sql)
