"""Sort order and filters of a grid: as text, as chips, and as API documents. Pure.

Terms are `name~an` (contains), `name^an` (starts with), `age>=30`, `mood=null` and `mood!=null`. Other words
are a text to find in any column.
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
    """One condition on a column. `value` is the typed text, or None for null."""

    column: str
    op: str
    value: str | None

    def __str__(self) -> str:
        """Return the condition as a term."""
        return f"{self.column}{_SIGNS[self.op]}{'null' if self.value is None else self.value}"


@dataclass(frozen=True, slots=True)
class RowQuery:
    """Filters and sort order. All conditions must hold. `sorts` are columns, and whether each descends."""

    conditions: tuple[Condition, ...] = ()
    search: str = ""
    sorts: tuple[tuple[str, bool], ...] = ()

    def filtered(self, line: str, columns: Collection[str]) -> "RowQuery":
        """Return the query with the filters of a line instead. Raises `SvcError`."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise SvcError(
                f"unclosed quote in: {line}", "Close the quote, or put a backslash before it."
            ) from error
        conditions: list[Condition] = []
        search: list[str] = []
        for word in words:
            match = _WORD.fullmatch(word)
            if match is None:
                search.append(word)
            elif match[1] not in columns:
                raise SvcError(f"unknown column: {match[1]}", f"Available: {', '.join(columns)}.")
            else:
                is_null = match[3] == "null" and match[2] in ("=", "!=")
                conditions.append(Condition(match[1], _OPS[match[2]], None if is_null else match[3]))
        return replace(self, conditions=tuple(conditions), search=" ".join(search))

    def text(self) -> str:
        """Return the filters as a line."""
        terms = [*map(str, self.conditions), *([self.search] if self.search else [])]
        return " ".join(shlex.quote(term) if re.search(r"[\s'\"\\]", term) else term for term in terms)

    def chips(self) -> list[str]:
        """Return the text of each filter."""
        return [*map(str, self.conditions), *([f'"{self.search}"'] if self.search else [])]

    def without(self, index: int) -> "RowQuery":
        """Return the query without one of its filters."""
        if index < len(self.conditions):
            return replace(self, conditions=self.conditions[:index] + self.conditions[index + 1 :])
        return replace(self, search="")

    def sorted_by(self, column: str, *, append: bool) -> "RowQuery":
        """Toggle the sort by a column: ascending, descending, unsorted. `append` retains the other sorts."""
        descends = dict(self.sorts).get(column)
        others = tuple(sort for sort in self.sorts if sort[0] != column) if append else ()
        if descends is None:
            return replace(self, sorts=(*others, (column, False)))
        return replace(self, sorts=others if descends else (*others, (column, True)))

    def document(self, table: str) -> dict[str, Any]:
        """Return the body of `POST /grid`."""
        return {
            "table": table,
            "sort": [{"column": column, "descending": descends} for column, descends in self.sorts],
            "filter": [
                {"column": condition.column, "op": condition.op, "value": condition.value}
                for condition in self.conditions
            ],
            "search": self.search,
        }


def describe_sort(sorts: Sequence[tuple[str, bool]]) -> str:
    """Return the sort order as text: `sorted by at ↓, name ↑`."""
    columns = [f"{column} {'↓' if descends else '↑'}" for column, descends in sorts]
    return f"sorted by {', '.join(columns)}" if columns else ""
