"""Preview of a file or a pasted range: columns with inferred types, and the first rows. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from screens.widgets.columns import COLUMN_GAP, PlacedColumn, fit_cell
from screens.widgets.row_source import Cell, Line, Piece
from svc_tui.terminal.units import plural

MAX_COLUMNS, MAX_ROWS = 5, 5
WIDTH = 14
"""Width of a column in cells."""


def preview_lines(
    title: str, preview: Mapping[str, Any], room: int, *, complete: bool = True
) -> Iterator[Line]:
    """Yield the lines of a preview, at most `room` cells wide.

    `preview` is the response of `POST /import/preview`. `complete` is False if it has only the first lines of
    the file.
    """
    column_count = min(MAX_COLUMNS, max((room + COLUMN_GAP) // (WIDTH + COLUMN_GAP), 1))
    columns, rows = preview["columns"][:column_count], preview["rows"][:MAX_ROWS]
    about = plural(preview["count"], "row") if complete else "first lines only"
    if more := len(preview["columns"]) - len(columns):
        about += f", {plural(more, 'more column')}"
    yield [(title, "bold"), (f"   {about}", "dim")]
    yield _line([(column["name"], "accent") for column in columns])
    yield _line(
        [(f"{column['type']} key" if column["primary_key"] else column["type"], "dim") for column in columns]
    )
    for row in rows:
        yield _line([("null", "dim") if cell is None else (cell, "") for cell in row[:column_count]])
    if (remaining := preview["count"] - len(rows)) > 0:
        yield [(f"… {remaining:,} more" if complete else "…", "dim")]


def _line(cells: Sequence[Piece]) -> Line:
    pieces: list[Piece] = []
    for piece in cells:
        cell: Cell = (piece,)
        pieces += [*fit_cell(cell, PlacedColumn(0, WIDTH, right=False)), (" " * COLUMN_GAP, "")]
    return pieces[:-1]
