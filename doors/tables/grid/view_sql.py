"""SQL clauses for the filters, the search and the sort order of a grid."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from doors.tables.sqlite.catalog import Column, Table
from doors.tables.sqlite.errors import TablesError, Value, quoted
from doors.tables.types.convert import format_value
from doors.tables.types.grid_cell import stored
from doors.tables.types.registry import TEXT, TYPES
from engine.stepwise_json import Verbatim

_SURROGATES = re.compile("[\ud800-\udfff]")
"""Lone surrogates, which stored text never has."""
Op = Literal["=", "!=", "<", "<=", ">", ">=", "contains", "starts", "empty", "not-empty"]


@dataclass(frozen=True, slots=True)
class Sort:
    """A column to sort by."""

    column: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class GridFilter:
    """A condition on a column. `value` is a cell or its text; `empty` takes none."""

    column: str
    op: Op
    value: Any = None


@dataclass(frozen=True, slots=True)
class GridView:
    """The rows to show: all filters apply, and some column contains the text `search`."""

    table: str
    sort: tuple[Sort, ...] = ()
    filter: tuple[GridFilter, ...] = ()
    search: str = ""


@dataclass(frozen=True, slots=True)
class Clauses:
    """The clauses `WHERE …` and `ORDER BY …` of a SELECT, each possibly empty, and the values of `where`."""

    where: str
    order: str
    values: tuple[Value, ...]

    @property
    def plain(self) -> bool:
        """True if all rows are shown, in the order of the table."""
        return not (self.where or self.order)


def clauses(table: Table, view: GridView) -> Clauses:
    """Return the clauses of a view over a table with the alias `t`. Raises `TablesError`."""
    conditions: list[str] = []
    values: list[Value] = []
    for grid_filter in view.filter:
        condition, value = _condition(table, grid_filter)
        conditions.append(condition)
        values += value
    if view.search:
        texts = [_name(column) for column in table.columns if TYPES[column.type].form != "bytes"]
        conditions.append("(" + " OR ".join(f"{text} LIKE ? ESCAPE '\\'" for text in texts or ["NULL"]) + ")")
        values += [_pattern(view.search, anywhere=True)] * len(texts or [""])
    order = [_name(table.column(sort.column)) + " DESC" * sort.descending for sort in view.sort]
    return Clauses(
        f" WHERE {' AND '.join(conditions)}" if conditions else "",
        f" ORDER BY {', '.join(order)}" if order else "",
        tuple(values),
    )


def _condition(table: Table, grid_filter: GridFilter) -> tuple[str, Sequence[Value]]:
    column = table.column(grid_filter.column)
    name = _name(column)
    match grid_filter.op:
        case "empty":
            return f"({name} IS NULL OR {name} = '')", ()
        case "not-empty":
            return f"({name} IS NOT NULL AND {name} <> '')", ()
        case "contains" | "starts":
            pattern = _pattern(_text(grid_filter), anywhere=grid_filter.op == "contains")
            return f"{name} LIKE ? ESCAPE '\\'", (pattern,)
        case "=" | "!=":
            return f"{name} IS {'NOT ' * (grid_filter.op == '!=')}?", (_value(table, column, grid_filter),)
    return f"{name} {grid_filter.op} ?", (_value(table, column, grid_filter),)


def _value(table: Table, column: Column, grid_filter: GridFilter) -> Value:
    try:
        return stored(grid_filter.value, table, column, "")
    except ValueError as error:
        raise TablesError(
            f"the filter of column {column.name}: {grid_filter.value!r} {error}",
            f"{column.name} is {column.type}; compare it with a value of that type, or use contains.",
            code="filter",
        ) from None


def _text(grid_filter: GridFilter) -> str:
    value = grid_filter.value
    if isinstance(value, str | int | float | Verbatim) and not isinstance(value, bool):
        text = format_value(value, TEXT)
        if not _SURROGATES.search(text):
            return text
    raise TablesError(
        f"the filter of column {grid_filter.column}: {grid_filter.op} needs a text",
        "Pass the text to search for.",
        code="filter",
    )


def _pattern(text: str, *, anywhere: bool) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"{'%' * anywhere}{escaped}%"


def _name(column: Column) -> str:
    return f"t.{quoted(column.name)}"
