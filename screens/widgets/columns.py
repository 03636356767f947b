"""What stands where in a line: columns, and texts that are cut and padded to them. Imports no Textual."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from screens.widgets.row_source import Cell, Piece

GAP = 2
"""Cells between two columns."""
_LONGEST = 8
"""Characters that are looked at for each cell of a column: letters may carry a few marks, not a million."""
_LEFTWARDS = frozenset({"R", "AL", "AN"})
_RIGHTWARDS = "\u200e"
"""A mark that takes no room: what follows goes from left to right."""
_SHOWN_AS = {"\n": "↵", "\t": " "}


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
    wish: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """A column from cell `x` of a line on, `width` cells wide."""

    x: int
    width: int
    right: bool


def place(columns: Sequence[Column], room: int) -> tuple[Placed, ...]:
    """Return where columns stand in a line with `room` cells to fill; they may need more."""
    widths = [column.width for column in columns]
    spare = max(room - sum(widths) - GAP * max(len(columns) - 1, 0), 0)
    lacks = {i: each.wish - each.width for i, each in enumerate(columns) if each.wish > each.width}
    for lack in (lacks, dict.fromkeys((i for i, each in enumerate(columns) if each.grow), spare)):
        for left, i in zip(range(len(lack), 0, -1), sorted(lack, key=lack.__getitem__), strict=True):
            more = min(lack[i], spare // left)
            widths[i], spare = widths[i] + more, spare - more
    placed, x = [], 0
    for column, width in zip(columns, widths, strict=True):
        placed.append(Placed(x, width, column.right))
        x += width + GAP
    return tuple(placed)


def total(placed: Sequence[Placed]) -> int:
    """Return how many cells a line takes."""
    return placed[-1].x + placed[-1].width if placed else 0


def column_at(placed: Sequence[Placed], x: int) -> int:
    """Return the number of the column at a cell of the line; the gap belongs to the column before it."""
    return max((i for i, column in enumerate(placed) if column.x <= x), default=0)


def fit(cell: Cell, column: Placed) -> list[Piece]:
    """Return a cell's pieces, exactly as wide as its column; `…` ends what was cut."""
    pieces: list[Piece] = []
    used = 0
    for text, tone in cell:
        room = column.width - used
        clean = shown(text[: room * _LONGEST + 1])
        width = cell_len(clean)
        if width > room or len(clean) > room * _LONGEST:
            cut = set_cell_size(clean, max(room - 1, 0)) + "…" if room else ""
            pieces.append((_apart(cut), tone))
            used = column.width
            break
        pieces.append((_apart(clean), tone))
        used += width
    if used < column.width:
        pad: Piece = (" " * (column.width - used), "")
        return [pad, *pieces] if column.right else [*pieces, pad]
    return pieces


def _apart(text: str) -> str:
    """Return a text that does not turn the direction of the cells after it, where terminals turn any."""
    if text.isascii() or not any(unicodedata.bidirectional(each) in _LEFTWARDS for each in text):
        return text
    return text + _RIGHTWARDS


def shown(text: str) -> str:
    """Return a text on one line that can not command a terminal or turn the direction of what follows it."""
    return text if text.isprintable() else "".join(_shown(text))


def _shown(text: str) -> Iterable[str]:
    for character in text:
        if character.isprintable() or unicodedata.category(character) in ("Zs", "Co"):
            yield character
        elif character in _SHOWN_AS:
            yield _SHOWN_AS[character]
        elif character not in "\u200b\u200c\u200d\ufeff":
            yield "�"
