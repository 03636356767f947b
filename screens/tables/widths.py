"""How wide the columns of a table are where nobody has said it: by their titles and first rows. Pure.

Measured when a table is shown, never while one scrolls in it, so that columns stay where they are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from screens.tables.cells import piece
from screens.widgets.columns import sanitize

MEASURED = 50
"""Rows that are looked at."""
CAP = 24
"""Cells that a column has on any screen, however long its texts are; more, where there is room."""
MOST = 200
"""Cells that a column wishes for at most."""
_LEAST = {"integer": 8, "real": 8, "timestamp": 10, "blob": 12, "text": 12, "json": 12}
_EMPTY = {"timestamp": 24, "text": 16, "json": 16, "real": 10, "boolean": 7}
"""Where there is no row to look at."""


@dataclass(frozen=True, slots=True)
class Width:
    """The cells that a column has on any screen, and those that all it has would take."""

    own: int
    wish: int


def measured(titles: Sequence[str], types: Sequence[str], rows: Iterable[Sequence[Any]]) -> tuple[Width, ...]:
    """Return the widths of columns that hold these rows."""
    rows = list(rows)
    return tuple(
        _width(title, type, [row[at] for row in rows])
        for at, (title, type) in enumerate(zip(titles, types, strict=True))
    )


def _width(title: str, type: str, values: Sequence[Any]) -> Width:
    """Return how wide one column is; rows further down may be a little wider than the first."""
    least = max(cell_len(sanitize(title)), _LEAST.get(type, 0))
    if not values:
        own = max(least, _EMPTY.get(type, 0))
        return Width(own, own)
    wish = min(max(least, *(cell_len(sanitize(piece(value)[0][: MOST + 1])) for value in values)), MOST)
    return Width(min(wish, max(CAP, least)), wish)
