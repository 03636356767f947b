"""Structural comparison of JSON: members by name, elements of arrays by content, numbers by text. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from engine.stepwise_json import dump_verbatim

_INDENT = "  "
_ABSENT = object()
MAX_ALIGNED = 2_000
"""Maximum elements of arrays that are aligned by content. Longer ones are compared by index."""


@dataclass(frozen=True, slots=True)
class LinePair:
    """One line of each value; an empty text if a value has no such line."""

    before: str
    after: str
    differs: bool


@dataclass(frozen=True, slots=True)
class _DiffSide:
    """Text around the lines of one value: indentation and name before the first, a comma after the last."""

    indent: str
    name: str
    end: str


def compare_json(before: Any, after: Any) -> list[LinePair]:
    """Return the lines of two values side by side. Raises `RecursionError` for deeply nested values."""
    side = _DiffSide("", "", "")
    return list(_pairs(before, after, side, side))


def _pairs(before: Any, after: Any, left: _DiffSide, right: _DiffSide) -> Iterator[LinePair]:
    if isinstance(before, dict) and isinstance(after, dict) and (before or after):
        yield from _containers("{}", _members(before, after), left, right)
    elif isinstance(before, list) and isinstance(after, list) and (before or after):
        yield from _containers("[]", _elements(before, after), left, right)
    else:
        differs = before is _ABSENT or after is _ABSENT or _text(before) != _text(after)
        for old, new in zip_longest(_lines(before, left), _lines(after, right), fillvalue=""):
            yield LinePair(old, new, differs)


def _containers(
    brackets: str, children: Sequence[tuple[str, Any, Any]], left: _DiffSide, right: _DiffSide
) -> Iterator[LinePair]:
    opening, closing = brackets[0], brackets[1]
    yield LinePair(
        f"{left.indent}{left.name}{opening}", f"{right.indent}{right.name}{opening}", differs=False
    )
    last_before = max((at for at, child in enumerate(children) if child[1] is not _ABSENT), default=-1)
    last_after = max((at for at, child in enumerate(children) if child[2] is not _ABSENT), default=-1)
    for at, (name, old, new) in enumerate(children):
        yield from _pairs(
            old,
            new,
            _DiffSide(left.indent + _INDENT, name, "," if at < last_before else ""),
            _DiffSide(right.indent + _INDENT, name, "," if at < last_after else ""),
        )
    yield LinePair(f"{left.indent}{closing}{left.end}", f"{right.indent}{closing}{right.end}", differs=False)


def _members(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the members of both objects in the order of the first; new ones come last."""
    names = dict.fromkeys([*before, *after])
    return [
        (f"{json.dumps(name, ensure_ascii=False)}: ", before.get(name, _ABSENT), after.get(name, _ABSENT))
        for name in names
    ]


def _elements(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[str, Any, Any]]:
    """Return the elements of both arrays; equal ones face each other."""
    if max(len(before), len(after)) > MAX_ALIGNED:
        return [("", old, new) for old, new in zip_longest(before, after, fillvalue=_ABSENT)]
    old_texts, new_texts = ([_text(value) for value in values] for values in (before, after))
    matcher = SequenceMatcher(None, old_texts, new_texts, autojunk=False)
    return [
        ("", old, new)
        for _, a, b, c, d in matcher.get_opcodes()
        for old, new in zip_longest(before[a:b], after[c:d], fillvalue=_ABSENT)
    ]


def _text(value: Any) -> str:
    return dump_verbatim(value, sort_keys=True)


def _lines(value: Any, side: _DiffSide) -> list[str]:
    if value is _ABSENT:
        return []
    lines = dump_verbatim(value, indent=len(_INDENT)).splitlines()
    first, *rest = lines
    result = [f"{side.indent}{side.name}{first}", *(f"{side.indent}{line}" for line in rest)]
    result[-1] += side.end
    return result
