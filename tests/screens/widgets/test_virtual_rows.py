import asyncio
import random
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from screens.widgets.chunks import CHUNK, HELD
from screens.widgets.columns import Column
from screens.widgets.row_source import Row, RowsUnavailable
from screens.widgets.virtual_rows import VirtualRows
from tests.screens.conftest import Opened, idle, text

MILLION = 1_000_000
COLUMNS = (Column("id", 9, right=True), Column("name", 10), Column("message", 20, grow=True))


class Numbers:
    """Numbered rows that are made when they are asked for; it remembers what was asked."""

    def __init__(self, count: int) -> None:
        self.length = count
        self.asked: list[tuple[int, int]] = []
        self.drawing = threading.current_thread()
        self.asked_by: set[threading.Thread] = set()
        self.gate: threading.Event | None = None
        self.broken = ""
        self.word = "row"

    def count(self) -> int:
        return self.length

    def window(self, start: int, n: int) -> Sequence[Row]:
        self.asked.append((start, n))
        self.asked_by.add(threading.current_thread())
        if self.gate:
            assert self.gate.wait(60)
        if self.broken:
            raise RowsUnavailable(self.broken)
        return [self._row(number) for number in range(start, min(start + n, self.length))]

    def _row(self, number: int) -> Row:
        cells = (((f"{number:,}", ""),), ((f"name {number % 7}", "bold"),), ((f"{self.word} {number}", ""),))
        return Row(number, cells)


class Shown(App[None]):
    def __init__(self, source: Numbers, **wishes: Any) -> None:
        super().__init__()
        self.rows = VirtualRows(source, COLUMNS, **wishes)
        self.heard: list[Any] = []

    def compose(self) -> ComposeResult:
        yield self.rows

    def on_mount(self) -> None:
        self.rows.focus()

    def on_virtual_rows_opened(self, message: VirtualRows.Opened) -> None:
        self.heard.append(("opened", message.row, message.column))

    def on_virtual_rows_failed(self, message: VirtualRows.Failed) -> None:
        self.heard.append(("failed", message.reason))


Case = Callable[[Pilot[Any], Numbers, VirtualRows], Coroutine[Any, Any, None]]


@pytest.fixture
def drive(opened: Opened) -> Callable[..., None]:
    """Run a case against a list of rows, in a terminal of 60x12."""

    def run(case: Case, count: int = MILLION, size: tuple[int, int] = (60, 12), **wishes: Any) -> None:
        async def main() -> None:
            source = Numbers(count)
            app = Shown(source, **wishes)
            async with opened(app, size) as pilot:
                await case(pilot, source, app.rows)

        asyncio.run(main())

    return run


def lines(pilot: Pilot[Any]) -> list[str]:
    """Return what the lines show, without the scrollbar at their end."""
    return [line[: pilot.app.size.width - 1].rstrip() for line in text(pilot.app).splitlines()]


