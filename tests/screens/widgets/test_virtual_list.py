import random
import threading
from typing import Any

from textual.pilot import Pilot

from screens.widgets.columns import Column
from screens.widgets.row_cache import CHUNK_ROWS, MAX_CHUNKS, PREFETCH_CHUNKS
from screens.widgets.virtual_rows import VirtualRows
from tests.screens.conftest import idle, text
from tests.screens.widgets.conftest import COLUMNS, MILLION, Numbers, lines


def test_the_first_screen_of_a_million_rows_takes_two_windows(drive: Any, snapshot: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        assert source.asked == [(0, CHUNK_ROWS), (CHUNK_ROWS, PREFETCH_CHUNKS * CHUNK_ROWS)]
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
            assert rows.cached_chunks <= MAX_CHUNKS

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
        rows.set_source(other, (Column("#", 4), *COLUMNS[1:]))
        await idle(pilot)
        assert (rows.cursor_row, rows.count, rows.marks) == (0, 3, frozenset())
        assert "other 0" in lines(pilot)[1] and lines(pilot)[0].split()[0] == "#"

    drive(case)
