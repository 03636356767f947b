"""Virtual list with a cursor, marks, key bindings and live following."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, clamp
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from screens.widgets.columns import ListColumn, column_at
from screens.widgets.row_source import Row, RowSource
from screens.widgets.virtual_list import GUTTER, PLACEHOLDER, VirtualList

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
    """The column of a cell cursor."""
    following = reactive(False, repaint=False)
    """True while the list scrolls to new rows."""
    unseen = reactive(0, repaint=False)
    """The number of rows added since the list stopped following."""

    @dataclass
    class Moved(Message):
        """The cursor moved."""

        rows: "VirtualRows"
        row: int
        column: int

    class Opened(Moved):
        """A row was opened, by enter or a double click."""

    def __init__(
        self,
        source: RowSource,
        columns: Sequence[ListColumn],
        *,
        cursor: Literal["row", "cell"] = "row",
        head: bool = True,
        live: bool = False,
        empty: str = "",
        id: str | None = None,
    ) -> None:
        """Create a list. `head` shows the column titles; `empty` is shown if there are no rows."""
        super().__init__(source, columns, head=head, empty=empty, id=id)
        self._by_cell = cursor == "cell"
        self._live = live
        self._cursor_visible = True
        self._marks: set[Hashable] = set()

    @property
    def marks(self) -> frozenset[Hashable]:
        """The keys of the marked rows."""
        return frozenset(self._marks)

    def unmark(self) -> None:
        """Remove all marks."""
        self._marks.clear()
        self.refresh()

    def set_source(self, source: RowSource, columns: Sequence[ListColumn] | None = None) -> None:
        """Show the rows of another source, from the first (live: last) one. Clears the marks."""
        self._marks.clear()
        self.cursor_row = self.cursor_column = self.unseen = 0
        self.following = False
        super().set_source(source, columns)
        self.unseen = 0
        self.following = self._live

    def on_mount(self) -> None:
        """Follow a live list."""
        self.following = self._live
        if self._live:
            self.set_interval(1 / POLL_HZ, self._poll_count)

    def _poll_count(self) -> None:
        """Add new rows if this screen is active."""
        if not self.screen.is_active:
            return
        count = self._source.count()
        if count == self._count or self._fetching:
            return
        if self.following and count > self._count:
            self._prefetch_count(count)
        else:
            self._set_count(count)

    def shift_rows(self, rows: int) -> None:
        """Move the view by a number of rows that were inserted (negative: removed) at the start of the
        source.
        """
        top, cursor = self.scroll_offset.y, self.cursor_row
        self._cache.clear()
        self._pending_count = None
        self._count += rows
        self._set_count(self._source.count())
        if not self.following:
            self.scroll_to(y=top + rows, animate=False)
            self.cursor_row = cursor + rows

    def _count_changed(self, added: int) -> None:
        if self.following:
            self.cursor_row = self._count - 1
            self.scroll_to(y=self.max_scroll_y, animate=False)
        else:
            self.cursor_row = self.validate_cursor_row(self.cursor_row)
            self.unseen = max(self.unseen + added, 0) if self._live else 0

    def watch_following(self, following: bool) -> None:
        """Reset the counter of new rows, and scroll to the last row."""
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
        """Clamp the cursor to the rows."""
        return clamp(row, 0, max(self._count - 1, 0))

    def validate_cursor_column(self, column: int) -> int:
        """Clamp the cursor to the columns."""
        return clamp(column, 0, max(len(self._columns) - 1, 0))

    def watch_cursor_row(self, old: int, new: int) -> None:
        """Redraw the cursor and scroll to it."""
        self.refresh_line(old + self._header_rows)
        self.refresh_line(new + self._header_rows)
        self._scroll_to_cursor()
        self.post_message(self.Moved(self, new, self.cursor_column))

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
        """Redraw the cursor and scroll to it."""
        self.refresh_line(self.cursor_row + self._header_rows)
        if column < len(self._placed):
            placed, left, room = self._placed[column], self.scroll_offset.x, self._room.width - GUTTER
            if placed.x < left or placed.width >= room:
                self.scroll_to(x=placed.x, animate=False)
            elif placed.x + placed.width > left + room:
                self.scroll_to(x=placed.x + placed.width - room, animate=False)
        self.post_message(self.Moved(self, self.cursor_row, column))

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
        """Move the cursor by rows."""
        row = self.validate_cursor_row(self.cursor_row + rows)
        if rows < 0:
            self.following = False
        self.cursor_row = row

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_move(pages * self._page)

    def action_top(self) -> None:
        """Go to the first row and stop following, also before there are rows."""
        self.following = False
        self.cursor_row = 0

    def action_bottom(self) -> None:
        """Go to the last row; a live list follows again."""
        self.following = self._live
        self.action_move(self._count)

    def action_move_sideways(self, step: int) -> None:
        """Move a cell cursor by columns, or scroll sideways."""
        if self._by_cell:
            self.cursor_column += step
        else:
            x = clamp(self.scroll_offset.x + step * SIDEWAYS_CELLS, 0, self.max_scroll_x)
            self.scroll_to(x=x, animate=False)

    def action_mark(self) -> None:
        """Toggle the mark of the row and go to the next one."""
        if self._count and (key := self.key(self.cursor_row)) is not None:
            self._marks ^= {key}
            self.refresh_line(self.cursor_row + self._header_rows)
            self.action_move(1)

    def action_open(self) -> None:
        """Open the row of the cursor."""
        if self._count:
            self.post_message(self.Opened(self, self.cursor_row, self.cursor_column))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the mouse; a double click opens the row."""
        offset = event.get_content_offset(self)
        if offset is None or offset.y < self._header_rows:
            return
        row = offset.y - self._header_rows + self.scroll_offset.y
        if row >= self._count:
            return
        self.action_move(row - self.cursor_row)
        if offset.x >= GUTTER:
            self.cursor_column = column_at(self._placed, offset.x - GUTTER + self.scroll_offset.x)
        if event.chain == 2:
            self.action_open()

    def _row_line(self, index: int, row: Row | None) -> Strip:
        """Render a row with cursor and mark. `▌` shows the cursor on terminals without colors."""
        is_current = index == self.cursor_row
        sign = ("▌" if is_current and self.has_focus else " ") + (
            "•" if row and row.key in self._marks else " "
        )
        style = self._base_style + self._styles_for("cursor") if is_current else self._base_style
        cursor = self.cursor_column if is_current and self._by_cell else None
        return self._line(row.cells if row else PLACEHOLDER, sign, style, cursor)
