"""The one list for many rows: draws those to be seen, fetches them off the thread that draws.

Owns the cursor, the marks and the following of a list that grows. What rows are, their `RowSource` says.
"""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size, clamp
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from screens.widgets.chunks import CHUNK, Chunks, Window
from screens.widgets.columns import GAP, Column, Placed, column_at, fit, place, total
from screens.widgets.row_source import Cell, Row, RowSource, RowsUnavailable

REFRESH_HZ = 20
"""How often a list that grows is looked at."""
GUTTER = 2
"""Cells before each line: one for the cursor, one for the mark."""
SIDEWAYS = 8
"""Cells that `h` and `l` scroll where the cursor is a row."""


class VirtualRows(ScrollView, can_focus=True):
    """A list of any length with a cursor, by row or by cell.

    A `live` list grows at its end: it is looked at 20 times a second, and followed until one goes up in it;
    `unseen` counts what came since, and `G` follows again.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    VirtualRows {
        overflow-y: scroll;
        scrollbar-size: 1 1;
        & > .rows--head { color: $text-muted; text-style: underline; }
        & > .rows--cursor { background: $boost; }
        & > .rows--cell { background: $accent 40%; }
        & > .rows--bold { text-style: bold; }
        & > .rows--dim { color: $text-muted; }
        & > .rows--accent { color: $accent; }
        & > .rows--good { color: $text-success; }
        & > .rows--notice { color: $text-primary; }
        & > .rows--warn { color: $text-warning; }
        & > .rows--bad { color: $text-error; text-style: bold; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *("rows--head", "rows--cursor", "rows--cell"),
        *("rows--bold", "rows--dim", "rows--accent", "rows--good", "rows--notice", "rows--warn", "rows--bad"),
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Down", show=False, id="rows.down"),
        Binding("k,up", "move(-1)", "Up", show=False, id="rows.up"),
        Binding("h,left", "sideways(-1)", "Left", show=False, id="rows.left"),
        Binding("l,right", "sideways(1)", "Right", show=False, id="rows.right"),
        Binding("g,home", "top", "First row", show=False, id="rows.top"),
        Binding("G,end", "bottom", "Last row", show=False, id="rows.bottom"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="rows.page-down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="rows.page-up"),
        Binding("space", "mark", "Mark", show=False, id="rows.mark"),
        Binding("enter", "open", "Open", show=False, id="rows.open"),
    ]

    cursor_row = reactive(0, repaint=False)
    """The row of the cursor; moving it scrolls there."""
    cursor_column = reactive(0, repaint=False)
    """The column of the cursor, where it is a cell."""
    following = reactive(False, repaint=False)
    """Whether the last row stays in sight when others come."""
    unseen = reactive(0, repaint=False)
    """How many rows came since the list was last followed."""

    @dataclass
    class Moved(Message):
        """The cursor stands somewhere else."""

        rows: "VirtualRows"
        row: int
        column: int

        @property
        def control(self) -> "VirtualRows":
            """The list, for `@on` selectors."""
            return self.rows

    class Opened(Moved):
        """A row was chosen, by enter or a double click."""

    @dataclass
    class Failed(Message):
        """Rows could not be fetched; they are tried again at the next move or `reload`."""

        rows: "VirtualRows"
        reason: str

        @property
        def control(self) -> "VirtualRows":
            """The list, for `@on` selectors."""
            return self.rows

    def __init__(
        self,
        source: RowSource,
        columns: Sequence[Column],
        *,
        cursor: Literal["row", "cell"] = "row",
        head: bool = True,
        live: bool = False,
        empty: str = "",
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        """`head` shows the columns' titles; `empty` is said when there are no rows."""
        super().__init__(id=id, classes=classes)
        self._source = source
        self._columns = tuple(columns)
        self._by_cell = cursor == "cell"
        self._head = int(head)
        self._live = live
        self._empty = empty
        self._count = 0
        self._coming: int | None = None
        self._chunks = Chunks()
        self._filling = False
        self._placed: tuple[Placed, ...] = ()
        self._marks: set[Hashable] = set()

    @property
    def count(self) -> int:
        """How many rows are shown; a source may have more, for a twentieth of a second."""
        return self._count

    @property
    def marks(self) -> frozenset[Hashable]:
        """The keys of the marked rows."""
        return frozenset(self._marks)

    @property
    def held(self) -> int:
        """How many chunks of rows are in memory."""
        return len(self._chunks)

    def row(self, index: int) -> Row | None:
        """Return a row, or None while it is not held."""
        return self._chunks.row(index)

    def key(self, index: int) -> Hashable | None:
        """Return the key of a row, or None while it is not held."""
        row = self.row(index)
        return row.key if row else None

    def show(self, source: RowSource, columns: Sequence[Column] | None = None) -> None:
        """Show other rows, from the first on; marks are forgotten."""
        self._source = source
        self._columns = self._columns if columns is None else tuple(columns)
        self._chunks.clear()
        self._marks.clear()
        self._coming = None
        self._count = self.unseen = self.cursor_row = self.cursor_column = 0
        self.scroll_to(0, 0, animate=False)
        self._counted(source.count())

    def reload(self) -> None:
        """Fetch the rows again, which have changed; those that are shown stay until then."""
        self._chunks.expire()
        self._coming = None
        self._counted(self._source.count())

    def unmark(self) -> None:
        """Take all marks away."""
        self._marks.clear()
        self.refresh()

    # What is to be seen

    @property
    def _room(self) -> Size:
        """The cells beside the scrollbars."""
        return self.scrollable_content_region.size

    @property
    def _page(self) -> int:
        """How many rows the screen shows."""
        return max(self._room.height - self._head, 1)

    def on_mount(self) -> None:
        """Look at the rows for the first time, and go on doing so where they grow."""
        self.following = self._live
        self._counted(self._source.count())
        if self._live:
            self.set_interval(1 / REFRESH_HZ, self._look)

    def on_resize(self) -> None:
        """Give the columns their new room."""
        self._counted(self._count)

    def _look(self) -> None:
        """Take up what has come. Rows that will be followed are fetched before they are shown."""
        count = self._source.count()
        if count == self._count or self._filling:
            return
        if self.following and count > self._count:
            self._coming = count
            self._chunks.want(count - self._page, count, count)
            self._fill()
        else:
            self._counted(count)

    def _counted(self, count: int) -> None:
        """Take up how many rows there are, and lay them out."""
        came, self._count = count - self._count, count
        if came < 0:
            self._chunks.expire()
        self._placed = place(self._columns, max(self._room.width - GUTTER, 0))
        self.virtual_size = Size(GUTTER + total(self._placed), count + self._head)
        if self.following:
            self.cursor_row = max(count - 1, 0)
            self.scroll_to(y=self.max_scroll_y, animate=False)
        else:
            self.cursor_row = clamp(self.cursor_row, 0, max(count - 1, 0))
            self.unseen = max(self.unseen + came, 0) if self._live else 0
        self._ask()
        self.refresh()

    def _ask(self) -> None:
        """Have fetched what is to be seen now, in place of what was to be seen before."""
        if self._room.height and self._coming is None:
            top = self.scroll_offset.y
            self._chunks.want(top, top + self._page, self._count)
            self._fill()

    def _fill(self) -> None:
        if not self._filling and (self._coming is not None or self._chunks.next()):
            self._filling = True
            self.run_worker(self._fetch(), group="rows", description="fetch rows")

    async def _fetch(self) -> None:
        """Fetch until all that is wanted is held; what is wanted may change meanwhile."""
        try:
            while window := self._chunks.next():
                try:
                    rows = await asyncio.to_thread(self._source.window, window.start, window.n)
                except RowsUnavailable as error:
                    self._chunks.failed(window)
                    self.post_message(self.Failed(self, str(error)))
                else:
                    self._landed(window, rows)
        finally:
            self._filling = False
        if self._coming is not None:
            coming, self._coming = self._coming, None
            self._counted(coming)

    def _landed(self, window: Window, rows: Sequence[Row]) -> None:
        if self._chunks.put(window, rows) and self._coming is None:
            top = self.scroll_offset.y
            if window.start < top + self._page and top < window.start + CHUNK:
                self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Fetch what comes into sight; who scrolls up follows no longer."""
        super().watch_scroll_y(old_value, new_value)
        if round(new_value) < min(round(old_value), self.max_scroll_y):
            self.following = False
        self._ask()

    # The cursor

    def validate_cursor_row(self, row: int) -> int:
        """Keep the cursor on a row."""
        return clamp(row, 0, max(self._count - 1, 0))

    def validate_cursor_column(self, column: int) -> int:
        """Keep the cursor on a column."""
        return clamp(column, 0, max(len(self._columns) - 1, 0))

    def watch_cursor_row(self, old: int, new: int) -> None:
        """Show the cursor where it stands now."""
        self.refresh_line(old + self._head)
        self.refresh_line(new + self._head)
        top = self.scroll_offset.y
        if not top <= new < top + self._page:
            self.scroll_to(y=new if new < top else new - self._page + 1, animate=False)
        self.post_message(self.Moved(self, new, self.cursor_column))

    def watch_cursor_column(self, column: int) -> None:
        """Show the cursor where it stands now."""
        self.refresh_line(self.cursor_row + self._head)
        if column < len(self._placed):
            placed, left, room = self._placed[column], self.scroll_offset.x, self._room.width - GUTTER
            if placed.x < left or placed.width >= room:
                self.scroll_to(x=placed.x, animate=False)
            elif placed.x + placed.width > left + room:
                self.scroll_to(x=placed.x + placed.width - room, animate=False)
        self.post_message(self.Moved(self, self.cursor_row, column))

    def watch_following(self, following: bool) -> None:
        """Go to the end, where it is followed from now on."""
        if following:
            self.unseen = 0
            self._counted(self._source.count())

    def action_move(self, rows: int) -> None:
        """Move the cursor by rows."""
        row = clamp(self.cursor_row + rows, 0, max(self._count - 1, 0))
        if row < self.cursor_row:
            self.following = False
        self.cursor_row = row

    def action_page(self, pages: int) -> None:
        """Move the cursor by what the screen shows."""
        self.action_move(pages * self._page)

    def action_top(self) -> None:
        """Go to the first row."""
        self.action_move(-self._count)

    def action_bottom(self) -> None:
        """Go to the last row, and stay with it in a live list."""
        self.following = self._live
        self.action_move(self._count)

    def action_sideways(self, step: int) -> None:
        """Move the cursor by columns, or scroll where the cursor is a row."""
        if self._by_cell:
            self.cursor_column += step
        else:
            x = clamp(self.scroll_offset.x + step * SIDEWAYS, 0, self.max_scroll_x)
            self.scroll_to(x=x, animate=False)

    def action_mark(self) -> None:
        """Mark the row of the cursor, or take its mark away, and go to the next."""
        if (key := self.key(self.cursor_row)) is not None:
            self._marks ^= {key}
            self.refresh_line(self.cursor_row + self._head)
            self.action_move(1)

    def action_open(self) -> None:
        """Tell that the row of the cursor was chosen."""
        if self._count:
            self.post_message(self.Opened(self, self.cursor_row, self.cursor_column))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse is; a double click opens."""
        offset = event.get_content_offset(self)
        if offset is None or offset.y < self._head:
            return
        row = offset.y - self._head + self.scroll_offset.y
        if row >= self._count:
            return
        self.action_move(row - self.cursor_row)
        if offset.x >= GUTTER:
            self.cursor_column = column_at(self._placed, offset.x - GUTTER + self.scroll_offset.x)
        if event.chain == 2:
            self.action_open()

    # Lines

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen: the titles, a row, `…` for one that is not there yet, or nothing."""
        index = y - self._head + self.scroll_offset.y
        if y < self._head:
            titles: list[Cell] = [((column.title, ""),) for column in self._columns]
            return self._line(titles, "  ", self.rich_style + self._look_of("head"))
        if index >= self._count:
            said = self._empty if index == 0 else ""
            text = said.center(self._room.width) if said else ""
            style = self.rich_style + self._look_of("dim")
            return Strip([Segment(text, style)]).adjust_cell_length(self._room.width, self.rich_style)
        here = index == self.cursor_row
        style = self.rich_style + self._look_of("cursor") if here else self.rich_style
        row = self._chunks.row(index)
        sign = ("▌" if here and self.has_focus else " ") + ("•" if row and row.key in self._marks else " ")
        return self._line(row.cells if row else [(("…", "dim"),)], sign, style, here and self._by_cell)

    def _line(self, cells: Sequence[Cell], sign: str, style: Style, cursor: bool = False) -> Strip:
        segments = []
        gap = Segment(" " * GAP, style)
        for number, (cell, column) in enumerate(zip(cells, self._placed, strict=False)):
            own = style
            if cursor and number == self.cursor_column:
                own += self._look_of("cell")
            for text, tone in fit(cell, column):
                segments.append(Segment(text, own + self._look_of(tone) if tone else own))
            segments.append(gap)
        left, room = self.scroll_offset.x, max(self._room.width - GUTTER, 0)
        line = Strip(segments).crop_extend(left, left + room, style)
        return Strip.join([Strip([Segment(sign, style + self._look_of("accent"))], GUTTER), line])

    def _look_of(self, name: str) -> Style:
        return self.get_component_rich_style(f"rows--{name}", partial=True)
