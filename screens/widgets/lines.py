"""Text lines as a row source, and wrapping of styled lines. Does not import Textual."""

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, get_character_cell_size

from screens.widgets.columns import ListColumn
from screens.widgets.row_source import Line, Piece, Row

LINE_COLUMNS = (ListColumn("", 1, grow=True),)
"""The single column of a list of text lines."""


class TextLines:
    """A `RowSource` of text lines."""

    def __init__(self, lines: Sequence[Line] = ()) -> None:
        self._lines = lines

    def count(self) -> int:
        """Return the number of lines."""
        return len(self._lines)

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return the lines from `start` to `start + n`."""
        return [Row(start + at, (tuple(line),)) for at, line in enumerate(self._lines[start : start + n])]


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
