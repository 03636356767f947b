"""Row source protocol: rows by index, with styled cells. Does not import Textual."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

Tone = Literal[
    "",
    "bold",
    "dim",
    "faint",
    "accent",
    "good",
    "notice",
    "warn",
    "bad",
    "match",
    "violet",
    "teal",
    "yellow",
    "orange",
]
"""The meaning of a piece of text, or its hue where kinds of things differ. The theme maps it to a style."""
TONES: tuple[Tone, ...] = get_args(Tone)
Piece = tuple[str, Tone]
Cell = tuple[Piece, ...]
"""The text of a cell in pieces; truncated if wider than its column and those of empty cells after it."""
Line = Sequence[Piece]
"""A line outside of a list."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row. `key` identifies it when indexes change; marks refer to it.

    `cells` has one cell per column. `value` is the object shown by the row, for use by the source; it lives
    as long as the row is cached.
    """

    key: Hashable
    cells: tuple[Cell, ...]
    value: object = None


class RowSource(Protocol):
    """A source of rows, indexed from 0."""

    def count(self) -> int:
        """Return the number of rows. Must be fast: the UI thread calls it often."""

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return rows `start` to `start + n`, or fewer if rows were removed.

        May block: it is called on a worker thread, one call at a time. An index refers to the same row until
        the list is reloaded; rows may be appended meanwhile. Raises `RowsUnavailable`.
        """


class RowsUnavailable(Exception):
    """The rows cannot be fetched now. The message is for users."""
