"""What stands where in a line: columns, and texts that are cut and padded to them. Imports no Textual."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from screens.widgets.row_source import Cell, Piece

COLUMN_GAP = 2
"""Cells between two columns."""
_MAX_CHARS_PER_CELL = 8
"""Characters that are looked at for each cell of a column: letters may carry a few marks, not a million."""
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_LEFT_TO_RIGHT_MARK = "\u200e"
"""A mark that takes no room: what follows goes from left to right."""
_REPLACEMENTS = {"\n": "↵", "\t": " "}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `width` cells. `right` is for numbers.

    What a screen has to spare goes to columns that `wish` for more cells than their width; those that `grow`
    take what is left.
    """

    title: str
    width: int
    right: bool = False
    grow: bool = False
    preferred: int = 0


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """A column from cell `x` of a line on, `width` cells wide."""

    x: int
    width: int
    right: bool


def layout_columns(columns: Sequence[Column], room: int) -> tuple[PlacedColumn, ...]:
    """Return where columns stand in a line with `room` cells to fill; they may need more."""
    widths = [column.width for column in columns]
    spare = max(room - sum(widths) - COLUMN_GAP * max(len(columns) - 1, 0), 0)
    lacks = {i: each.preferred - each.width for i, each in enumerate(columns) if each.preferred > each.width}
    for lack in (lacks, dict.fromkeys((i for i, each in enumerate(columns) if each.grow), spare)):
        for left, i in zip(range(len(lack), 0, -1), sorted(lack, key=lack.__getitem__), strict=True):
            more = min(lack[i], spare // left)
            widths[i], spare = widths[i] + more, spare - more
    placed, x = [], 0
    for column, width in zip(columns, widths, strict=True):
        placed.append(PlacedColumn(x, width, column.right))
        x += width + COLUMN_GAP
    return tuple(placed)


def line_width(placed: Sequence[PlacedColumn]) -> int:
    """Return how many cells a line takes."""
    return placed[-1].x + placed[-1].width if placed else 0


def column_at(placed: Sequence[PlacedColumn], x: int) -> int:
    """Return the number of the column at a cell of the line; the gap belongs to the column before it."""
    return max((i for i, column in enumerate(placed) if column.x <= x), default=0)


def fit_cell(cell: Cell, column: PlacedColumn) -> list[Piece]:
    """Return a cell's pieces, exactly as wide as its column; `…` ends what was cut."""
    pieces: list[Piece] = []
    used = 0
    for text, tone in cell:
        room = column.width - used
        clean = sanitize(text[: room * _MAX_CHARS_PER_CELL + 1])
        width = cell_len(clean)
        if width > room or len(clean) > room * _MAX_CHARS_PER_CELL:
            cut = set_cell_size(clean, max(room - 1, 0)) + "…" if room else ""
            pieces.append((_isolate_direction(cut), tone))
            used = column.width
            break
        pieces.append((_isolate_direction(clean), tone))
        used += width
    if used < column.width:
        pad: Piece = (" " * (column.width - used), "")
        return [pad, *pieces] if column.right else [*pieces, pad]
    return pieces


def _isolate_direction(text: str) -> str:
    """Return a text that does not turn the direction of the cells after it, where terminals turn any."""
    if text.isascii() or not any(unicodedata.bidirectional(each) in _RIGHT_TO_LEFT for each in text):
        return text
    return text + _LEFT_TO_RIGHT_MARK


def sanitize(text: str) -> str:
    """Return a text on one line that can not command a terminal or turn the direction of what follows it."""
    return text if text.isprintable() else "".join(_sanitized(text))


def _sanitized(text: str) -> Iterable[str]:
    for character in text:
        if character.isprintable() or unicodedata.category(character) in ("Zs", "Co"):
            yield character
        elif character in _REPLACEMENTS:
            yield _REPLACEMENTS[character]
        elif character not in "\u200b\u200c\u200d\ufeff":
            yield "�"
