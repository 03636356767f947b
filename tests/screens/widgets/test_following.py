import asyncio
import threading
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from screens.widgets.virtual_list import VirtualRows
from tests.screens.widgets.virtual_lists import MILLION, Numbers, grow, lines, wheel
from tests.support.screens import idle, text


def test_live_list_shows_last_and_new_rows(drive: Any, snapshot: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        assert rows.following and rows.cursor_row == MILLION - 1
        await grow(pilot, source, rows, 5_000)
        assert rows.cursor_row == MILLION + 4_999 and rows.unseen == 0
        snapshot(pilot.app)

    drive(case, live=True)


def test_live_list_shows_no_placeholder_for_new_rows(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        before = text(pilot.app)
        source.gate = threading.Event()
        source.fetched.clear()
        source.length += 300
        fetched = asyncio.Event()
        timer = rows.set_interval(0.01, lambda: fetched.set() if source.fetched else None)
        await asyncio.wait_for(fetched.wait(), 60)
        timer.stop()
        assert text(pilot.app) == before
        source.gate.set()
        await grow(pilot, source, rows, 0)
        assert "…" not in text(pilot.app) and "row 1000299" in text(pilot.app)

    drive(case, live=True)


def test_live_list_fetches_only_new_rows(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        source.fetched.clear()
        await grow(pilot, source, rows, 30)
        assert source.fetched == [(50, 30)]

    drive(case, live=True, count=50)


@pytest.mark.parametrize("key", ["k", "pageup", "g"])
def test_moving_up_stops_following_until_end(drive: Any, key: str) -> None:
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


@pytest.mark.parametrize("up", [0, 30, 700])
@pytest.mark.parametrize("before", [123, 40_000, -100])
def test_shift_rows_preserves_visible_rows(drive: Any, before: int, up: int) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        rows.action_move(-up)
        await idle(pilot)
        visible, cursor, following = lines(pilot), rows.cursor_row, rows.following
        source.before += before
        source.length += before
        rows.shift_rows(before)
        await idle(pilot)
        assert lines(pilot) == visible
        assert (rows.cursor_row, rows.following, rows.unseen) == (cursor + before, following, 0)

    drive(case, live=True, count=1000)


def test_wheel_stops_following(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await wheel(pilot, rows, events.MouseScrollUp)
        assert not rows.following
        await grow(pilot, source, rows, 10)
        assert rows.unseen == 10

    drive(case, live=True)


def test_following_survives_resize(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        for size in ((60, 30), (80, 6), (60, 20)):
            await pilot.resize_terminal(*size)
            await idle(pilot)
            assert rows.following and "row 999999" in lines(pilot)[-1]

    drive(case, live=True)


def test_new_source_of_live_list_is_followed(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("g")
        other = Numbers(5_000)
        other.word = "other"
        rows.set_source(other)
        await idle(pilot)
        assert rows.following and rows.unseen == 0 and "other 4999" in lines(pilot)[-1]
        await grow(pilot, other, rows, 300)
        assert "other 5299" in lines(pilot)[-1]

    drive(case, live=True)


def test_empty_live_list_follows_first_row(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await grow(pilot, source, rows, 3)
        assert (rows.cursor_row, rows.following) == (2, True) and "row 2" in lines(pilot)[3]

    drive(case, live=True, count=0)


def test_empty_live_list_stays_at_first_row_after_top_key(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("g")
        await grow(pilot, source, rows, 300)
        assert (rows.cursor_row, rows.following, rows.unseen) == (0, False, 300)
        assert "row 0" in lines(pilot)[1]

    drive(case, live=True, count=0)


def test_failed_fetch_does_not_stop_live_list(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        source.broken = "the service does not answer"
        await grow(pilot, source, rows, 300)
        assert pilot.app.messages  # type: ignore[attr-defined]
        source.broken = ""
        await grow(pilot, source, rows, 1)
        assert "row 1000300" in lines(pilot)[-1]

    drive(case, live=True)
