"""SQL tokenizer, splitter of scripts into statements, and parser and writer of `CREATE TABLE`.

The parser changes single clauses and preserves the others. SQLite's pragmas omit checks, collations and
generated columns. The stored statement has everything; parsing it loses only comments.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from doors.tables.sqlite.errors import TablesError, complete, fold, quoted

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


def first_word(sql: str) -> str:
    """Return the first word of SQL in lower case, or an empty text."""
    first = next((token for token in tokens(sql) if token.text != ";"), None)
    return first.text.lower() if first is not None and first.kind == "word" else ""


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
            text = buffer[start:position]
            position += 1
            if "\0" in text or complete(f"{text};"):  # Else the semicolon is inside a trigger.
                yield from _statement(text, line)
                line += text.count("\n")
                start = position
        buffer, position, start = buffer[start:], position - start, 0
        if len(buffer) > max_length:
            raise StatementTooLong(line)
    yield from _statement(buffer, line)


def _statement(text: str, line: int) -> Iterator[ParsedStatement]:
    blank = _BLANK.match(text)
    start = blank.end() if blank else 0
    if sql := text[start:].strip(" \t\n\f\r"):
        yield ParsedStatement(line + text.count("\n", 0, start), sql)


ClauseKind = Literal[
    "PRIMARY", "NOT NULL", "NULL", "UNIQUE", "CHECK", "DEFAULT", "COLLATE", "REFERENCES", "GENERATED"
]
_CLAUSES: dict[str, ClauseKind] = {
    kind: kind for kind in get_args(ClauseKind) if kind not in ("NOT NULL", "NULL")
}
"""The kinds of clauses that begin with a word of their own."""
_TABLE_CONSTRAINTS = ("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN")


@dataclass(frozen=True, slots=True)
class Clause:
    """One constraint of a column: `not null`, `default 0`, `check (x > 0)`."""

    kind: ClauseKind
    sql: str


@dataclass(frozen=True, slots=True)
class ColumnText:
    """One column. `declared` is its type as written, which may be empty."""

    name: str
    declared: str
    clauses: tuple[Clause, ...] = ()

    def has(self, kind: ClauseKind) -> bool:
        """Return whether the column has a clause of a kind."""
        return any(clause.kind == kind for clause in self.clauses)

    def without(self, *kinds: ClauseKind) -> "ColumnText":
        """Return the column without the clauses of some kinds."""
        return replace(self, clauses=tuple(each for each in self.clauses if each.kind not in kinds))

    def having(self, kind: ClauseKind, sql: str) -> "ColumnText":
        """Return the column with one more clause."""
        return replace(self, clauses=(*self.clauses, Clause(kind, sql)))

    def sql(self) -> str:
        return " ".join(
            filter(None, (quoted(self.name), self.declared, *(each.sql for each in self.clauses)))
        )


@dataclass(frozen=True, slots=True)
class Definition:
    """A table's columns, its constraints over several columns, and its options (`STRICT`)."""

    columns: tuple[ColumnText, ...]
    constraints: tuple[str, ...] = ()
    options: str = "STRICT"

    def sql(self, name: str) -> str:
        """Return the statement that creates the table under a name."""
        parts = [*(column.sql() for column in self.columns), *self.constraints]
        return f"CREATE TABLE {quoted(name)} (\n  " + ",\n  ".join(parts) + f"\n) {self.options}".rstrip()

    def column(self, name: str) -> ColumnText:
        """Return an existing column by its name."""
        return next(column for column in self.columns if fold(column.name) == fold(name))

    def with_column(self, name: str, column: ColumnText) -> "Definition":
        """Return the table with a column replaced."""
        changed = (column if fold(each.name) == fold(name) else each for each in self.columns)
        return replace(self, columns=tuple(changed))


def parse(sql: str) -> Definition:
    """Parse a `CREATE TABLE` statement. Raises `TablesError` for invalid SQL."""
    parts = list(tokens(sql))
    opening = next((index for index, token in enumerate(parts) if token.text == "("), None)
    if opening is None:
        raise TablesError(f"cannot parse the definition of the table: {sql[:80]}")
    items, options = _split(parts[opening:])
    columns, constraints = [], []
    for part in items:
        if part and part[0].is_word(*_TABLE_CONSTRAINTS):
            constraints.append(to_sql(part))
        elif part:
            columns.append(_column(part))
    return Definition(tuple(columns), tuple(constraints), to_sql(options))


def _step(token: Token) -> int:
    return {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0


def _split(parts: Sequence[Token]) -> tuple[list[list[Token]], Sequence[Token]]:
    """Split a list in parentheses at its commas; return its items and the tokens behind it."""
    items: list[list[Token]] = [[]]
    depth = 0
    for index, token in enumerate(parts):
        depth += _step(token)
        if depth == 0:
            return items, parts[index + 1 :]
        if depth == 1 and token.kind == "mark" and token.text == ",":
            items.append([])
        elif index:
            items[-1].append(token)
    return items, ()


def _column(part: Sequence[Token]) -> ColumnText:
    pieces: list[tuple[ClauseKind | None, list[Token]]] = [(None, [])]
    depth = 0
    for at, token in enumerate(part[1:], 1):
        kind = _begins(part, at) if depth == 0 else None
        if depth == 0 and token.is_word("CONSTRAINT"):
            pieces.append((None, [token]))
        elif kind is None:
            pieces[-1][1].append(token)
        elif len(pieces) > 1 and pieces[-1][0] is None:
            pieces[-1] = (kind, [*pieces[-1][1], token])
        else:
            pieces.append((kind, [token]))
        depth += _step(token)
    clauses = tuple(Clause(kind, to_sql(piece)) for kind, piece in pieces[1:] if kind)
    return ColumnText(part[0].value, to_sql(pieces[0][1]), clauses)


def _begins(part: Sequence[Token], at: int) -> ClauseKind | None:
    """Return the kind of the clause that begins with a token, None inside another clause."""
    token, before = part[at], part[at - 1]
    after = part[at + 1] if at + 1 < len(part) else None
    if token.kind != "word" or before.is_word("SET", "DEFAULT"):
        return None
    match token.text.upper():
        case "AS" if not before.is_word("ALWAYS"):
            return "GENERATED"
        case "NOT" if after is not None and after.is_word("NULL"):
            return "NOT NULL"
        case "NULL" if not before.is_word("NOT"):
            return "NULL"
    return _CLAUSES.get(token.text.upper())
