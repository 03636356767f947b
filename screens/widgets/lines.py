"""A text of any length as rows: lines that are wrapped to a width. Imports no Textual."""

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, get_character_cell_size

from screens.widgets.columns import Column
from screens.widgets.row_source import Line, Piece, Row

LINE_COLUMNS = (Column("", 1, grow=True),)
"""The one column of such a list."""


class TextLines:
    """Lines, as a `RowSource`."""

    def __init__(self, lines: Sequence[Line] = ()) -> None:
        self._lines = lines

    def count(self) -> int:
        """Return how many there are."""
        return len(self._lines)

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return some of them."""
        return [Row(start + at, (tuple(line),)) for at, line in enumerate(self._lines[start : start + n])]


def wrap_lines(lines: Iterable[Line], width: int) -> list[Line]:
    """Return lines of at most `width` cells; what is longer goes on in the next line, at a blank."""
    found: list[Line] = []
    for line in lines:
        if sum(cell_len(text) for text, _ in line) <= width:
            found.append(line)
        else:
            found += _wrap(line, max(width, 2))
    return found


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
