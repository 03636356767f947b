"""Default widths of the columns of a grid, measured from their titles and rows. Pure.

Widths are measured when a table is opened. While it is scrolled, columns take free cells and never shrink.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from screens.widgets.columns import sanitize
from svc_tui.column_types import TypeInfo

MEASURED_ROWS = 50
"""Rows of a table that are measured."""
DEFAULT_MAX_WIDTH = 24
"""Default maximum width of a column, in terminal cells. A column grows beyond it if there is room."""
MAX_WIDTH = 200
"""Maximum width that a column can grow to, in terminal cells."""


@dataclass(frozen=True, slots=True)
class Width:
    """The default width of a column, the width that shows its longest value, and one for longer values."""

    default: int
    longest: int
    comfortable: int


def measure_widths(
    titles: Sequence[str], types: Sequence[TypeInfo], columns: Iterable[Iterable[str]]
) -> tuple[Width, ...]:
    """Return the widths of columns with these texts."""
    return tuple(
        _width(title, type, max(map(_cells, texts), default=None))
        for title, type, texts in zip(titles, types, columns, strict=True)
    )


def _width(title: str, type: TypeInfo, longest: int | None) -> Width:
    """Return the width of one column, whose `longest` text is None if it has no rows."""
    title_width = cell_len(sanitize(title))
    if longest is None:
        default = max(title_width, type.min_width, type.width)
        return Width(default, default, default)
    longest = min(max(title_width, longest), MAX_WIDTH)
    default = min(longest, max(DEFAULT_MAX_WIDTH, title_width))
    return Width(default, longest, max(longest, type.min_width))


def _cells(text: str) -> int:
    """Return the cells of a text. Each ASCII character has one, also a control character that is replaced."""
    return len(text) if text.isascii() else cell_len(sanitize(text[: MAX_WIDTH + 1]))
