"""Which rows of a source are held, and which to fetch next: chunks in an LRU. Knows no thread, no screen."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from screens.widgets.row_source import Row

CHUNK_ROWS = 50
"""How many rows are held, and let go of, together."""
PREFETCH_CHUNKS = 4
"""How many chunks are wanted to each side of those to be seen."""
MAX_CHUNKS = 200
"""How many chunks are held: 10,000 rows."""


@dataclass(frozen=True, slots=True)
class FetchWindow:
    """Rows `start` to `start + n` to be fetched, as of a `generation` of the source."""

    start: int
    n: int
    generation: int


class RowCache:
    """The rows that are held. What is wanted is said at each move, and takes the place of what was wanted."""

    def __init__(self, held: int = MAX_CHUNKS) -> None:
        self._max_chunks = held
        self._rows: OrderedDict[int, list[Row]] = OrderedDict()
        self._stale: set[int] = set()
        self._short: set[int] = set()
        self._wanted: tuple[range, ...] = ()
        self._count = 0
        self._generation = 0

    def __len__(self) -> int:
        """Return how many chunks are held."""
        return len(self._rows)

    def row(self, index: int) -> Row | None:
        """Return a row, or None as long as it has not been fetched."""
        chunk, place = divmod(index, CHUNK_ROWS)
        rows = self._rows.get(chunk)
        return rows[place] if rows is not None and place < len(rows) else None

    def clear(self) -> None:
        """Forget all: other rows are shown now."""
        self._rows.clear()
        self.invalidate()

    def invalidate(self) -> None:
        """Have every row fetched again; what is held serves until then."""
        self._generation += 1
        self._stale = set(self._rows)
        self._short.clear()

    def request(self, first: int, end: int, count: int) -> None:
        """Say that rows `first` to `end` of `count` are to be seen; after them, some more to each side."""
        last = max(count - 1, 0) // CHUNK_ROWS
        low, high = min(max(first, 0) // CHUNK_ROWS, last), min(max(end - 1, 0) // CHUNK_ROWS, last)
        after, before = (
            range(high + 1, min(high + PREFETCH_CHUNKS, last) + 1),
            range(max(low - PREFETCH_CHUNKS, 0), low),
        )
        wanted = (range(low, high + 1), after, before)
        if (wanted, count) != (self._wanted, self._count):
            self._short.clear()
        self._wanted, self._count = wanted, count
        for chunks in wanted:
            for chunk in chunks:
                if chunk in self._rows:
                    self._rows.move_to_end(chunk)

    def next_fetch(self) -> FetchWindow | None:
        """Return what to fetch now, the rows to be seen first; None when all that is wanted is held."""
        for chunks in self._wanted:
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
        """Hold what was fetched; False when it is of a former generation, and of no use.

        Fewer rows than asked for are not asked for again until something else is wanted.
        """
        if window.generation != self._generation:
            return False
        end = window.start + window.n
        for chunk in _chunks(window):
            first = max(chunk * CHUNK_ROWS, window.start)
            last = min((chunk + 1) * CHUNK_ROWS, end)
            found = rows[first - window.start : last - window.start]
            self._stale.discard(chunk)
            self._rows[chunk] = [*self._rows.get(chunk, [])[: first - chunk * CHUNK_ROWS], *found]
            self._rows.move_to_end(chunk)
            if len(found) < last - first:
                self._short.add(chunk)
        self._evict()
        return True

    def mark_failed(self, window: FetchWindow) -> None:
        """Ask no more for rows that can not be had, until something else is wanted."""
        self._short.update(_chunks(window))

    def _evict(self) -> None:
        for chunk in list(self._rows):
            if len(self._rows) <= self._max_chunks:
                return
            if not any(chunk in chunks for chunks in self._wanted):
                del self._rows[chunk]
                self._stale.discard(chunk)


def _chunks(window: FetchWindow) -> range:
    """Return the numbers of the chunks that a window has rows of."""
    return range(window.start // CHUNK_ROWS, (window.start + window.n - 1) // CHUNK_ROWS + 1)
