"""Syntax colors and completion of SQL statements. Pure."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from screens.widgets.row_source import Tone

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
_TONES: dict[str, Tone] = {
    "comment": "dim",
    "text": "good",
    "number": "teal",
    "parameter": "orange",
}
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
            lines.setdefault(line, []).append(
                StyledRange(max(start - first, 0), min(end, ends[line] - 1) - first, tone)
            )
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
