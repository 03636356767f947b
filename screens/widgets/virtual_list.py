"""Virtual list: fetches only the visible rows and their neighbors, on a worker thread. It has no cursor."""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from screens.widgets.columns import (
    ListColumn,
    PlacedColumn,
    fit_cell,
    layout_columns,
    line_width,
    merge_empty,
)
from screens.widgets.component_styles import ComponentStyles, tone_rules
from screens.widgets.row_cache import FetchWindow, RowCache
from screens.widgets.row_source import TONES, Cell, Row, RowSource, RowsUnavailable

GUTTER = 2
"""Cells before each line that do not scroll: cursor and mark."""
PREFETCH_DELAY_SECONDS = 0.03
"""Idle time after scrolling before neighboring rows are prefetched."""
PLACEHOLDER: tuple[Cell, ...] = ((("…", "dim"),),)
"""Shown for a row that is not loaded yet."""


class VirtualList(ScrollView, can_focus=False):
    """A list of rows below the titles of its columns."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    VirtualList {
        overflow-y: scroll;
        scrollbar-size: 0 1;
        & > .rows--head { color: $text-muted; text-style: underline; }
        & > .rows--cursor { background: $primary 14%; }
        & > .rows--cell { background: $primary 45%; }
    }
    """ + tone_rules("VirtualList", "rows")
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"rows--{name}" for name in ("head", "cursor", "cell", *TONES) if name
    }

    @dataclass
    class Failed(Message):
        """Rows could not be fetched. The list retries when it is scrolled or reloaded."""

        rows: "VirtualList"
        reason: str

    @dataclass
    class Loaded(Message):
        """Visible rows were loaded."""

        rows: "VirtualList"

    def __init__(
        self,
        source: RowSource,
        columns: Sequence[ListColumn],
        *,
        head: bool = True,
        empty: str = "",
        id: str | None = None,
    ) -> None:
        """Create a list. `head` shows the column titles; `empty` is shown if there are no rows."""
        super().__init__(id=id)
        self._source = source
        self._columns = tuple(columns)
        self._header_rows = int(head)
        self.empty = empty
        """The text shown if there are no rows."""
        self._count = 0
        self._pending_count: int | None = None
        self._cache = RowCache()
        self._fetching = False
        self._visible_changed = asyncio.Event()
        self._placed: tuple[PlacedColumn, ...] = ()
        self._base_style = Style()
        self._line_cells = 0
        self._styles_for = ComponentStyles(self, "rows--")

    @property
    def count(self) -> int:
        """The number of rows in the list. The source may have more until the next poll."""
        return self._count

    @property
    def column_widths(self) -> tuple[int, ...]:
        """The displayed widths of the columns, in terminal cells."""
        return tuple(column.width for column in self._placed)

    def row(self, index: int) -> Row | None:
        """Return a row, or None if it is not cached."""
        return self._cache.row(index)

    def key(self, index: int) -> Hashable | None:
        """Return the key of a row, or None if it is not cached."""
        row = self.row(index)
        return row.key if row else None

    def set_source(self, source: RowSource, columns: Sequence[ListColumn] | None = None) -> None:
        """Show the rows of another source, from the first one."""
        self._source = source
        self._columns = self._columns if columns is None else tuple(columns)
        self._cache.clear()
        self._pending_count = None
        self._count = 0
        self.scroll_to(0, 0, animate=False)
        self._set_count(source.count())

    def reload(self) -> None:
        """Fetch the rows again; the cached ones are shown until then."""
        self._cache.invalidate()
        self._pending_count = None
        self._set_count(self._source.count())

    def set_columns(self, columns: Sequence[ListColumn], *, same_cells: bool = False) -> None:
        """Show the same rows in other columns, for which the source returns cells, or in other widths."""
        self._columns = tuple(columns)
        if not same_cells:
            self._cache.clear()
            self._pending_count = None
        self._set_count(self._count if same_cells else self._source.count())

    def on_mount(self) -> None:
        """Read the number of rows."""
        self._set_count(self._source.count())

    def on_resize(self) -> None:
        """Lay out the columns for the new width."""
        self._set_count(self._count)

    @property
    def _room(self) -> Size:
        """The content size without scrollbars."""
        return self.scrollable_content_region.size

    @property
    def _page(self) -> int:
        """The number of rows per page."""
        return max(self._room.height - self._header_rows, 1)

    def _set_count(self, count: int) -> None:
        """Set the number of rows and update the layout."""
        added, self._count = count - self._count, count
        if added < 0:
            self._cache.invalidate()
        self._placed = layout_columns(self._columns, max(self._room.width - GUTTER, 0))
        self.virtual_size = Size(GUTTER + line_width(self._placed), count + self._header_rows)
        self._count_changed(added)
        self._request_visible()
        self.refresh()

    def _count_changed(self, added: int) -> None:
        """Handle a change of the number of rows."""

    def _prefetch_count(self, count: int) -> None:
        """Set the number of rows after the last ones have been fetched, so that no placeholder flashes."""
        self._pending_count = count
        self._cache.request(count - self._page, count, count)
        self._start_fetch()

    def _request_visible(self) -> None:
        """Request the rows that are visible now."""
        if self._room.height and self._pending_count is None:
            top = self.scroll_offset.y
            self._cache.request(top, top + self._page, self._count)
            self._visible_changed.set()
            self._start_fetch()

    def _start_fetch(self) -> None:
        if not self._fetching and (self._pending_count is not None or self._cache.next_fetch()):
            self._fetching = True
            self.run_worker(self._fetch(), group="rows", description="fetch rows")

    async def _fetch(self) -> None:
        """Fetch until all requested rows are cached; the request may change meanwhile."""
        try:
            while window := self._cache.next_fetch():
                if self._pending_count is None and not self._is_visible(window) and not await self._is_idle():
                    continue
                try:
                    rows = await asyncio.to_thread(self._source.window, window.start, window.n)
                except RowsUnavailable as error:
                    self._cache.mark_failed(window)
                    self.post_message(self.Failed(self, str(error)))
                else:
                    self._store_rows(window, rows)
        finally:
            self._fetching = False
        if self._pending_count is not None:
            count, self._pending_count = self._pending_count, None
            self._set_count(count)

    def _store_rows(self, window: FetchWindow, rows: Sequence[Row]) -> None:
        if self._cache.put(window, rows) and self._pending_count is None and self._is_visible(window):
            self.refresh()
            self.post_message(self.Loaded(self))

    def _is_visible(self, window: FetchWindow) -> bool:
        """Return whether the window overlaps the visible rows."""
        top = self.scroll_offset.y
        return window.start < top + self._page and top < window.start + window.n

    async def _is_idle(self) -> bool:
        """Wait for the prefetch delay. Return whether the visible rows stayed the same."""
        self._visible_changed.clear()
        try:
            async with asyncio.timeout(PREFETCH_DELAY_SECONDS):
                await self._visible_changed.wait()
        except TimeoutError:
            return True
        return False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Request the rows that became visible."""
        super().watch_scroll_y(old_value, new_value)
        self._request_visible()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render lines; compute shared values once."""
        self._base_style, self._line_cells = self.rich_style, max(self._room.width - GUTTER, 0)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Render one line: the titles, a row, a placeholder or nothing."""
        index = y - self._header_rows + self.scroll_offset.y
        if y < self._header_rows:
            titles: list[Cell] = [((column.title, ""),) for column in self._columns]
            return self._line(titles, "  ", self._base_style + self._styles_for("head"))
        if index < self._count:
            return self._row_line(index, self._cache.row(index))
        text = self.empty.center(self._room.width) if self.empty and index == 0 else ""
        line = Strip([Segment(text, self._base_style + self._styles_for("dim"))])
        return line.adjust_cell_length(self._room.width, self._base_style)

    def _row_line(self, index: int, row: Row | None) -> Strip:
        """Render a row."""
        return self._line(row.cells if row else PLACEHOLDER, " " * GUTTER, self._base_style)

    def _line(self, cells: Sequence[Cell], sign: str, style: Style, cursor: int | None = None) -> Strip:
        """Render cells after a `sign` of the gutter's width; `cursor` is the index of a highlighted cell."""
        left = position = self.scroll_offset.x
        right = left + self._line_cells
        segments = [Segment(sign, style + self._styles_for("accent"))]
        for number, cell, column in merge_empty(cells, self._placed):
            first, end = max(column.x, left), min(column.x + column.width, right)
            if first >= end:
                continue
            line_style = style + self._styles_for("cell") if number == cursor else style
            pieces = [
                Segment(text, line_style + self._styles_for(tone) if tone else line_style)
                for text, tone in fit_cell(cell, column)
            ]
            segments.append(Segment(" " * (first - position), style))
            segments += _crop(pieces, first - column.x, end - column.x)
            position = end
        return Strip(segments).adjust_cell_length(GUTTER + self._line_cells, style)

    def notify_style_update(self) -> None:
        """Clear cached styles."""
        super().notify_style_update()
        self._styles_for.clear()


def _crop(pieces: list[Segment], start: int, end: int) -> list[Segment]:
    """Return the pieces of a cell from `start` to `end`. `…` marks each side at which text is cut off."""
    cell = Strip(pieces)
    if start == 0 and end == cell.cell_length:
        return pieces
    shown = cell.crop(start, end)
    if cell_len(cell.crop(0, start).text.strip()):
        first, *_ = shown
        shown = Strip([Segment("…", first.style), *shown.crop(1)])
    if cell_len(cell.crop(end).text.strip()):
        *_, last = shown
        shown = Strip([*shown.crop(0, end - start - 1), Segment("…", last.style)])
    return [*shown]
