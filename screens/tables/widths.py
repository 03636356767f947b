"""Default widths of the columns of a grid, measured from their titles and first rows. Pure.

Widths are measured when a table is opened, not while scrolling, so that columns do not move.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from screens.tables.cells import piece
from screens.widgets.columns import sanitize
from svc_tui.column_types import TypeInfo

MEASURED_ROWS = 50
"""Rows that are measured."""
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
    titles: Sequence[str], types: Sequence[TypeInfo], rows: Iterable[Sequence[Any]]
) -> tuple[Width, ...]:
    """Return the widths of columns with these rows."""
    rows = list(rows)
    return tuple(
        _width(title, type, [row[at] for row in rows])
        for at, (title, type) in enumerate(zip(titles, types, strict=True))
    )


def _width(title: str, type: TypeInfo, values: Sequence[Any]) -> Width:
    """Return the width of one column."""
    title_width = cell_len(sanitize(title))
    if not values:
        default = max(title_width, type.min_width, type.width)
        return Width(default, default, default)
    measured = (cell_len(sanitize(piece(value)[0][: MAX_WIDTH + 1])) for value in values)
    longest = min(max(title_width, *measured), MAX_WIDTH)
    default = min(longest, max(DEFAULT_MAX_WIDTH, title_width))
    return Width(default, longest, max(longest, type.min_width))
