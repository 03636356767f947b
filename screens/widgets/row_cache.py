"""Which rows of a source are held, and which to fetch next: chunks in an LRU. Knows no thread, no screen."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from screens.widgets.row_source import Row

CHUNK = 50
"""How many rows are held, and let go of, together."""
BESIDE = 4
"""How many chunks are wanted to each side of those to be seen."""
HELD = 200
"""How many chunks are held: 10,000 rows."""


@dataclass(frozen=True, slots=True)
class Window:
    """Rows `start` to `start + n` to be fetched, as of a `generation` of the source."""

    start: int
    n: int
    generation: int


class Chunks:
    """The rows that are held. What is wanted is said at each move, and takes the place of what was wanted."""

    def __init__(self, held: int = HELD) -> None:
        self._most = held
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
        chunk, place = divmod(index, CHUNK)
        rows = self._rows.get(chunk)
        return rows[place] if rows is not None and place < len(rows) else None

    def clear(self) -> None:
        """Forget all: other rows are shown now."""
        self._rows.clear()
        self.expire()

    def expire(self) -> None:
        """Have every row fetched again; what is held serves until then."""
        self._generation += 1
        self._stale = set(self._rows)
        self._short.clear()

    def want(self, first: int, end: int, count: int) -> None:
        """Say that rows `first` to `end` of `count` are to be seen; after them, some more to each side."""
        last = max(count - 1, 0) // CHUNK
        low, high = min(max(first, 0) // CHUNK, last), min(max(end - 1, 0) // CHUNK, last)
        after, before = range(high + 1, min(high + BESIDE, last) + 1), range(max(low - BESIDE, 0), low)
        wanted = (range(low, high + 1), after, before)
        if (wanted, count) != (self._wanted, self._count):
            self._short.clear()
        self._wanted, self._count = wanted, count
        for chunks in wanted:
            for chunk in chunks:
                if chunk in self._rows:
                    self._rows.move_to_end(chunk)

    def next(self) -> Window | None:
        """Return what to fetch now, the rows to be seen first; None when all that is wanted is held."""
        for chunks in self._wanted:
            for chunk in chunks:
                if self._lacks(chunk):
                    end = chunk + 1
                    while end in chunks and self._lacks(end):
                        end += 1
                    start = chunk * CHUNK + self._have(chunk)
                    return Window(start, min(end * CHUNK, self._count) - start, self._generation)
        return None

    def _have(self, chunk: int) -> int:
        return 0 if chunk in self._stale else len(self._rows.get(chunk, ()))

    def _lacks(self, chunk: int) -> bool:
        return self._have(chunk) < min(CHUNK, self._count - chunk * CHUNK) and chunk not in self._short

    def put(self, window: Window, rows: Sequence[Row]) -> bool:
        """Hold what was fetched; False when it is of a former generation, and of no use.

        Fewer rows than asked for are not asked for again until something else is wanted.
        """
        if window.generation != self._generation:
            return False
        end = window.start + window.n
        for chunk in _chunks(window):
            first = max(chunk * CHUNK, window.start)
            last = min((chunk + 1) * CHUNK, end)
            found = rows[first - window.start : last - window.start]
            self._stale.discard(chunk)
            self._rows[chunk] = [*self._rows.get(chunk, [])[: first - chunk * CHUNK], *found]
            self._rows.move_to_end(chunk)
            if len(found) < last - first:
                self._short.add(chunk)
        self._evict()
        return True

    def failed(self, window: Window) -> None:
        """Ask no more for rows that can not be had, until something else is wanted."""
        self._short.update(_chunks(window))

    def _evict(self) -> None:
        for chunk in list(self._rows):
            if len(self._rows) <= self._most:
                return
            if not any(chunk in chunks for chunks in self._wanted):
                del self._rows[chunk]
                self._stale.discard(chunk)


def _chunks(window: Window) -> range:
    """Return the numbers of the chunks that a window has rows of."""
    return range(window.start // CHUNK, (window.start + window.n - 1) // CHUNK + 1)
