"""Virtual lists over generated rows, and helpers to drive them."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from textual import events
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from screens.widgets.rows import ListColumn, Row, RowsUnavailable
from screens.widgets.virtual_list import VirtualRows
from tests.support.screens import idle, text

MILLION = 1_000_000
COLUMNS = (ListColumn("id", 9, right=True), ListColumn("name", 10), ListColumn("message", 20, grow=True))


class Numbers:
    """Generated rows; records which windows were requested."""

    def __init__(self, count: int) -> None:
        self.length = count
        self.fetched: list[tuple[int, int]] = []
        self.drawing = threading.current_thread()
        self.fetch_threads: set[threading.Thread] = set()
        self.gate: threading.Event | None = None
        self.broken = ""
        self.word = "row"
        self.before = 0
        """The number of rows inserted before the first."""

    def count(self) -> int:
        return self.length

    def window(self, start: int, n: int) -> Sequence[Row]:
        self.fetched.append((start, n))
        self.fetch_threads.add(threading.current_thread())
        if self.gate:
            assert self.gate.wait(60)
        if self.broken:
            raise RowsUnavailable(self.broken)
        return [self._row(number) for number in range(start, min(start + n, self.length))]

    def _row(self, number: int) -> Row:
        number -= self.before
        cells = (((f"{number:,}", ""),), ((f"name {number % 7}", "bold"),), ((f"{self.word} {number}", ""),))
        return Row(number, cells)


class Shown(App[None]):
    def __init__(self, source: Numbers, **wishes: Any) -> None:
        super().__init__()
        self.rows = VirtualRows(source, COLUMNS, **wishes)
        self.messages: list[Any] = []

    def compose(self) -> ComposeResult:
        yield self.rows

    def on_mount(self) -> None:
        self.rows.focus()

    def on_virtual_rows_opened(self) -> None:
        self.messages.append(("opened", self.rows.cursor_row, self.rows.cursor_column))

    def on_virtual_list_failed(self, message: VirtualRows.Failed) -> None:
        self.messages.append(("failed", message.reason))


Case = Callable[[Pilot[Any], Numbers, VirtualRows], Coroutine[Any, Any, None]]


def lines(pilot: Pilot[Any]) -> list[str]:
    """Return the visible lines without the scrollbar."""
    return [line[: pilot.app.size.width - 1].rstrip() for line in text(pilot.app).splitlines()]


async def wheel(pilot: Pilot[Any], rows: VirtualRows, event: type[events.MouseEvent]) -> None:
    await pilot._post_mouse_events([event], rows)  # type: ignore[list-item]
    await idle(pilot)


async def grow(pilot: Pilot[Any], source: Numbers, rows: VirtualRows, more: int) -> None:
    """Add rows and wait until the list shows them."""
    counted = asyncio.Event()
    source.length += more
    timer = rows.set_interval(0.01, lambda: counted.set() if rows.count == source.length else None)
    await asyncio.wait_for(counted.wait(), 60)
    timer.stop()
    await idle(pilot)
