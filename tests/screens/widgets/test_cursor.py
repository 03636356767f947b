import random
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from screens.widgets.virtual_list import GUTTER, VirtualRows
from tests.screens.widgets.virtual_lists import MILLION, Numbers, grow, lines, wheel
from tests.support.screens import idle


def test_keys_move_cursor_without_animation(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        pilot.app.animation_level = "full"
        observed = []
        for key in ("j", "down", "k", "pagedown", "pageup", "G", "up", "g", "end", "home"):
            await pilot.press(key)
            assert rows.scroll_target_y == rows.scroll_y
            assert 0 <= rows.cursor_row - rows.scroll_offset.y < 11
            observed.append(rows.cursor_row)
        last = MILLION - 1
        assert observed == [1, 2, 1, 12, 1, last, last - 1, 0, last, 0]

    drive(case)


def test_cursor_is_clamped_to_rows(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("k", "h")
        assert (rows.cursor_row, rows.cursor_column) == (0, 0)
        await pilot.press("pagedown", "j", "l", "l", "l", "l")
        assert (rows.cursor_row, rows.cursor_column) == (2, 2)

    drive(case, count=3, cursor="cell")


def test_cell_cursor_scrolls_to_column(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("l", "l")
        await idle(pilot)
        assert rows.scroll_offset.x > 0
        assert "row 0" in lines(pilot)[1] and "name 0" not in lines(pilot)[1]
        await pilot.press("h", "h")
        await idle(pilot)
        assert rows.scroll_offset.x == 0

    drive(case, size=(24, 8), cursor="cell")


def test_row_cursor_scrolls_sideways(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        for _ in range(10):
            await pilot.press("l")
        assert rows.scroll_offset.x == rows.max_scroll_x > 0
        for _ in range(10):
            await pilot.press("h")
        assert rows.scroll_offset.x == 0

    drive(case, size=(24, 8))


def test_marks_follow_row_keys(drive: Any, snapshot: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("j", "space", "space", "j", "space")
        assert rows.marks == {1, 2, 4}
        await pilot.press("k", "space")
        assert rows.marks == {1, 2}
        snapshot(pilot.app)
        rows.unmark()
        assert rows.marks == frozenset()

    drive(case)


def test_enter_and_double_click_open_row(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("j", "enter")
        await pilot.click(rows, offset=(15, 5), times=2)
        assert pilot.app.messages == [("opened", 1, 0), ("opened", 4, 1)]  # type: ignore[attr-defined]

    drive(case)


def test_click_moves_cursor_to_cell(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        rows.cursor_row = 500_000
        await idle(pilot)
        await pilot.click(rows, offset=(30, 3))
        assert (rows.cursor_row, rows.cursor_column) == (500_000 - 8, 2)
        await pilot.click(rows, offset=(30, 0))
        assert rows.cursor_row == 500_000 - 8

    drive(case)


def test_wheel_scrolls_without_cursor(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await wheel(pilot, rows, events.MouseScrollDown)
        assert rows.scroll_offset.y > 0 and rows.cursor_row == 0

    drive(case)


def test_keymap_remaps_by_binding_id(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        pilot.app.set_keymap({"rows.down": "x"})
        await pilot.press("x", "x", "j")
        assert rows.cursor_row == 2

    drive(case)


@pytest.mark.parametrize(("cursor", "lit"), [("row", []), ("cell", [1])])
def test_cursor_row_and_cell_are_highlighted(drive: Any, cursor: str, lit: list[int]) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        await pilot.press("j", "l")
        await idle(pilot)

        def backgrounds(line: int) -> list[Any]:
            cells = (rows.render_line(line).crop(x, x + 1) for x in (GUTTER, GUTTER + 11, GUTTER + 23))
            return [style.bgcolor for cell in cells for _, style, _ in cell if style]

        other, styles = backgrounds(4), backgrounds(2)
        assert len(styles) == 3 and all(one != another for one, another in zip(styles, other, strict=True))
        assert [i for i in range(3) if styles[i] != styles[0]] == lit

    drive(case, cursor=cursor)


@pytest.mark.parametrize("live", [False, True])
def test_any_keys_show_rows_around_cursor(drive: Any, live: bool) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        chance = random.Random(11)
        for step in range(20):
            if live and step % 3 == 0:
                await grow(pilot, source, rows, chance.choice((1, 40, 500)))
            await pilot.press(chance.choice(("j", "k", "G", "g", "pagedown", "pageup", "h", "l", "space")))
            if step % 10 == 5:
                await pilot.resize_terminal(60, chance.choice((3, 12, 30)))
            if step % 10 == 7:
                rows.cursor_row = chance.randrange(source.length)
            await idle(pilot)
            top, page = rows.scroll_offset.y, pilot.app.size.height - 1
            assert top <= rows.cursor_row < top + page
            result = [line.split()[-1] for line in lines(pilot)[1:]]
            assert result == [str(number) for number in range(top, min(top + page, rows.count))]

    drive(case, count=1_000, live=live)


def test_resize_does_not_scroll_back_to_hidden_cursor(drive: Any) -> None:
    async def case(pilot: Pilot[Any], source: Numbers, rows: VirtualRows) -> None:
        rows.scroll_to(y=500, animate=False)
        await pilot.resize_terminal(60, 6)
        await idle(pilot)
        assert rows.scroll_offset.y == 500 and rows.cursor_row == 0

    drive(case)
