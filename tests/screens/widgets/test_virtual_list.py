import random
import threading
from typing import Any

from textual.pilot import Pilot

from screens.widgets.rows import CHUNK_ROWS, MAX_CHUNKS, PREFETCH_CHUNKS, ListColumn
from screens.widgets.virtual_list import VirtualRows
from tests.screens.widgets.virtual_lists import COLUMNS, MILLION, Numbers, lines
from tests.support.screens import idle, text, until


def test_first_page_of_million_rows_takes_two_fetches(drive: Any, snapshot: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        assert source.fetched == [(0, CHUNK_ROWS), (CHUNK_ROWS, PREFETCH_CHUNKS * CHUNK_ROWS)]
        assert rows.count == MILLION
        snapshot(pilot.app)

    drive(case)


def test_rows_are_fetched_in_worker_thread(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("G")
        await idle(pilot)
        assert source.drawing not in source.fetch_threads

    drive(case)


def test_jumps_take_few_fetches_and_bounded_memory(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        chance = random.Random(7)
        for _ in range(30):
            source.fetched.clear()
            rows.cursor_row = chance.randrange(MILLION)
            await idle(pilot)
            assert len(source.fetched) <= 4
            assert f"row {rows.cursor_row}" in text(pilot.app)
            assert len(rows._cache) <= MAX_CHUNKS

    drive(case)


def test_rows_scrolled_past_are_not_fetched(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        source.gate = threading.Event()
        source.fetched.clear()
        for row in range(100_000, 900_000, 100_000):
            rows.cursor_row = row
            await pilot.pause()
        await until(pilot, lambda: bool(source.fetched))
        assert len(source.fetched) == 1
        source.gate.set()
        await idle(pilot)
        assert {start // 100_000 for start, _ in source.fetched} <= {0, 1, 7, 8}
        assert len(source.fetched) <= 5
        assert f"row {rows.cursor_row}" in text(pilot.app)

    drive(case)


def test_loading_rows_show_placeholder_and_keys_work(drive: Any) -> None:
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


def test_reload_shows_old_rows_until_loaded(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        source.gate, source.word = threading.Event(), "new"
        rows.reload()
        await pilot.pause()
        assert "row 3" in text(pilot.app)
        source.gate.set()
        await idle(pilot)
        assert "row 3" not in text(pilot.app) and "new 3" in text(pilot.app)

    drive(case)


def test_shorter_list_clamps_cursor(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("G")
        source.length = 5
        rows.reload()
        await idle(pilot)
        assert rows.cursor_row == 4 and rows.scroll_offset.y == 0
        assert [line.split()[-1] for line in lines(pilot)[1:6]] == ["0", "1", "2", "3", "4"]

    drive(case)


def test_failed_fetch_is_reported_once_and_retried(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        source.broken = "the service does not answer"
        await pilot.press("G")
        await idle(pilot)
        messages = pilot.app.messages  # type: ignore[attr-defined]
        assert set(messages) == {("failed", "the service does not answer")} and len(messages) <= 2
        source.broken = ""
        rows.reload()
        await idle(pilot)
        assert "row 999999" in text(pilot.app)

    drive(case)


def test_source_with_missing_rows_is_not_fetched_forever(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        source.fetched.clear()
        source.length = 10
        await pilot.press("G")
        await idle(pilot)
        assert len(source.fetched) <= 3

    drive(case)


def test_empty_list_shows_hint(drive: Any, snapshot: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("j", "G", "enter", "space", "l")
        assert source.fetched == [] and rows.cursor_row == 0
        snapshot(pilot.app)

    drive(case, count=0, empty="No rows yet: a adds one.")


def test_new_source_is_shown_from_first_row(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("G", "space")
        other = Numbers(3)
        other.word = "other"
        rows.set_source(other, (ListColumn("#", 4), *COLUMNS[1:]))
        await idle(pilot)
        assert (rows.cursor_row, rows.count, rows.marks) == (0, 3, frozenset())
        assert "other 0" in lines(pilot)[1] and lines(pilot)[0].split()[0] == "#"

    drive(case)


def test_cells_that_are_cut_by_an_edge_are_marked(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        source.word = "日本"
        rows.reload()
        await pilot.press("G")
        for x, expected in (
            (0, "▌   999,999  name 0"),
            (2, "▌ 999,999  name 0"),
            (3, "▌ …9,999  name 0      …"),
            (4, "▌ …,999  name 0       …"),
            (6, "▌ …99  name 0      日 …"),
            (12, "▌ …me 0      日本 9999…"),
            (20, "▌ …  日本 999999"),
            (22, "▌  日本 999999"),
        ):
            rows.scroll_to(x=x, animate=False)
            await idle(pilot)
            assert lines(pilot)[-1] == expected

    drive(case, size=(24, 8), cursor="cell")
