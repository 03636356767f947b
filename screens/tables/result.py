"""The rows of an SQL result, and the position of an SQL error. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from screens.tables.cells import as_text, piece
from screens.widgets.columns import ListColumn
from screens.widgets.row_source import Piece, Row
from svc_tui.column_types import COMPUTED, ColumnTypes, TypeInfo

_AT = re.compile(r", at character (\d+) of the SQL")


class ResultRows:
    """The rows of a result. A `RowSource`."""

    def __init__(self, result: Mapping[str, Any], types: ColumnTypes) -> None:
        """`result` is the answer to `POST /sql`."""
        self._names = [(each["name"], types[each["type"]]) for each in result["columns"]]
        self._rows: Sequence[Mapping[str, Any]] = result["rows"]

    def columns(self) -> tuple[ListColumn, ...]:
        """Return the columns."""
        return tuple(
            ListColumn(
                name,
                max(type.width or COMPUTED.width, min(len(name), 24)),
                right=type.align_right or (type is COMPUTED and self._numbers(name)),
                grow=type.is_long,
            )
            for name, type in self._names
        )

    def _numbers(self, name: str) -> bool:
        """Return whether the first value of a computed column is a number."""
        return bool(self._rows) and isinstance(self._rows[0][name], int | float)

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self._rows)

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return rows."""
        rows = self._rows[start : start + n]
        return [
            Row(start + index, tuple((_piece(row[name], type),) for name, type in self._names))
            for index, row in enumerate(rows)
        ]

    def cell(self, row: int, column: int) -> str:
        """Return a cell as text."""
        value = self._rows[row][self._names[column][0]]
        return as_text(value) if not isinstance(value, dict | list) else json.dumps(value, ensure_ascii=False)


def describe_result(result: Mapping[str, Any]) -> str:
    """Return what a statement did, for people."""
    if result["columns"]:
        count = len(result["rows"])
        rows = f"{count:,} row{'' if count == 1 else 's'}"
        if result["truncated"] is not None:
            return f"{rows}, and there are more: a result ends after 10,000 rows or 16 MiB"
        return rows
    changes = result["changes"]
    return f"{changes:,} row{'' if changes == 1 else 's'} changed"


def position(message: str) -> int | None:
    """Return which character of the statement an error is about, counted from 0."""
    found = _AT.search(message)
    return int(found[1]) - 1 if found else None


def line_and_column(text: str, character: int) -> tuple[int, int]:
    """Return where a character stands, line and column counted from 0."""
    before = text[:character]
    return before.count("\n"), len(before) - before.rfind("\n") - 1


def _piece(value: Any, type: TypeInfo) -> Piece:
    if type.form == "bytes" and isinstance(value, str):
        return piece({"base64": value})
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False), ""
    return piece(value)
