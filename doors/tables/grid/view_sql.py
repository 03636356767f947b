"""SQL clauses for the filters, the search and the sort order of a grid."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from doors.tables.replication.history import At
from doors.tables.sqlite.catalog import Column, Table
from doors.tables.sqlite.errors import TablesError, Value, quoted
from doors.tables.types.grid_cell import stored
from doors.tables.types.registry import TYPES
from engine.control.schemas import StrictModel
from engine.stepwise_json import Verbatim

_SURROGATES = re.compile("[\ud800-\udfff]")
"""Lone surrogates, which stored text never has."""
Op = Literal["=", "!=", "<", "<=", ">", ">=", "contains", "starts", "empty", "not-empty"]


class SortBy(StrictModel):
    """Sort by a column. The first of a list has priority; the sort is stable."""

    column: str
    descending: bool = False


class FilterBy(StrictModel):
    """A condition on a column. `value` is a cell, or its text ("42", "2026-01-02", "yes").

    `=` with null matches NULL, and `!=` with a value matches NULL too. `contains` and `starts` compare text
    and ignore the case of ASCII letters. `empty` matches NULL and empty text, and takes no value.
    """

    column: str
    op: Op
    value: Any = None


class GridQuery(StrictModel):
    """Rows to show: all filters apply, and some column of any type contains the text `search`.

    `at` is a moment before now.
    """

    table: str
    sort: list[SortBy] = Field(default=[], max_length=32)
    filter: list[FilterBy] = Field(default=[], max_length=64)
    search: str = Field(default="", max_length=1000)
    at: At | None = None


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


def clauses(table: Table, view: GridQuery) -> Clauses:
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


def _condition(table: Table, grid_filter: FilterBy) -> tuple[str, Sequence[Value]]:
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
    type = TYPES[column.type]
    try:
        value = stored(grid_filter.value, table, column, "")
    except ValueError as error:
        raise TablesError(
            f"the filter of column {column.name}: {grid_filter.value!r} {error}",
            f"{column.name} is {column.type}; compare it with a value of that type, or use contains.",
            code="filter",
        ) from None
    with suppress(ValueError):
        if type.form == "format" and not table.strict and type.parse(str(value)) == value:
            # Other programs store times in other forms, such as 2026-01-02 03:04:05, which are shown in this.
            same_form = type.now_sql.replace("'now'", name)
            name = f"iif(typeof({name}) = 'text', ifnull({same_form}, {name}), {name})"
    op = {"=": "IS", "!=": "IS NOT"}.get(grid_filter.op, grid_filter.op)
    return f"{name} {op} ?", (value,)


def _text(grid_filter: FilterBy) -> str:
    value = grid_filter.value
    if isinstance(value, str | int | float | Verbatim) and not isinstance(value, bool):
        text = value if isinstance(value, str) else repr(value)
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
