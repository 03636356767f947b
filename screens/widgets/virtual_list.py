"""Virtual lists. They fetch only the visible rows and their neighbors, on a worker thread.

`VirtualList` has no cursor; `VirtualRows` has one, and marks, key bindings and live following.
"""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events, work
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size, clamp
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from screens.widgets.component_styles import ComponentStyles
from screens.widgets.rows import (
    Cell,
    FetchWindow,
    ListColumn,
    PlacedColumn,
    Row,
    RowCache,
    RowSource,
    RowsUnavailable,
    column_at,
    fit_cell,
    layout_columns,
    line_width,
    merge_empty,
)

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
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--head", "rows--cursor", "rows--cell"}

    @dataclass
    class Failed(Message):
        """Rows could not be fetched. The list retries when it is scrolled or reloaded."""

        reason: str

    class Loaded(Message):
        """Visible rows were loaded."""

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
        self.count = 0
        """The number of rows in the list. The source may have more until the next poll."""
        self._pending_count: int | None = None
        self._cache = RowCache()
        self._fetching = False
        self._visible_changed = asyncio.Event()
        self._placed: tuple[PlacedColumn, ...] = ()
        self._base_style = Style()
        self._line_cells = 0
        self._styles_for = ComponentStyles(self, "rows--")

    @property
    def column_widths(self) -> tuple[int, ...]:
        return tuple(column.width for column in self._placed)

    def row(self, index: int) -> Row | None:
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
        self.count = 0
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
        self._set_count(self.count if same_cells else self._source.count())

    def on_mount(self) -> None:
        self._set_count(self._source.count())

    def on_resize(self) -> None:
        self._set_count(self.count)

    @property
    def _room(self) -> Size:
        return self.scrollable_content_region.size

    @property
    def _page(self) -> int:
        return max(self._room.height - self._header_rows, 1)

    def _set_count(self, count: int) -> None:
        added, self.count = count - self.count, count
        if added < 0:
            self._cache.invalidate()
        self._placed = layout_columns(self._columns, max(self._room.width - GUTTER, 0))
        self.virtual_size = Size(GUTTER + line_width(self._placed), count + self._header_rows)
        self._count_changed(added)
        self._request_visible()
        self.refresh()

    def _count_changed(self, added: int) -> None:
        """Handle a change of the number of rows."""

    def _request_visible(self) -> None:
        if self._room.height and self._pending_count is None:
            top = self.scroll_offset.y
            self._cache.request(top, top + self._page, self.count)
            self._visible_changed.set()
            self._start_fetch()

    def _start_fetch(self) -> None:
        if not self._fetching and (self._pending_count is not None or self._cache.next_fetch()):
            self._fetching = True
            self._fetch()

    @work(group="rows", description="fetch rows")
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
                    self.post_message(self.Failed(str(error)))
                    continue
                if self._cache.put(window, rows) and self._pending_count is None and self._is_visible(window):
                    self.refresh()
                    self.post_message(self.Loaded())
        finally:
            self._fetching = False
        if self._pending_count is not None:
            count, self._pending_count = self._pending_count, None
            self._set_count(count)

    def _is_visible(self, window: FetchWindow) -> bool:
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
        super().watch_scroll_y(old_value, new_value)
        self._request_visible()

    def render_lines(self, crop: Region) -> list[Strip]:
        self._base_style, self._line_cells = self.rich_style, max(self._room.width - GUTTER, 0)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        index = y - self._header_rows + self.scroll_offset.y
        if y < self._header_rows:
            titles: list[Cell] = [((column.title, ""),) for column in self._columns]
            return self._line(titles, "  ", self._base_style + self._styles_for("head"))
        if index < self.count:
            return self._row_line(index, self._cache.row(index))
        text = self.empty.center(self._room.width) if self.empty and index == 0 else ""
        line = Strip([Segment(text, self._base_style + self._styles_for("dim"))])
        return line.adjust_cell_length(self._room.width, self._base_style)

    def _row_line(self, index: int, row: Row | None) -> Strip:
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


POLL_HZ = 20
"""Polls per second of a live list."""
SIDEWAYS_CELLS = 8
"""Cells that `h` and `l` scroll if the cursor is a row."""


