"""SQL as text: its tokens, and where one statement ends and the next begins. Nothing here runs any."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["word", "name", "string", "number", "mark"]

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\n\f\r]+ | --[^\n]*(?:\n|$) | /\*.*?(?:\*/|$))
  | (?P<string>[xX]?'[^']*+(?:''[^']*+)*+')
  | (?P<name>"[^"]*+(?:""[^"]*+)*+" | `[^`]*+(?:``[^`]*+)*+` | \[[^\]]*+\])
  | (?P<word>[A-Za-z_$\x80-\U0010ffff][\w$\x80-\U0010ffff]*)
  | (?P<number>\d[\w.]*(?:(?<=[eE])[+-]\w+)? | \.\d[\w]*(?:(?<=[eE])[+-]\w+)?)
  | (?P<mark>\|\| | ->>? | <[=>] | >= | != | == | << | >> | .)
    """,
    re.DOTALL | re.VERBOSE,
)
_PLAIN = re.compile(
    r"""
    (?: [^;'"`\[/-]++
      | '[^']*+(?:''[^']*+)*+' | "[^"]*+(?:""[^"]*+)*+" | `[^`]*+(?:``[^`]*+)*+` | \[[^\]]*+\]
      | --[^\n]*+\n | /\*(?:[^*]|\*(?!/))*+\*/
      | -(?=[^-]) | /(?=[^*])
    )*+
    """,
    re.VERBOSE,
)
_BLANK = re.compile(r"(?:[ \t\n\f\r]++|--[^\n]*+(?:\n|\Z)|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z))*+")
_TRIGGER = re.compile(rf"create{_BLANK.pattern}(?:temp(?:orary)?)?{_BLANK.pattern}trigger\b", re.IGNORECASE)
_END = re.compile(rf"{_BLANK.pattern}end{_BLANK.pattern}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `spaced` when blanks or a comment stand before it."""

    kind: Kind
    text: str
    spaced: bool

    def is_word(self, *words: str) -> bool:
        """Say whether this is one of these keywords, given in upper case."""
        return self.kind == "word" and self.text.upper() in words

    @property
    def value(self) -> str:
        """What a name, quoted or not, stands for; the text of anything else."""
        if self.kind in ("name", "string") and self.text[0] in "\"'`[":
            if self.text[0] == "[":
                return self.text[1:-1]
            mark = self.text[0]
            return self.text[1:-1].replace(mark * 2, mark)
        return self.text


def tokens(sql: str) -> Iterator[Token]:
    """Yield the tokens of SQL, without blanks and comments."""
    spaced = False
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup
        if kind == "space":
            spaced = True
        else:
            yield Token(kind, match[0], spaced)  # type: ignore[arg-type]
            spaced = False


def written(parts: Iterable[Token]) -> str:
    """Return tokens as SQL, one blank where there were blanks or comments."""
    return "".join((" " if part.spaced else "") + part.text for part in parts).strip()


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, without the semicolon and the comments before it, and the line it begins on."""

    line: int
    sql: str


class StatementTooLong(Exception):
    """A statement is longer than allowed. `line` is where it begins."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def statements(chunks: Iterable[str], max_length: int) -> Iterator[Statement]:
    """Split SQL that comes in pieces, at the semicolons that end statements.

    Holds one statement and one piece in memory. What is after the last semicolon is a statement too, even
    where a quote in it is never closed: SQLite says what is wrong with it.
    """
    held, line, at, began = "", 1, 0, 0
    for chunk in chunks:
        held += chunk
        while True:
            match = _PLAIN.match(held, at)
            at = match.end() if match else at
            if at >= len(held) or held[at] != ";":
                break
            if _goes_on(held, began, at):
                at += 1
                continue
            text = held[began:at]
            yield from _statement(text, line)
            line += text.count("\n")
            at = began = at + 1
        held, at, began = held[began:], at - began, 0
        if len(held) > max_length:
            raise StatementTooLong(line)
    yield from _statement(held, line)


def _goes_on(text: str, began: int, at: int) -> bool:
    """Say whether a semicolon is one of those within a trigger, which ends with one after `end`."""
    blank = _BLANK.match(text, began, at)
    if not _TRIGGER.match(text, blank.end() if blank else began, at):
        return False
    return _END.fullmatch(text, text.rfind(";", began, at) + 1, at) is None


def _statement(text: str, line: int) -> Iterator[Statement]:
    blank = _BLANK.match(text)
    start = blank.end() if blank else 0
    if sql := text[start:].strip(" \t\n\f\r"):
        yield Statement(line + text.count("\n", 0, start), sql)
