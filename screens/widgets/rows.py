"""Rows of virtual lists: source, cache, columns, wrapped lines, removal of control characters. No Textual."""

import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Generic, Literal, Protocol, TypeVar

from rich.cells import cell_len, get_character_cell_size, set_cell_size

Meaning = Literal["", "bold", "dim", "faint", "accent", "good", "notice", "warn", "bad", "match"]
Hue = Literal["violet", "teal", "yellow", "orange"]
Tone = Meaning | Hue
"""The meaning of a piece of text, or its hue where kinds of things differ. The theme maps it to a style."""
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
        self._rows: OrderedDict[int, tuple[int, list[Row]]] = OrderedDict()
        """Chunks and the generations that they belong to."""
        self._short: set[int] = set()
        self._requested: tuple[range, ...] = ()
        self._count = 0
        self._generation = 0

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> Row | None:
        """Return a row, or None if it is not cached."""
        chunk, offset = divmod(index, CHUNK_ROWS)
        _, rows = self._rows.get(chunk, (0, ()))
        return rows[offset] if offset < len(rows) else None

    def clear(self) -> None:
        """Clear the cache: the list has another source."""
        self._rows.clear()
        self.invalidate()

    def invalidate(self) -> None:
        """Mark all rows as outdated: they are fetched again, but remain readable until then."""
        self._generation += 1
        self._short.clear()

    def request(self, first: int, end: int, count: int) -> None:
        """Request the visible rows `first` to `end` of `count`, and some rows before and after them."""
        last = max(count - 1, 0) // CHUNK_ROWS
        low, high = min(max(first, 0) // CHUNK_ROWS, last), min(max(end - 1, 0) // CHUNK_ROWS, last)
        after = range(high + 1, min(high + PREFETCH_CHUNKS, last) + 1)
        requested = (range(low, high + 1), after, range(max(low - PREFETCH_CHUNKS, 0), low))
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
        generation, rows = self._rows.get(chunk, (0, ()))
        return len(rows) if generation == self._generation else 0

    def _is_missing(self, chunk: int) -> bool:
        requested = min(CHUNK_ROWS, self._count - chunk * CHUNK_ROWS)
        return self._cached(chunk) < requested and chunk not in self._short

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
            _, before = self._rows.get(chunk, (0, ()))
            self._rows[chunk] = self._generation, [*before[: first - chunk * CHUNK_ROWS], *chunk_rows]
            self._rows.move_to_end(chunk)
            if len(chunk_rows) < last - first:
                self._short.add(chunk)
        for chunk in list(self._rows):
            if len(self._rows) <= self._max_chunks:
                break
            if not any(chunk in chunks for chunks in self._requested):
                del self._rows[chunk]
        return True

    def mark_failed(self, window: FetchWindow) -> None:
        """Stop fetching these rows until the request changes: the source cannot provide them."""
        self._short.update(_chunks(window))


def _chunks(window: FetchWindow) -> range:
    """Return the indexes of the chunks that a window overlaps."""
    return range(window.start // CHUNK_ROWS, (window.start + window.n - 1) // CHUNK_ROWS + 1)


COLUMN_GAP = 2
"""Cells between two columns."""
_MAX_CHARS_PER_CELL = 8
"""Maximum characters examined per cell. A character may carry combining marks, but not a million."""
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_LEFT_TO_RIGHT_MARK = "\u200e"
"""LEFT-TO-RIGHT MARK, zero width: the text after it runs from left to right."""
_REPLACEMENTS = {"\n": "↵", "\t": " "}


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column of at least `width` cells. `right` aligns it to the right.

    Spare cells go first to columns with a `preferred` width, then to those with a larger `comfortable` one,
    then to columns that `grow`.
    """

    title: str
    width: int
    right: bool = False
    _: KW_ONLY
    grow: bool = False
    preferred: int = 0
    comfortable: int = 0


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """A column at cell `x` of a line, `width` cells wide."""

    x: int
    width: int
    right: bool


def layout_columns(columns: Sequence[ListColumn], room: int) -> tuple[PlacedColumn, ...]:
    """Return the positions of columns in a line of `room` cells. The result may be wider than that."""
    widths = [column.width for column in columns]
    spare = max(room - sum(widths) - COLUMN_GAP * max(len(columns) - 1, 0), 0)
    widest = ((each.preferred, each.comfortable, room if each.grow else 0) for each in columns)
    for targets in zip(*widest, strict=True):
        lack = {i: target - widths[i] for i, target in enumerate(targets) if target > widths[i]}
        for remaining, i in zip(range(len(lack), 0, -1), sorted(lack, key=lack.__getitem__), strict=True):
            extra = min(lack[i], spare // remaining)
            widths[i], spare = widths[i] + extra, spare - extra
    placed, x = [], 0
    for column, width in zip(columns, widths, strict=True):
        placed.append(PlacedColumn(x, width, column.right))
        x += width + COLUMN_GAP
    return tuple(placed)


def merge_empty(
    cells: Sequence[Cell], placed: Sequence[PlacedColumn]
) -> Iterator[tuple[int, Cell, PlacedColumn]]:
    """Yield index, text and column of each cell. A cell also has the columns of empty cells after it."""
    starts = [i for i in range(min(len(cells), len(placed))) if cells[i] or not i]
    for i, after in zip(starts, [*starts[1:], len(placed)], strict=False):
        column, last = placed[i], placed[after - 1]
        yield i, cells[i], column if column is last else replace(column, width=last.x + last.width - column.x)


def line_width(placed: Sequence[PlacedColumn]) -> int:
    return placed[-1].x + placed[-1].width if placed else 0


def column_at(placed: Sequence[PlacedColumn], x: int) -> int:
    """Return the index of the column at a cell of the line; a gap belongs to the column before it."""
    return max((i for i, column in enumerate(placed) if column.x <= x), default=0)


def fit_cell(cell: Cell, column: PlacedColumn | ListColumn) -> list[Piece]:
    """Return the pieces of a cell, padded or truncated with `…` to the width of its column."""
    pieces: list[Piece] = []
    used = 0
    for text, tone in cell:
        room = column.width - used
        clean = sanitize(text[: room * _MAX_CHARS_PER_CELL + 1])
        width = cell_len(clean)
        if width > room or len(clean) > room * _MAX_CHARS_PER_CELL:
            truncated = set_cell_size(clean, max(room - 1, 0)) + "…" if room else ""
            pieces.append((_isolate_direction(truncated), tone))
            used = column.width
            break
        pieces.append((_isolate_direction(clean), tone))
        used += width
    if used < column.width:
        pad: Piece = (" " * (column.width - used), "")
        return [pad, *pieces] if column.right else [*pieces, pad]
    return pieces


def _isolate_direction(text: str) -> str:
    """Return text that does not change the direction of the following cells on bidirectional terminals."""
    if text.isascii() or _RIGHT_TO_LEFT.isdisjoint(map(unicodedata.bidirectional, text)):
        return text
    return text + _LEFT_TO_RIGHT_MARK


def sanitize(text: str) -> str:
    """Return text on one line, without control characters and direction overrides."""
    return text if text.isprintable() else "".join(_sanitized(text))


def _sanitized(text: str) -> Iterable[str]:
    for character in text:
        if character.isprintable() or unicodedata.category(character) in ("Zs", "Co"):
            yield character
        elif character in _REPLACEMENTS:
            yield _REPLACEMENTS[character]
        elif character not in "\u200b\u200c\u200d\ufeff":
            yield "�"


LINE_COLUMNS = (ListColumn("", 1, grow=True),)
"""The single column of a list of text lines."""


class TextLines(ItemRows[Line]):
    """A `RowSource` of text lines."""

    def __init__(self, lines: Sequence[Line] = ()) -> None:
        super().__init__(lambda at, line: Row(at, (tuple(line),)), lines)


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
