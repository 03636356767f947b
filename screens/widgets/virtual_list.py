"""A list that holds only what is to be seen and what is next to it: fetching and drawing, without a cursor.

Fetches off the thread that draws, one window after another. What rows are, their `RowSource` says.
"""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from screens.widgets.columns import GAP, Column, Placed, fit, place, total
from screens.widgets.component_styles import Looks
from screens.widgets.row_cache import Chunks, Window
from screens.widgets.row_source import Cell, Row, RowSource, RowsUnavailable

GUTTER = 2
"""Cells before each line that do not scroll sideways: one for the cursor, one for the mark."""
REST_SECONDS = 0.03
"""How long nothing else comes into sight before what is next to it is fetched."""
WAITING: tuple[Cell, ...] = ((("…", "dim"),),)
"""What a row shows that is not there yet."""


class Windowed(ScrollView, can_focus=False):
    """Rows of a source under the titles of its columns; `…` for a row that is not there yet."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    Windowed {
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

    @dataclass
    class Failed(Message):
        """Rows could not be fetched; they are tried again at the next move or `reload`."""

        rows: "Windowed"
        reason: str

        @property
        def control(self) -> "Windowed":
            """The list, for `@on` selectors."""
            return self.rows

    @dataclass
    class Landed(Message):
        """Rows that are to be seen were fetched."""

        rows: "Windowed"

        @property
        def control(self) -> "Windowed":
            """The list, for `@on` selectors."""
            return self.rows

    def __init__(
        self,
        source: RowSource,
        columns: Sequence[Column],
        *,
        head: bool = True,
        empty: str = "",
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        """`head` shows the columns' titles; `empty` is said when there are no rows."""
        super().__init__(id=id, classes=classes)
        self._source = source
        self._columns = tuple(columns)
        self._head = int(head)
        self.empty = empty
        """What is said when there are no rows."""
        self._count = 0
        self._coming: int | None = None
        self._chunks = Chunks()
        self._filling = False
        self._moved = asyncio.Event()
        self._placed: tuple[Placed, ...] = ()
        self._base = Style()
        self._wide = 0
        self._look = Looks(self, "rows--")

    @property
    def count(self) -> int:
        """How many rows are shown; a source may have more for a moment."""
        return self._count

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
        """Show other rows, from the first on."""
        self._source = source
        self._columns = self._columns if columns is None else tuple(columns)
        self._chunks.clear()
        self._coming = None
        self._count = 0
        self.scroll_to(0, 0, animate=False)
        self._counted(source.count())

    def reload(self) -> None:
        """Fetch the rows again, which have changed; those that are shown stay until then."""
        self._chunks.expire()
        self._coming = None
        self._counted(self._source.count())

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Show the same rows in other columns; the source has other cells from now on."""
        self._columns = tuple(columns)
        self._chunks.clear()
        self._coming = None
        self._counted(self._source.count())

    def on_mount(self) -> None:
        """Look at the rows for the first time."""
        self._counted(self._source.count())

    def on_resize(self) -> None:
        """Give the columns their new room."""
        self._counted(self._count)

    # What is to be seen

    @property
    def _room(self) -> Size:
        """The cells beside the scrollbars."""
        return self.scrollable_content_region.size

    @property
    def _page(self) -> int:
        """How many rows the screen shows."""
        return max(self._room.height - self._head, 1)

    def _counted(self, count: int) -> None:
        """Take up how many rows there are, and lay them out."""
        came, self._count = count - self._count, count
        if came < 0:
            self._chunks.expire()
        self._placed = place(self._columns, max(self._room.width - GUTTER, 0))
        self.virtual_size = Size(GUTTER + total(self._placed), count + self._head)
        self._laid_out(came)
        self._ask()
        self.refresh()

    def _laid_out(self, came: int) -> None:
        """Follow a change of the number of rows."""

    def _announced(self, count: int) -> None:
        """Take up that many rows once the last of them are there, so that none shows as `…`."""
        self._coming = count
        self._chunks.want(count - self._page, count, count)
        self._fill()

    def _ask(self) -> None:
        """Have fetched what is to be seen now, in place of what was to be seen before."""
        if self._room.height and self._coming is None:
            top = self.scroll_offset.y
            self._chunks.want(top, top + self._page, self._count)
            self._moved.set()
            self._fill()

    def _fill(self) -> None:
        if not self._filling and (self._coming is not None or self._chunks.next()):
            self._filling = True
            self.run_worker(self._fetch(), group="rows", description="fetch rows")

    async def _fetch(self) -> None:
        """Fetch until all that is wanted is held; what is wanted may change meanwhile."""
        try:
            while window := self._chunks.next():
                if self._coming is None and not self._sees(window) and not await self._rests():
                    continue
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
        if self._chunks.put(window, rows) and self._coming is None and self._sees(window):
            self.refresh()
            self.post_message(self.Landed(self))

    def _sees(self, window: Window) -> bool:
        """Whether rows of a window are to be seen."""
        top = self.scroll_offset.y
        return window.start < top + self._page and top < window.start + window.n

    async def _rests(self) -> bool:
        """Wait a moment; whether nothing else came into sight."""
        self._moved.clear()
        try:
            async with asyncio.timeout(REST_SECONDS):
                await self._moved.wait()
        except TimeoutError:
            return True
        return False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Fetch what comes into sight."""
        super().watch_scroll_y(old_value, new_value)
        self._ask()

    # Lines

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines of a part of the screen; they share what takes long to work out."""
        self._base, self._wide = self.rich_style, max(self._room.width - GUTTER, 0)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen: the titles, a row, `…` for one that is not there yet, or nothing."""
        index = y - self._head + self.scroll_offset.y
        if y < self._head:
            titles: list[Cell] = [((column.title, ""),) for column in self._columns]
            return self._line(titles, "  ", self._base + self._look("head"))
        if index < self._count:
            return self._row_line(index, self._chunks.row(index))
        said = self.empty.center(self._room.width) if self.empty and index == 0 else ""
        line = Strip([Segment(said, self._base + self._look("dim"))])
        return line.adjust_cell_length(self._room.width, self._base)

    def _row_line(self, index: int, row: Row | None) -> Strip:
        """Draw a row of which nothing more is to be said."""
        return self._line(row.cells if row else WAITING, " " * GUTTER, self._base)

    def _line(self, cells: Sequence[Cell], sign: str, style: Style, cursor: int | None = None) -> Strip:
        """Draw cells after a `sign` of the gutter's width; `cursor` is the number of a cell."""
        room, left = self._wide, self.scroll_offset.x
        segments = [] if left else [Segment(sign, style + self._look("accent"))]
        gap = Segment(" " * GAP, style)
        for number, (cell, column) in enumerate(zip(cells, self._placed, strict=False)):
            own = style + self._look("cell") if number == cursor else style
            for text, tone in fit(cell, column):
                segments.append(Segment(text, own + self._look(tone) if tone else own))
            segments.append(gap)
        if not left:
            return Strip(segments).adjust_cell_length(GUTTER + room, style)
        line = Strip(segments).crop_extend(left, left + room, style)
        return Strip([Segment(sign, style + self._look("accent")), *line], GUTTER + room)

    def notify_style_update(self) -> None:
        """Forget the colours of before."""
        super().notify_style_update()
        self._look.clear()
