"""The rows of an SQL result, and the position of an SQL error. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from screens.tables.cells import as_text, piece, typed_piece
from screens.tables.widths import measure_widths
from screens.widgets.columns import ListColumn
from screens.widgets.row_source import Row
from svc_tui.column_types import COMPUTED, ColumnTypes, TypeInfo
from svc_tui.terminal.units import plural

_AT = re.compile(r", at character (\d+) of the SQL")


class ResultRows:
    """The rows of a result. A `RowSource`."""

    def __init__(self, result: Mapping[str, Any], types: ColumnTypes) -> None:
        """Create the rows. `result` is the response of `POST /sql`, with cells."""
        self._names = [(column["name"], types[column["type"]]) for column in result["columns"]]
        self.names: list[str] = [name for name, _ in self._names]
        self.types: list[TypeInfo] = [type for _, type in self._names]
        self.rows: Sequence[Mapping[str, Any]] = result["rows"]

    def columns(self) -> tuple[ListColumn, ...]:
        """Return the columns."""
        measured = measure_widths(
            self.names,
            self.types,
            ([piece(row[name])[0] for row in self.rows] for name in self.names),
        )
        return tuple(
            ListColumn(
                name,
                width.default,
                right=type.align_right or (type is COMPUTED and self._numbers(name)),
                preferred=width.longest,
            )
            for (name, type), width in zip(self._names, measured, strict=True)
        )

    def _numbers(self, name: str) -> bool:
        """Return whether the first value of a computed column is a number."""
        return bool(self.rows) and isinstance(self.rows[0][name], int | float)

    def count(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return rows."""
        rows = self.rows[start : start + n]
        return [
            Row(
                start + index,
                tuple((typed_piece(row[name], type),) for name, type in self._names),
            )
            for index, row in enumerate(rows)
        ]

    def cell(self, row: int, column: int) -> str:
        """Return a cell as text."""
        text = as_text(self.rows[row][self.names[column]])
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
