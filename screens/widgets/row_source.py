"""Rows of virtual lists: their source, and a cache of the loaded ones. Does not import Textual."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar, get_args

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
T = TypeVar("T")


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


class ItemRows(Generic[T]):
    """A `RowSource` of items in memory. `row` returns the row of an index and an item."""

    def __init__(self, row: Callable[[int, T], Row], items: Sequence[T] = ()) -> None:
        self.row, self.items = row, items

    def count(self) -> int:
        return len(self.items)

    def window(self, start: int, n: int) -> Sequence[Row]:
        return [self.row(start + at, item) for at, item in enumerate(self.items[start : start + n])]


CHUNK_ROWS = 50
PREFETCH_CHUNKS = 4
"""Chunks prefetched before and after the visible ones."""
MAX_CHUNKS = 200
"""Maximum number of cached chunks, which is 10,000 rows."""


@dataclass(frozen=True, slots=True)
class FetchWindow:
    """A request for rows `start` to `start + n`, valid for one `generation` of the source."""

    start: int
    n: int
    generation: int


class RowCache:
    """Cached rows. Each `request` replaces the previous one."""

    def __init__(self, max_chunks: int = MAX_CHUNKS) -> None:
        self._max_chunks = max_chunks
        self._rows: OrderedDict[int, list[Row]] = OrderedDict()
        self._stale: set[int] = set()
        self._short: set[int] = set()
        self._requested: tuple[range, ...] = ()
        self._count = 0
        self._generation = 0

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> Row | None:
        """Return a row, or None if it is not cached."""
        chunk, offset = divmod(index, CHUNK_ROWS)
        rows = self._rows.get(chunk)
        return rows[offset] if rows is not None and offset < len(rows) else None

    def clear(self) -> None:
        """Clear the cache: the list has another source."""
        self._rows.clear()
        self.invalidate()

    def invalidate(self) -> None:
        """Mark all rows as outdated: they are fetched again, but remain readable until then."""
        self._generation += 1
        self._stale = set(self._rows)
        self._short.clear()

    def request(self, first: int, end: int, count: int) -> None:
        """Request the visible rows `first` to `end` of `count`, and some rows before and after them."""
        last = max(count - 1, 0) // CHUNK_ROWS
        low, high = min(max(first, 0) // CHUNK_ROWS, last), min(max(end - 1, 0) // CHUNK_ROWS, last)
        after, before = (
            range(high + 1, min(high + PREFETCH_CHUNKS, last) + 1),
            range(max(low - PREFETCH_CHUNKS, 0), low),
        )
        requested = (range(low, high + 1), after, before)
        if (requested, count) != (self._requested, self._count):
            self._short.clear()
        self._requested, self._count = requested, count
        for chunks in requested:
            for chunk in chunks:
                if chunk in self._rows:
                    self._rows.move_to_end(chunk)

    def next_fetch(self) -> FetchWindow | None:
        """Return the next rows to fetch, visible ones first, or None if all requested rows are cached."""
        for chunks in self._requested:
            for chunk in chunks:
                if self._is_missing(chunk):
                    end = chunk + 1
                    while end in chunks and self._is_missing(end):
                        end += 1
                    start = chunk * CHUNK_ROWS + self._cached(chunk)
                    return FetchWindow(start, min(end * CHUNK_ROWS, self._count) - start, self._generation)
        return None

    def _cached(self, chunk: int) -> int:
        return 0 if chunk in self._stale else len(self._rows.get(chunk, ()))

    def _is_missing(self, chunk: int) -> bool:
        return (
            self._cached(chunk) < min(CHUNK_ROWS, self._count - chunk * CHUNK_ROWS)
            and chunk not in self._short
        )

    def put(self, window: FetchWindow, rows: Sequence[Row]) -> bool:
        """Store fetched rows. Return False if they belong to an earlier generation and were dropped.

        If fewer rows than requested were returned, the missing ones are not fetched again until the request
        changes.
        """
        if window.generation != self._generation:
            return False
        end = window.start + window.n
        for chunk in _chunks(window):
            first = max(chunk * CHUNK_ROWS, window.start)
            last = min((chunk + 1) * CHUNK_ROWS, end)
            chunk_rows = rows[first - window.start : last - window.start]
            self._stale.discard(chunk)
            self._rows[chunk] = [*self._rows.get(chunk, [])[: first - chunk * CHUNK_ROWS], *chunk_rows]
            self._rows.move_to_end(chunk)
            if len(chunk_rows) < last - first:
                self._short.add(chunk)
        self._evict()
        return True

    def mark_failed(self, window: FetchWindow) -> None:
        """Stop fetching these rows until the request changes: the source cannot provide them."""
        self._short.update(_chunks(window))

    def _evict(self) -> None:
        for chunk in list(self._rows):
            if len(self._rows) <= self._max_chunks:
                return
            if not any(chunk in chunks for chunks in self._requested):
                del self._rows[chunk]
                self._stale.discard(chunk)


def _chunks(window: FetchWindow) -> range:
    """Return the indexes of the chunks that a window overlaps."""
    return range(window.start // CHUNK_ROWS, (window.start + window.n - 1) // CHUNK_ROWS + 1)
