"""What people write on the command line for columns, changes and values, as the control API takes it.

A column is `NAME:TYPE` and, after commas, its rules: `id:integer,key`, `at:timestamp,default=now()`.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from engine.errors import SvcError

TYPES = ("integer", "real", "text", "boolean", "timestamp", "json", "blob")
_QUOTED = ("text", "timestamp", "json", "blob")
_FLAGS: Mapping[str, tuple[str, Any]] = {
    "key": ("primary_key", True),
    "primary key": ("primary_key", True),
    "pk": ("primary_key", True),
    "not null": ("nullable", False),
    "required": ("nullable", False),
    "unique": ("unique", True),
}
_COLUMN = re.compile(r"(?P<name>.+?):(?P<type>[^:,]*)(?:,(?P<rules>.*))?", re.DOTALL)
_RULE = re.compile(r"(?:[^,']|'(?:[^']|'')*')+")
_FORM = "A column is NAME:TYPE and its rules: id:integer,key  name:text,unique  at:timestamp,default=now()"
_INTEGERS = range(-(2**63), 2**63)
Change = dict[str, Any]


def column(text: str) -> dict[str, Any]:
    """Read a column. Raises `SvcError`."""
    found = _COLUMN.fullmatch(text)
    if found is None:
        raise _usage(f'"{text}" is no column', _FORM)
    made: dict[str, Any] = {"name": found["name"], "type": type_name(found["type"])}
    rules, _, note = (found["rules"] or "").partition("note=")
    if note:
        made["note"] = note
    for rule in _RULE.findall(rules.rstrip(", ")):
        name, given, value = rule.strip().partition("=")
        flag = _FLAGS.get(name.lower().replace("-", " "))
        if name == "default" and given:
            made["default"] = default(made["type"], value)
        elif flag is not None and not given:
            made[flag[0]] = flag[1]
        else:
            known = ["key", "not null", "unique", "default=VALUE", "note=TEXT"]
            raise _usage(
                f'column {found["name"]} can not be "{rule.strip()}"',
                _meant(name, known) or f"Use {', '.join(known)}.",
            )
    return made


def type_name(text: str) -> str:
    """Read the name of a type. Raises `SvcError`."""
    name = text.strip().lower()
    if name not in TYPES:
        raise _usage(f'there is no type "{text}"', _meant(name, TYPES) or f"Types are {', '.join(TYPES)}.")
    return name


def default(type: str, value: str) -> str:
    """Return a default as SQL; texts need no quotes."""
    if type not in _QUOTED or value.lower() == "now()" or re.fullmatch(r"'(?:[^']|'')*'", value):
        return value
    return "'" + value.replace("'", "''") + "'"


def changes(table: str, words: Sequence[str], type_of: Callable[[str], str]) -> list[Change]:
    """Read changes of a table, with commas of their own between them. Raises `SvcError`.

    `type_of` tells the type of a column that is there.
    """
    made: list[Change] = []
    types = _Types(type_of)
    group: list[str] = []
    for word in [*_separated(words), ","]:
        if word != ",":
            group.append(word)
            continue
        if not group:
            raise _usage("a change is missing", f"Changes are {', '.join(_CHANGES)}.")
        change = _change(table, group[0], group[1:], types.of)
        types.see(change)
        made.append(change)
        group = []
    return made


class _Types:
    """The types of columns, as they are when the changes so far are made."""

    def __init__(self, type_of: Callable[[str], str]) -> None:
        self._type_of = type_of
        self._known: dict[str, str] = {}
        self._before: dict[str, str] = {}

    def of(self, name: str) -> str:
        return self._known.get(name) or self._type_of(self._before.get(name, name))

    def see(self, change: Change) -> None:
        column: Any = change.get("column")
        if change["op"] == "add-column":
            self._known[column["name"]] = column["type"]
        elif change["op"] == "retype-column":
            self._known[column] = change["type"]
        elif change["op"] == "rename-column":
            if column in self._known:
                self._known[change["name"]] = self._known[column]
            self._before[change["name"]] = self._before.get(column, column)


def _separated(words: Sequence[str]) -> list[str]:
    """Return words in which a comma that ends one, before the word of a change, stands by itself."""
    found: list[str] = []
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word != "," and word.endswith(",") and after in _CHANGES:
            found += [word[:-1], ","]
        else:
            found.append(word)
    return found


def _change(table: str, word: str, rest: Sequence[str], type_of: Callable[[str], str]) -> Change:
    if word not in _CHANGES:
        raise _usage(
            f'"{word}" is no change of a table',
            _meant(word, _CHANGES) or f"Changes are {', '.join(_CHANGES)}.",
        )
    form, make = _CHANGES[word]
    least, most = form.count(" ") - form.count("["), 1000 if form.endswith("…") else form.count(" ")
    if not least <= len(rest) <= most:
        raise _usage(f"{word} takes other words than that: {' '.join(rest) or 'none'}", f"It is {form}.")
    return {"table": table, **make(rest, type_of)}


_CHANGES: Mapping[str, tuple[str, Callable[[Sequence[str], Callable[[str], str]], Change]]] = {
    "add": ("add COLUMN", lambda words, _: {"op": "add-column", "column": column(words[0])}),
    "rename": (
        "rename COLUMN NAME",
        lambda words, _: {"op": "rename-column", "column": words[0], "name": words[1]},
    ),
    "retype": (
        "retype COLUMN TYPE",
        lambda words, _: {"op": "retype-column", "column": words[0], "type": type_name(words[1])},
    ),
    "drop": ("drop COLUMN", lambda words, _: {"op": "drop-column", "column": words[0]}),
    "not-null": ("not-null COLUMN", lambda words, _: _rule("nullable", words[0], False)),
    "null": ("null COLUMN", lambda words, _: _rule("nullable", words[0], True)),
    "unique": ("unique COLUMN", lambda words, _: _rule("unique", words[0], True)),
    "not-unique": ("not-unique COLUMN", lambda words, _: _rule("unique", words[0], False)),
    "default": (
        "default COLUMN VALUE",
        lambda words, type_of: _rule("default", words[0], default(type_of(words[0]), words[1])),
    ),
    "no-default": ("no-default COLUMN", lambda words, _: _rule("default", words[0], None)),
    "key": ("key COLUMN…", lambda words, _: {"op": "set-primary-key", "columns": list(words)}),
    "no-key": ("no-key", lambda _words, _: {"op": "set-primary-key", "columns": []}),
    "note": (
        "note [COLUMN] TEXT",
        lambda words, _: {"op": "set-note", "column": "".join(words[:-1]), "note": words[-1]},
    ),
}


def _rule(rule: str, column: str, value: Any) -> Change:
    return {"op": f"set-{rule}", "column": column, rule: value}


def parameter(text: str) -> Any:
    """Return a parameter of a query: a number, `true`, `false` or `null` as such, `"7"` and all else as text.

    What looks like a number but would be written otherwise, as 007 and 1.10, is text.
    """
    if re.fullmatch(r"-?\d{1,19}", text) and str(int(text)) == text and int(text) in _INTEGERS:
        return int(text)
    if re.fullmatch(r"-?\d+\.\d+(?:e[+-]\d+)?|-?\d+e[+-]\d+", text) and repr(float(text)) == text:
        return float(text)
    if text in ("null", "true", "false"):
        return json.loads(text)
    if re.fullmatch(r'".*"', text, re.DOTALL):
        try:
            return json.loads(text)
        except ValueError:
            return text
    if text.startswith("base64:"):
        try:
            base64.b64decode(text[7:], validate=True)
        except ValueError as error:
            raise _usage(
                f'"{text[:50]}" is not base 64', "A blob is base64: and its bytes in base 64."
            ) from error
        return {"base64": text[7:]}
    return text


def _meant(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    close = get_close_matches(word, list(known), n=1)
    return f"Did you mean {close[0]}?" if close else ""


def _usage(message: str, hint: str) -> SvcError:
    return SvcError(message, hint, code="usage")
