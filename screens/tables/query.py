"""Sort order and filters of a grid: as text, as chips, and as API documents. Pure.

Words are `name~an` (contains), `name^an` (begins so), `age>=30`, `mood=null`, `mood!=null`; other words are a
text that any column contains.
"""

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from svc_tui.client import SvcError

_OPS = {"~": "contains", "^": "starts", "=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SIGNS = {op: sign for sign, op in _OPS.items()}
_WORD = re.compile(r"(.+?)(!=|<=|>=|[~^=<>])(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that has to hold of a column; `value` is what was written, `null` where it is nothing."""

    column: str
    op: str
    value: str | None

    def __str__(self) -> str:
        """Return the word that says this."""
        return f"{self.column}{_SIGNS[self.op]}{'null' if self.value is None else self.value}"


@dataclass(frozen=True, slots=True)
class RowQuery:
    """All conditions hold at once; sorts count in their order, each a column and whether it descends."""

    conditions: tuple[Condition, ...] = ()
    search: str = ""
    sorts: tuple[tuple[str, bool], ...] = ()

    def filtered(self, line: str, columns: Collection[str]) -> "RowQuery":
        """Return this with its conditions replaced by those of a line. Raises `SvcError`."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise SvcError(
                f"a quote is open in: {line}", "Close it, or put a backslash before it."
            ) from error
        conditions: list[Condition] = []
        search: list[str] = []
        for word in words:
            match = _WORD.fullmatch(word)
            if match is None:
                search.append(word)
            elif match[1] not in columns:
                raise SvcError(f"there is no column {match[1]}", f"There are {', '.join(columns)}.")
            else:
                nothing = match[3] == "null" and match[2] in ("=", "!=")
                conditions.append(Condition(match[1], _OPS[match[2]], None if nothing else match[3]))
        return replace(self, conditions=tuple(conditions), search=" ".join(search))

    def words(self) -> str:
        """Return the line that says the conditions."""
        parts = [*map(str, self.conditions), *([self.search] if self.search else [])]
        return " ".join(shlex.quote(part) if re.search(r"[\s'\"\\]", part) else part for part in parts)

    def chips(self) -> list[str]:
        """Return the conditions, each as its word."""
        return [*map(str, self.conditions), *([f'"{self.search}"'] if self.search else [])]

    def without(self, index: int) -> "RowQuery":
        """Return this without one of its chips."""
        if index < len(self.conditions):
            return replace(self, conditions=self.conditions[:index] + self.conditions[index + 1 :])
        return replace(self, search="")

    def sorted_by(self, column: str, *, more: bool) -> "RowQuery":
        """Return this sorted by a column: up, then down, then not. `more` leaves other sorts before it."""
        before = dict(self.sorts)
        kept = tuple(each for each in self.sorts if each[0] != column) if more else ()
        if column not in before:
            return replace(self, sorts=(*kept, (column, False)))
        return replace(self, sorts=(*kept, (column, True)) if not before[column] else kept)

    def body(self, table: str) -> dict[str, Any]:
        """Return what `POST /grid` takes."""
        return {
            "table": table,
            "sort": [{"column": column, "descending": down} for column, down in self.sorts],
            "filter": [
                {"column": each.column, "op": each.op, "value": each.value} for each in self.conditions
            ],
            "search": self.search,
        }


def sort_words(sorts: Sequence[tuple[str, bool]]) -> str:
    """Return the order for people: `sorted by at ↓, name ↑`."""
    parts = [f"{column} {'↓' if down else '↑'}" for column, down in sorts]
    return f"sorted by {', '.join(parts)}" if parts else ""