class VirtualRows(VirtualList, can_focus=True):
    """A virtual list with a row or cell cursor.

    A `live` list grows at its end. It polls its source and follows the last row until the user scrolls up.
    `unseen` counts the rows added since; `G` follows again.
    """

    GROUP: ClassVar[str] = "Rows"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Down", show=False, id="rows.down"),
        Binding("k,up", "move(-1)", "Up", show=False, id="rows.up"),
        Binding("h,left", "move_sideways(-1)", "Left", show=False, id="rows.left"),
        Binding("l,right", "move_sideways(1)", "Right", show=False, id="rows.right"),
        Binding("g,home", "top", "First row", show=False, id="rows.top"),
        Binding("G,end", "bottom", "Last row", show=False, id="rows.bottom"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="rows.page-down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="rows.page-up"),
        Binding("space", "mark", "Mark", show=False, id="rows.mark"),
        Binding("enter", "open", "Open", show=False, id="rows.open"),
    ]

    cursor_row = reactive(0, repaint=False)
    """The row of the cursor. Setting it scrolls there."""
    cursor_column = reactive(0, repaint=False)
    following = reactive(False, repaint=False)
    """True while the list scrolls to new rows."""
    unseen = reactive(0, repaint=False)
    """The number of rows added since the list stopped following."""

    class Moved(Message):
        """The cursor moved."""

    class Opened(Moved):
        """A row was opened, by enter or a double click."""

    def __init__(
        self,
        source: RowSource,
        columns: Sequence[ListColumn],
        *,
        cursor: Literal["row", "cell"] = "row",
        live: bool = False,
        **options: Any,
    ) -> None:
        """Create a list with the options of `VirtualList`."""
        super().__init__(source, columns, **options)
        self._by_cell = cursor == "cell"
        self._live = live
        self._cursor_visible = True
        self.marks: set[Hashable] = set()

    def unmark(self) -> None:
        """Remove all marks."""
        self.marks.clear()
        self.refresh()

    def set_source(self, source: RowSource, columns: Sequence[ListColumn] | None = None) -> None:
        """Show the rows of another source, from the first (live: last) one. Clears the marks."""
        self.marks.clear()
        self.cursor_row = self.cursor_column = self.unseen = 0
        self.following = False
        super().set_source(source, columns)
        self.unseen = 0
        self.following = self._live

    def on_mount(self) -> None:
        self.following = self._live
        if self._live:
            self.set_interval(1 / POLL_HZ, self._poll_count)

    def _poll_count(self) -> None:
        """Add new rows if this screen is active."""
        if not self.screen.is_active:
            return
        count = self._source.count()
        if count == self.count or self._fetching:
            return
        if self.following and count > self.count:
            # The last rows are fetched before the number is set, so that no placeholder flashes.
            self._pending_count = count
            self._cache.request(count - self._page, count, count)
            self._start_fetch()
        else:
            self._set_count(count)

    def shift_rows(self, rows: int) -> None:
        """Move the view by the rows that were inserted (negative: removed) at the start of the source."""
        top, cursor = self.scroll_offset.y, self.cursor_row
        self._cache.clear()
        self._pending_count = None
        self.count += rows
        self._set_count(self._source.count())
        if not self.following:
            self.scroll_to(y=top + rows, animate=False)
            self.cursor_row = cursor + rows

    def _count_changed(self, added: int) -> None:
        if self.following:
            self.cursor_row = self.count - 1
            self.scroll_to(y=self.max_scroll_y, animate=False)
        else:
            self.cursor_row = self.validate_cursor_row(self.cursor_row)
            self.unseen = max(self.unseen + added, 0) if self._live else 0

    def watch_following(self, following: bool) -> None:
        if following:
            self.unseen = 0
            self._set_count(self._source.count())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Request visible rows; scrolling up stops following."""
        super().watch_scroll_y(old_value, new_value)
        if round(new_value) < min(round(old_value), self.max_scroll_y):
            self.following = False
        self._cursor_visible = self._rows_to_scroll() == 0

    def validate_cursor_row(self, row: int) -> int:
        return clamp(row, 0, max(self.count - 1, 0))

    def validate_cursor_column(self, column: int) -> int:
        return clamp(column, 0, max(len(self._columns) - 1, 0))

    def watch_cursor_row(self, old: int, new: int) -> None:
        self.refresh_line(old + self._header_rows)
        self.refresh_line(new + self._header_rows)
        self._scroll_to_cursor()
        self.post_message(self.Moved())

    def on_resize(self) -> None:
        """Scroll to the cursor if it was visible before."""
        if self._cursor_visible:
            self._scroll_to_cursor()

    def _rows_to_scroll(self) -> int:
        """Return the number of rows from the visible area to the cursor; negative if it is above."""
        below = self.cursor_row - self.scroll_offset.y
        return min(below, 0) or max(below - self._page + 1, 0)

    def _scroll_to_cursor(self) -> None:
        if rows := self._rows_to_scroll():
            self.scroll_to(y=self.scroll_offset.y + rows, animate=False)
        self._cursor_visible = True

    def watch_cursor_column(self, column: int) -> None:
        self.refresh_line(self.cursor_row + self._header_rows)
        if column < len(self._placed):
            placed, left, room = self._placed[column], self.scroll_offset.x, self._room.width - GUTTER
            if placed.x < left or placed.width >= room:
                self.scroll_to(x=placed.x, animate=False)
            elif placed.x + placed.width > left + room:
                self.scroll_to(x=placed.x + placed.width - room, animate=False)
        self.post_message(self.Moved())

    def cell_region(self, row: int, column: int) -> Region:
        """Return the region of a cell on the screen, limited to the visible rows."""
        placed = self._placed[column]
        row = clamp(row - self.scroll_offset.y, 0, self._page - 1)
        x = self.region.x + GUTTER + placed.x - self.scroll_offset.x
        return Region(x, self.region.y + self._header_rows + row, placed.width, 1)

    def go_to(self, row: int) -> None:
        """Move the cursor to a row and stop following; show neighboring rows if it was not visible."""
        top = self.scroll_offset.y
        self.following = False
        self.cursor_row = row
        if not top <= row < top + self._page:
            self.scroll_to(y=max(row - self._page // 3, 0), animate=False)

    def action_move(self, rows: int) -> None:
        row = self.validate_cursor_row(self.cursor_row + rows)
        if rows < 0:
            self.following = False
        self.cursor_row = row

    def action_page(self, pages: int) -> None:
        self.action_move(pages * self._page)

    def action_top(self) -> None:
        self.following = False
        self.cursor_row = 0

    def action_bottom(self) -> None:
        """Go to the last row; a live list follows again."""
        self.following = self._live
        self.action_move(self.count)

    def action_move_sideways(self, step: int) -> None:
        if self._by_cell:
            self.cursor_column += step
        else:
            x = clamp(self.scroll_offset.x + step * SIDEWAYS_CELLS, 0, self.max_scroll_x)
            self.scroll_to(x=x, animate=False)

    def action_mark(self) -> None:
        if self.count and (key := self.key(self.cursor_row)) is not None:
            self.marks ^= {key}
            self.refresh_line(self.cursor_row + self._header_rows)
            self.action_move(1)

    def action_open(self) -> None:
        if self.count:
            self.post_message(self.Opened())

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the mouse; a double click opens the row."""
        offset = event.get_content_offset(self)
        if offset is None or offset.y < self._header_rows:
            return
        row = offset.y - self._header_rows + self.scroll_offset.y
        if row >= self.count:
            return
        self.action_move(row - self.cursor_row)
        if offset.x >= GUTTER:
            self.cursor_column = column_at(self._placed, offset.x - GUTTER + self.scroll_offset.x)
        if event.chain == 2:
            self.action_open()

    def _row_line(self, index: int, row: Row | None) -> Strip:
        """Render a row with cursor and mark. `▌` shows the cursor on terminals without colors."""
        is_current = index == self.cursor_row
        mark = "•" if row and row.key in self.marks else " "
        sign = f"{'▌' if is_current and self.has_focus else ' '}{mark}"
        style = self._base_style + self._styles_for("cursor") if is_current else self._base_style
        cursor = self.cursor_column if is_current and self._by_cell else None
        return self._line(row.cells if row else PLACEHOLDER, sign, style, cursor)
