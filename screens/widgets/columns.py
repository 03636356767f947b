"""Columns and wrapped lines of virtual lists, and removal of control characters. Does not import Textual."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from rich.cells import cell_len, get_character_cell_size, set_cell_size

from screens.widgets.row_source import Cell, ItemRows, Line, Piece, Row

COLUMN_GAP = 2
"""Cells between two columns."""
_MAX_CHARS_PER_CELL = 8
"""Maximum characters examined per cell. A character may carry combining marks, but not a million."""
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_LEFT_TO_RIGHT_MARK = "\u200e"
"""LEFT-TO-RIGHT MARK, zero width: the text after it runs from left to right."""
_REPLACEMENTS = {"\n": "↵", "\t": " "}


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column of at least `width` cells. `right` aligns it to the right.

    Spare cells go first to columns with a `preferred` width, then to those with a larger `comfortable` one,
    then to columns that `grow`.
    """

    title: str
    width: int
    right: bool = False
    _: KW_ONLY
    grow: bool = False
    preferred: int = 0
    comfortable: int = 0


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """A column at cell `x` of a line, `width` cells wide."""

    x: int
    width: int
    right: bool


def layout_columns(columns: Sequence[ListColumn], room: int) -> tuple[PlacedColumn, ...]:
    """Return the positions of columns in a line of `room` cells. The result may be wider than that."""
    widths = [column.width for column in columns]
    spare = max(room - sum(widths) - COLUMN_GAP * max(len(columns) - 1, 0), 0)
    for targets in (
        [column.preferred for column in columns],
        [column.comfortable for column in columns],
        [room if column.grow else 0 for column in columns],
    ):
        lack = {i: target - widths[i] for i, target in enumerate(targets) if target > widths[i]}
        for remaining, i in zip(range(len(lack), 0, -1), sorted(lack, key=lack.__getitem__), strict=True):
            extra = min(lack[i], spare // remaining)
            widths[i], spare = widths[i] + extra, spare - extra
    placed, x = [], 0
    for column, width in zip(columns, widths, strict=True):
        placed.append(PlacedColumn(x, width, column.right))
        x += width + COLUMN_GAP
    return tuple(placed)


def merge_empty(
    cells: Sequence[Cell], placed: Sequence[PlacedColumn]
) -> Iterator[tuple[int, Cell, PlacedColumn]]:
    """Yield index, text and column of each cell. A cell also has the columns of empty cells after it."""
    starts = [i for i in range(min(len(cells), len(placed))) if cells[i] or not i]
    for i, after in zip(starts, [*starts[1:], len(placed)], strict=False):
        column, last = placed[i], placed[after - 1]
        yield i, cells[i], column if column is last else replace(column, width=last.x + last.width - column.x)


def line_width(placed: Sequence[PlacedColumn]) -> int:
    return placed[-1].x + placed[-1].width if placed else 0


def column_at(placed: Sequence[PlacedColumn], x: int) -> int:
    """Return the index of the column at a cell of the line; a gap belongs to the column before it."""
    return max((i for i, column in enumerate(placed) if column.x <= x), default=0)


def fit_cell(cell: Cell, column: PlacedColumn) -> list[Piece]:
    """Return the pieces of a cell, padded or truncated with `…` to the width of its column."""
    pieces: list[Piece] = []
    used = 0
    for text, tone in cell:
        room = column.width - used
        clean = sanitize(text[: room * _MAX_CHARS_PER_CELL + 1])
        width = cell_len(clean)
        if width > room or len(clean) > room * _MAX_CHARS_PER_CELL:
            truncated = set_cell_size(clean, max(room - 1, 0)) + "…" if room else ""
            pieces.append((_isolate_direction(truncated), tone))
            used = column.width
            break
        pieces.append((_isolate_direction(clean), tone))
        used += width
    if used < column.width:
        pad: Piece = (" " * (column.width - used), "")
        return [pad, *pieces] if column.right else [*pieces, pad]
    return pieces


def _isolate_direction(text: str) -> str:
    """Return text that does not change the direction of the following cells on bidirectional terminals."""
    if text.isascii() or not any(
        unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in text
    ):
        return text
    return text + _LEFT_TO_RIGHT_MARK


def sanitize(text: str) -> str:
    """Return text on one line, without control characters and direction overrides."""
    return text if text.isprintable() else "".join(_sanitized(text))


def _sanitized(text: str) -> Iterable[str]:
    for character in text:
        if character.isprintable() or unicodedata.category(character) in ("Zs", "Co"):
            yield character
        elif character in _REPLACEMENTS:
            yield _REPLACEMENTS[character]
        elif character not in "\u200b\u200c\u200d\ufeff":
            yield "�"


LINE_COLUMNS = (ListColumn("", 1, grow=True),)
"""The single column of a list of text lines."""


class TextLines(ItemRows[Line]):
    """A `RowSource` of text lines."""

    def __init__(self, lines: Sequence[Line] = ()) -> None:
        super().__init__(lambda at, line: Row(at, (tuple(line),)), lines)


def wrap_lines(lines: Iterable[Line], width: int) -> list[Line]:
    """Return lines of at most `width` cells, wrapped at blanks where possible."""
    wrapped: list[Line] = []
    for line in lines:
        if sum(cell_len(text) for text, _ in line) <= width:
            wrapped.append(line)
        else:
            wrapped += _wrap(line, max(width, 2))
    return wrapped


def _wrap(line: Line, width: int) -> Iterator[Line]:
    part: list[Piece] = []
    room = width
    for text, tone in line:
        at = 0
        while at < len(text):
            end = at
            while end < len(text) and (size := get_character_cell_size(text[end])) <= room:
                room -= size
                end += 1
            if end < len(text) and (blank := text.rfind(" ", at, end)) > at:
                end = blank + 1
            part.append((text[at:end], tone))
            if end < len(text):
                yield part
                part, room = [], width
            at = end
    if part:
        yield part
