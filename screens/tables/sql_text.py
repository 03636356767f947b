"""Text of SQL: syntax colors, completion, query plans, results, and the history of inputs. Pure."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

from screens.tables.cells import as_text, measure_columns, piece, typed_piece
from screens.widgets.rows import ItemRows, Line, ListColumn, Row, Tone, sanitize
from svc_tui.tables_syntax import COMPUTED, ColumnTypes, TypeInfo
from svc_tui.terminal.units import plural

MAX_COLORED = 20_000
"""Maximum characters of a statement that is colored."""
_KEYWORD_LIST = """
select from where group order by having limit offset join left inner cross on using as and or not in is
null like glob between exists case when then else end distinct union all except intersect with recursive
insert into values update set delete returning create table index view unique primary key references
default check drop alter add column rename to if explain query plan asc desc true false cast over
partition filter collate current_timestamp conflict do nothing replace
"""
_FUNCTION_LIST = """
count sum avg min max total group_concat abs round length lower upper trim ltrim rtrim substr replace
instr printf coalesce ifnull nullif iif typeof date time datetime julianday strftime unixepoch json
json_extract json_each json_array json_object json_group_array random hex quote row_number rank
dense_rank lag lead first_value last_value
"""
KEYWORDS, FUNCTIONS = _KEYWORD_LIST.split(), _FUNCTION_LIST.split()
_KEYWORDS, _FUNCTIONS = frozenset(KEYWORDS), frozenset(FUNCTIONS)
_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))"
    r"|(?P<text>'(?:[^']|'')*(?:'|\Z))"
    r'|(?P<name>"(?:[^"]|"")*(?:"|\Z)|`[^`]*`?|\[[^\]]*\]?)'
    r"|(?P<number>\b\d[\w.]*)"
    r"|(?P<parameter>[?:@$]\w*)"
    r"|(?P<word>[^\W\d]\w*)",
    re.DOTALL,
)
_TONES: dict[str, Tone] = {"comment": "dim", "text": "good", "number": "teal", "parameter": "orange"}
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
LAST_WORD = re.compile(r"[^\W\d]\w*\Z")


class StyledRange(NamedTuple):
    """A part of a statement, by the indexes of its first character and of the one behind its last."""

    start: int
    end: int
    tone: Tone


def spans(text: str) -> list[StyledRange]:
    """Return the parts of a statement that have a color; none for a very long one."""
    matches = _TOKEN.finditer(text) if len(text) <= MAX_COLORED else ()
    parts = (StyledRange(*match.span(), _tone(match)) for match in matches)
    return [part for part in parts if part.tone]


def spans_by_line(text: str) -> dict[int, list[StyledRange]]:
    """Return the colored parts of a statement by line, with indexes in their line."""
    lines: dict[int, list[StyledRange]] = {}
    ends = list(accumulate(len(line) + 1 for line in text.split("\n")))
    for start, end, tone in spans(text):
        for line in range(bisect_right(ends, start), bisect_left(ends, end) + 1):
            first = ends[line - 1] if line else 0
            part = StyledRange(max(start - first, 0), min(end, ends[line] - 1) - first, tone)
            lines.setdefault(line, []).append(part)
    return lines


def _tone(match: re.Match[str]) -> Tone:
    if match.lastgroup != "word":
        return _TONES.get(match.lastgroup or "", "")
    word = match[0].lower()
    if word in _FUNCTIONS and match.string[match.end() : match.end() + 1] == "(":
        return "yellow"
    return "violet" if word in _KEYWORDS else ""


def completion(before: str, names: Iterable[str]) -> str:
    """Return the rest of the word at the end of a text; "" if it is unknown or complete.

    `names` are tables and columns. The rest of one that has to be quoted ends with its quote. Keywords and
    functions have the case of the typed letters.
    """
    match = LAST_WORD.search(before)
    if match is None or any(
        span.end == len(before) and span.tone in ("dim", "good") for span in spans(before)
    ):
        return ""
    typed = match[0]
    lower = typed.lower()
    for name in sorted(names):
        if name.lower().startswith(lower):
            rest, opened = name[len(typed) :], before.endswith(f'"{typed}')
            quoted = opened or (rest and quoted_name(name) != name)
            return rest.replace('"', '""') + '"' if quoted else rest
    for word in (*KEYWORDS, *(f"{function}(" for function in FUNCTIONS)):
        if word.startswith(lower):
            rest = word[len(typed) :]
            return rest.upper() if typed.isupper() else rest
    return ""


def quoted_name(name: str) -> str:
    """Return a name as SQL: quoted if it is a keyword or no plain word."""
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in _KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


EXPLAIN = re.compile(r"\s*explain\b", re.IGNORECASE)
_INDEXED = re.compile(r"\bUSING\b")


def plan_lines(rows: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Return the steps of a plan. Scans of whole tables and temporary sorts have a warning color."""
    depths: dict[int, int] = {0: -1}
    lines: list[Line] = []
    for row in rows:
        depth = depths[row["id"]] = depths.get(row["parent"], -1) + 1
        detail = sanitize(str(row["detail"]))
        branch = f"{'  ' * (depth - 1)}└ " if depth else ""
        tone: Tone = "warn" if detail.startswith(("SCAN", "USE TEMP B-TREE")) else ""
        if detail.startswith("SEARCH") or (detail.startswith("SCAN") and _INDEXED.search(detail)):
            tone = "good"
        lines.append([(branch, "dim"), (detail, tone)])
    return lines


