"""What the big list is asked to show: rows by number, from wherever they are. Imports no Textual."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Tone = Literal["", "bold", "dim", "accent", "good", "notice", "warn", "bad", "found"]
"""What a piece of text means. The theme says how that looks."""
Piece = tuple[str, Tone]
Cell = tuple[Piece, ...]
"""The text of one cell, piece by piece; what does not fit into its column is cut."""
Line = Sequence[Piece]
"""A line outside of a list."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `key` says which it is, also when rows come or go before it; marks are kept by it.

    `cells` are as many as the columns, in their order. `of` is what the row shows, for the source's own use:
    it lives as long as the list holds the row.
    """

    key: Hashable
    cells: tuple[Cell, ...]
    value: object = None


class RowSource(Protocol):
    """Where rows come from. Numbers begin at 0."""

    def count(self) -> int:
        """Return how many rows there are, at once: it is asked often, by the thread that draws."""

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return rows `start` to `start + n`, or fewer where they have become fewer.

        May take its time: it is called by another thread than the one that draws, one call after another.
        A number stands for the same row in every call until the list is told to reload; rows may be added
        at the end meanwhile. Raises `RowsUnavailable`.
        """


class RowsUnavailable(Exception):
    """Rows can not be had now: what happened, for people."""
