"""The preview of a file or a pasted range: columns with inferred types, and first rows. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from screens.widgets.columns import COLUMN_GAP, PlacedColumn, fit_cell
from screens.widgets.row_source import Cell, Line, Piece

MAX_COLUMNS, MAX_ROWS = 5, 5
WIDTH = 14
"""Cells of a column; more columns and rows are counted."""


def lines(title: str, told: Mapping[str, Any], room: int, *, whole: bool = True) -> Iterator[Line]:
    """Yield the lines, `room` cells wide at most.

    `told` is what `POST /import/preview` answers, of the file or of its first lines.
    """
    fitting = min(MAX_COLUMNS, max((room + COLUMN_GAP) // (WIDTH + COLUMN_GAP), 1))
    columns, rows = told["columns"][:fitting], told["rows"][:MAX_ROWS]
    more = len(told["columns"]) - len(columns)
    count = f"{told['count']:,} row{'' if told['count'] == 1 else 's'}" if whole else "by its first lines"
    beside = f", {more} more column{'' if more == 1 else 's'}" if more else ""
    yield [(title, "bold"), (f"   {count}{beside}", "dim")]
    yield _line([(each["name"], "accent") for each in columns])
    yield _line([(f"{each['type']} key" if each["primary_key"] else each["type"], "dim") for each in columns])
    for row in rows:
        yield _line([("null", "dim") if cell is None else (cell, "") for cell in row[:fitting]])
    if (left := told["count"] - len(rows)) > 0:
        yield [(f"… {left:,} more" if whole else "…", "dim")]


def _line(cells: Sequence[Piece]) -> Line:
    pieces: list[Piece] = []
    for piece in cells:
        cell: Cell = (piece,)
        pieces += [*fit_cell(cell, PlacedColumn(0, WIDTH, right=False)), (" " * COLUMN_GAP, "")]
    return pieces[:-1]