_AT = re.compile(r", at character (\d+) of the SQL")


class ResultRows(ItemRows[Mapping[str, Any]]):
    """The rows of a result. A `RowSource`."""

    def __init__(self, result: Mapping[str, Any], types: ColumnTypes) -> None:
        """Create the rows. `result` is the response of `POST /sql`, with cells."""
        self.names: list[str] = [column["name"] for column in result["columns"]]
        self.types: list[TypeInfo] = [types[column["type"]] for column in result["columns"]]
        super().__init__(self._row, result["rows"])

    def columns(self) -> tuple[ListColumn, ...]:
        """Return the columns."""
        texts = ([piece(row[name])[0] for row in self.items] for name in self.names)
        measured = measure_columns(self.names, self.types, texts)
        return tuple(
            replace(
                column,
                comfortable=0,
                # A computed column is aligned by its first value.
                right=column.right
                or (type is COMPUTED and bool(self.items) and isinstance(self.items[0][name], int | float)),
            )
            for name, type, column in zip(self.names, self.types, measured, strict=True)
        )

    def _row(self, at: int, row: Mapping[str, Any]) -> Row:
        cells = ((typed_piece(row[name], type),) for name, type in zip(self.names, self.types, strict=True))
        return Row(at, tuple(cells))

    def cell(self, row: int, column: int) -> str:
        """Return a cell as text."""
        text = as_text(self.items[row][self.names[column]])
        return text.encode(errors="backslashreplace").decode()  # JSON may have half a surrogate pair.


def describe_result(result: Mapping[str, Any]) -> str:
    """Return the outcome of a statement as text."""
    if result["columns"]:
        rows = plural(len(result["rows"]), "row")
        if result["truncated"] is not None:
            return f"{rows}, truncated: a result has at most 10,000 rows and 16 MiB"
        return rows
    return f"{plural(result['changes'], 'row')} changed"


def error_position(message: str) -> int | None:
    """Return the index in the statement that an error message names, or None."""
    match = _AT.search(message)
    return int(match[1]) - 1 if match else None


def line_and_column(text: str, character: int) -> tuple[int, int]:
    """Return line and column of a character, from 0."""
    before = text[:character]
    return before.count("\n"), len(before) - before.rfind("\n") - 1


MAX_STATEMENTS = 500
"""Maximum stored statements."""


class TextStore(Protocol):
    """Persistent storage of a text, "" without one. Read and write errors are ignored."""

    def read(self) -> str: ...

    def write(self, text: str) -> None: ...


class StatementHistory:
    """The statements, the latest last, with a cursor for browsing."""

    def __init__(self, store: TextStore | None = None) -> None:
        self._store = store
        self._statements: list[str] | None = None
        self._steps_back = 0
        self._typed = ""

    def add(self, statement: str) -> None:
        """Append a statement; an earlier equal one is removed."""
        statement = statement.strip()
        others = [other for other in self._read() if other != statement]
        self._statements = [*others, statement][-MAX_STATEMENTS:]
        self._steps_back = 0
        if self._store is not None:
            self._store.write(json.dumps(self._statements))

    def step(self, steps: int, typed: str) -> str | None:
        """Return the statement `steps` back (negative: forward), or None if there is none.

        `typed` is the current text, which is returned again after the latest statement.
        """
        statements = self._read()
        steps_back = self._steps_back + steps
        if not 0 <= steps_back <= len(statements):
            return None
        if self._steps_back == 0:
            self._typed = typed
        self._steps_back = steps_back
        return statements[-steps_back] if steps_back else self._typed

    def _read(self) -> list[str]:
        if self._statements is None:
            stored: object = ()
            if self._store is not None:
                with suppress(ValueError):
                    stored = json.loads(self._store.read())
            listed = stored if isinstance(stored, list) else ()
            self._statements = [statement for statement in listed if isinstance(statement, str)]
        return self._statements
