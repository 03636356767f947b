"""Columns as lines of words: what one writes to make a table, as the control API takes it, and back. Pure.

A line is a name, a type, and what holds of it: `id integer key`, `mail text unique`, `at timestamp needed
default now()`, `mood text default sunny note how it felt`. A name with blanks is written in double quotes.
Commas between what holds, and SQL's `primary key` and `not null`, are understood as well.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from screens.widgets.row_source import Line
from svc_tui.client import SvcError

TYPES = ("integer", "real", "text", "boolean", "timestamp", "json", "blob")
FORM = "NAME TYPE, then any of: key, needed, unique, default VALUE, note TEXT"
_QUOTED = frozenset({"text", "timestamp", "json", "blob"})
_WORD = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\S+""")
_RULES: Mapping[str, tuple[str, Any]] = {
    "key": ("primary_key", True),
    "needed": ("nullable", False),
    "unique": ("unique", True),
}
_SQL = {("primary", "key"): "key", ("not", "null"): "needed"}
Spoken = dict[str, Any]


def words(line: str) -> list[str]:
    """Return the words of a line; texts in quotes are one, with their quotes."""
    return _WORD.findall(line)


def name(word: str) -> str:
    """Return a name without the double quotes around it."""
    return word[1:-1].replace('""', '"') if len(word) > 1 and word[0] == word[-1] == '"' else word


def spoken(name: str) -> str:
    """Return the word that says a name."""
    plain = re.fullmatch(r"""[^\s'",][^\s,]*""", name)
    return name if plain else '"' + name.replace('"', '""') + '"'


def type_name(word: str) -> str:
    """Return a type. Raises `SvcError`."""
    if word.lower() in TYPES:
        return word.lower()
    close = get_close_matches(word.lower(), TYPES, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Types are {', '.join(TYPES)}."
    raise SvcError(f"there is no type {word}", hint)


def default(type: str, word: str) -> str:
    """Return a default as SQL; texts need no quotes."""
    if type not in _QUOTED or word.lower() == "now()" or re.fullmatch(r"'(?:[^']|'')*'", word):
        return word
    return "'" + name(word).replace("'", "''") + "'"


def column(given: Sequence[str]) -> Spoken:
    """Return the column that words say. Raises `SvcError`."""
    if len(given) < 2:
        raise SvcError(f"which type has {given[0]}?" if given else "the column is missing", FORM)
    made: Spoken = {"name": name(given[0]), "type": type_name(given[1].rstrip(","))}
    rest = list(given[2:])
    while rest:
        word = rest.pop(0).lower().rstrip(",")
        if rest and (in_sql := _SQL.get((word, rest[0].lower().rstrip(",")))):
            word, rest = in_sql, rest[1:]
        if word in _RULES:
            rule, value = _RULES[word]
            made[rule] = value
        elif word == "default" and rest:
            made["default"] = default(made["type"], rest.pop(0))
        elif word == "note" and rest:
            made["note"], rest = name(" ".join(rest)), []
        else:
            raise SvcError(f"{made['name']} can not be {word}", FORM)
    return made


def columns(text: str) -> list[Spoken]:
    """Return the columns that lines say. Raises `SvcError` with the number of the line."""
    made = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                made.append(column(words(line)))
            except SvcError as error:
                raise SvcError(f"line {number}: {error.message}", error.hint) from error
    if not made:
        raise SvcError("the columns are missing", FORM)
    return made


def described(column: Mapping[str, Any], width: int = 0) -> Line:
    """Return what is understood of a column, or what it is."""
    rules = [word for word, (rule, value) in _RULES.items() if column.get(rule) is value]
    if column.get("primary_key"):
        rules = [word for word in rules if word != "needed"]
    if column.get("default") is not None:
        rules.append(f"default {column['default']}")
    note = column.get("note", "")
    return [
        (column["name"].ljust(width), "bold"),
        (f"  {column['type']:<10}", "accent"),
        (" · ".join(rules), ""),
        (f"  {note}" if note else "", "dim"),
    ]