def test_the_first_screen_of_a_million_rows_takes_two_windows(drive: Any, snapshot: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        assert source.asked == [(0, CHUNK), (CHUNK, CHUNK)]
        assert rows.count == MILLION
        snapshot(pilot.app)

    drive(case)


def test_rows_are_fetched_by_another_thread_than_the_one_that_draws(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("G")
        await idle(pilot)
        assert source.drawing not in source.asked_by

    drive(case)


def test_each_jump_takes_a_few_windows_and_memory_stays_bounded(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        chance = random.Random(7)
        for _ in range(30):
            source.asked.clear()
            rows.cursor_row = chance.randrange(MILLION)
            await idle(pilot)
            assert len(source.asked) <= 4
            assert f"row {rows.cursor_row}" in text(pilot.app)
            assert rows.held <= HELD

    drive(case)


def test_what_was_scrolled_past_meanwhile_is_never_fetched(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        source.gate = threading.Event()
        source.asked.clear()
        for row in range(100_000, 900_000, 100_000):
            rows.cursor_row = row
            await pilot.pause()
        assert len(source.asked) == 1
        source.gate.set()
        await idle(pilot)
        assert {start // 100_000 for start, _ in source.asked} <= {0, 1, 7, 8}
        assert len(source.asked) <= 5
        assert f"row {rows.cursor_row}" in text(pilot.app)

    drive(case)


def test_rows_on_their_way_show_an_ellipsis_and_keys_go_on_working(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        source.gate = threading.Event()
        await pilot.press("G")
        assert all(line.lstrip("▌ ").startswith("…") for line in lines(pilot)[1:])
        await pilot.press("k", "k")
        assert rows.cursor_row == MILLION - 3
        source.gate.set()
        await idle(pilot)
        assert "row 999997" in lines(pilot)[-3]

    drive(case)


def test_keys_move_the_cursor_without_animation(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        pilot.app.animation_level = "full"
        seen = []
        for key in ("j", "down", "k", "pagedown", "pageup", "G", "up", "g", "end", "home"):
            await pilot.press(key)
            assert rows.scroll_target_y == rows.scroll_y
            assert 0 <= rows.cursor_row - rows.scroll_offset.y < 11
            seen.append(rows.cursor_row)
        last = MILLION - 1
        assert seen == [1, 2, 1, 12, 1, last, last - 1, 0, last, 0]

    drive(case)


def test_the_cursor_stays_on_the_rows(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("k", "h")
        assert (rows.cursor_row, rows.cursor_column) == (0, 0)
        await pilot.press("pagedown", "j", "l", "l", "l", "l")
        assert (rows.cursor_row, rows.cursor_column) == (2, 2)

    drive(case, count=3, cursor="cell")


def test_a_cursor_of_one_cell_scrolls_its_column_into_sight(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("l", "l")
        await idle(pilot)
        assert rows.scroll_offset.x > 0
        assert "row 0" in lines(pilot)[1] and "name 0" not in lines(pilot)[1]
        await pilot.press("h", "h")
        await idle(pilot)
        assert rows.scroll_offset.x == 0

    drive(case, size=(24, 8), cursor="cell")


def test_a_cursor_of_one_row_scrolls_sideways(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        for _ in range(10):
            await pilot.press("l")
        assert rows.scroll_offset.x == rows.max_scroll_x > 0
        for _ in range(10):
            await pilot.press("h")
        assert rows.scroll_offset.x == 0

    drive(case, size=(24, 8))


def test_marks_stay_with_their_rows(drive: Any, snapshot: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("j", "space", "space", "j", "space")
        assert rows.marks == {1, 2, 4}
        await pilot.press("k", "space")
        assert rows.marks == {1, 2}
        snapshot(pilot.app)
        rows.unmark()
        assert rows.marks == frozenset()

    drive(case)


def test_enter_and_a_double_click_open(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("j", "enter")
        await pilot.click(rows, offset=(15, 5), times=2)
        assert pilot.app.heard == [("opened", 1, 0), ("opened", 4, 1)]  # type: ignore[attr-defined]

    drive(case)


def test_a_click_puts_the_cursor_on_that_cell(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        rows.cursor_row = 500_000
        await idle(pilot)
        await pilot.click(rows, offset=(30, 3))
        assert (rows.cursor_row, rows.cursor_column) == (500_000 - 8, 2)
        await pilot.click(rows, offset=(30, 0))
        assert rows.cursor_row == 500_000 - 8

    drive(case)


def test_the_wheel_scrolls_and_leaves_the_cursor(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await wheel(pilot, rows, events.MouseScrollDown)
        assert rows.scroll_offset.y > 0 and rows.cursor_row == 0

    drive(case)


async def wheel(pilot: Pilot[Any], rows: VirtualRows, event: type[events.MouseEvent]) -> None:
    await pilot._post_mouse_events([event], rows)  # type: ignore[list-item]
    await idle(pilot)


def test_a_live_list_shows_the_last_rows_and_those_that_come(drive: Any, snapshot: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        assert rows.following and rows.cursor_row == MILLION - 1
        await grow(pilot, source, rows, 5_000)
        assert rows.cursor_row == MILLION + 4_999 and rows.unseen == 0
        snapshot(pilot.app)

    drive(case, live=True)


async def grow(pilot: Pilot[Any], source: Numbers, rows: VirtualRows, more: int) -> None:
    """Add rows and wait until the list shows them."""
    counted = asyncio.Event()
    source.length += more
    timer = rows.set_interval(0.01, lambda: counted.set() if rows.count == source.length else None)
    await asyncio.wait_for(counted.wait(), 30)
    timer.stop()
    await idle(pilot)


def test_a_live_list_never_shows_an_ellipsis_for_what_comes(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        before = text(pilot.app)
        source.gate = threading.Event()
        source.asked.clear()
        source.length += 300
        asked = asyncio.Event()
        timer = rows.set_interval(0.01, lambda: asked.set() if source.asked else None)
        await asyncio.wait_for(asked.wait(), 30)
        timer.stop()
        assert text(pilot.app) == before
        source.gate.set()
        await grow(pilot, source, rows, 0)
        assert "…" not in text(pilot.app) and "row 1000299" in text(pilot.app)

    drive(case, live=True)


def test_only_the_rows_that_came_are_fetched(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        source.asked.clear()
        await grow(pilot, source, rows, 30)
        assert source.asked == [(50, 30)]

    drive(case, live=True, count=50)


@pytest.mark.parametrize("key", ["k", "pageup", "g"])
def test_who_goes_up_follows_no_longer_until_he_goes_to_the_end(drive: Any, key: str) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press(key)
        await idle(pilot)
        before, cursor = lines(pilot), rows.cursor_row
        await grow(pilot, source, rows, 212)
        assert not rows.following and rows.unseen == 212
        assert lines(pilot) == before and rows.cursor_row == cursor
        await pilot.press("G")
        await idle(pilot)
        assert rows.following and rows.unseen == 0 and rows.cursor_row == source.length - 1
        assert f"row {source.length - 1}" in lines(pilot)[-1]

    drive(case, live=True)


def test_the_wheel_ends_following_too(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await wheel(pilot, rows, events.MouseScrollUp)
        assert not rows.following
        await grow(pilot, source, rows, 10)
        assert rows.unseen == 10

    drive(case, live=True)


def test_following_outlives_a_terminal_that_changes_its_size(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        for size in ((60, 30), (80, 6), (60, 20)):
            await pilot.resize_terminal(*size)
            await idle(pilot)
            assert rows.following and "row 999999" in lines(pilot)[-1]

    drive(case, live=True)


def test_reloaded_rows_replace_those_shown_when_they_are_there(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        source.gate, source.word = threading.Event(), "new"
        rows.reload()
        await pilot.pause()
        assert "row 3" in text(pilot.app)
        source.gate.set()
        await idle(pilot)
        assert "row 3" not in text(pilot.app) and "new 3" in text(pilot.app)

    drive(case)


def test_a_list_that_becomes_shorter_keeps_the_cursor_on_a_row(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("G")
        source.length = 5
        rows.reload()
        await idle(pilot)
        assert rows.cursor_row == 4 and rows.scroll_offset.y == 0
        assert [line.split()[-1] for line in lines(pilot)[1:6]] == ["0", "1", "2", "3", "4"]

    drive(case)


def test_rows_that_can_not_be_had_are_told_once_and_tried_again(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        source.broken = "the service does not answer"
        await pilot.press("G")
        await idle(pilot)
        heard = pilot.app.heard  # type: ignore[attr-defined]
        assert set(heard) == {("failed", "the service does not answer")} and len(heard) <= 2
        source.broken = ""
        rows.reload()
        await idle(pilot)
        assert "row 999999" in text(pilot.app)

    drive(case)


def test_a_source_with_fewer_rows_than_it_said_is_not_asked_for_ever(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        source.asked.clear()
        source.length = 10
        await pilot.press("G")
        await idle(pilot)
        assert len(source.asked) <= 3

    drive(case)


def test_an_empty_list_says_what_to_do(drive: Any, snapshot: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("j", "G", "enter", "space", "l")
        assert source.asked == [] and rows.cursor_row == 0
        snapshot(pilot.app)

    drive(case, count=0, empty="No rows yet: a adds one.")


def test_other_rows_are_shown_from_the_first_on(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("G", "space")
        other = Numbers(3)
        other.word = "other"
        rows.show(other, (Column("#", 4), *COLUMNS[1:]))
        await idle(pilot)
        assert (rows.cursor_row, rows.count, rows.marks) == (0, 3, frozenset())
        assert "other 0" in lines(pilot)[1] and lines(pilot)[0].split()[0] == "#"

    drive(case)
