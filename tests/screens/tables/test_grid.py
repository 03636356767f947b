"""The grid of a table, with concurrent changes."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from textual.app import App

from screens.project_client import ProjectClient
from screens.tables.table_view import CellInput
from screens.widgets.rows import Row
from tests.screens.tables.tables_tab import SECONDS, Shop, tables

pytestmark = [pytest.mark.slow, pytest.mark.anyio]
Snapshot = Callable[[App[Any]], None]


async def test_grid_in_small_terminal(people: Shop, snapshot: Snapshot) -> None:
    async with tables(people, (60, 20)) as ui:
        snapshot(ui.app)


async def test_grid_in_wide_terminal_sorts_and_filters(people: Shop, snapshot: Snapshot) -> None:
    async with tables(people, (100, 24)) as ui:
        await ui.press("l", "l", "s", "s", "slash")
        await ui.write("age>30")
        await ui.shows("sorted by age ↓", "2 rows", "age>30 ×")
        await ui.hides("Bob")
        snapshot(ui.app)
        await ui.press("backspace")
        await ui.shows("Bob")


async def test_invalid_filter_shows_error_and_stays_editable(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("slash")
        await ui.write("agee>3")
        await ui.shows("unknown column: agee", "agee>3")
        await ui.write("name='")
        await ui.shows("unclosed quote", "name='")
        await ui.write("age>=40")
        await ui.shows("1 row ", "age>=40 ×")
        assert not ui.screen.query_one("#line").display
        assert not ui.notifications


async def test_filter_with_a_value_of_another_type_names_both(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("slash")
        await ui.write("age>=x")
        assert "age is a whole number, and 'x' is not" in ui.text
        await ui.write("age>=30 mail=null")
        await ui.shows("1 row")


async def test_footer_of_filter_and_cell_shows_only_keys_of_that_line(people: Shop) -> None:
    async with tables(people) as ui:
        assert "Apply" not in ui.foot
        await ui.press("slash")
        assert ui.foot.split() == ["enter", "Accept", "esc", "Back"]
        await ui.press("escape", "l", "e")
        assert "Back" in ui.foot and "Apply" in ui.foot and "Filter" not in ui.foot and "Keys" not in ui.foot
        assert "Default" not in ui.foot
        await ui.press("x", "enter")
        assert "Apply" in ui.foot and "Filter" in ui.foot


async def test_columns_take_free_cells_for_longer_values_further_down(shop: Shop) -> None:
    shop.sql("create table guests (id integer primary key, name text, mail text)")
    shop.sql(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 900)"
        " insert into guests select i, 'G' || i, 'g@x.org' from n"
    )
    shop.sql("insert into guests values (1000, 'Guest of the house number 1000', 'guest1000@example.org')")
    async with tables(shop, (100, 24)) as ui:
        before = ui.screen.rows.column_widths
        await ui.press("G")
        await ui.shows("Guest of the house number 1000", "guest1000@example.org")
        widened = ui.screen.rows.column_widths
        assert widened[2] >= len("Guest of the house number 1000") > before[2]
        await ui.press("g")
        await ui.shows("G1 ")
        assert ui.screen.rows.column_widths == widened


async def test_fields_of_the_row_are_below_a_short_table_only(shop: Shop, snapshot: Snapshot) -> None:
    shop.sql("create table notes (id integer primary key, title text, body text)")
    shop.sql(
        "insert into notes values (1, 'one', 'first line' || char(10) || 'second line'), (2, 'two', null)"
    )
    async with tables(shop) as ui:
        await ui.shows("title  one", "body   first line", "       second line")
        snapshot(ui.app)
        await ui.press("j", "l", "e")
        await ui.write("zwei")
        await ui.shows("title  zwei", "body   null")
        await asyncio.to_thread(
            shop.sql,
            "with recursive n(i) as (select 3 union all select i + 1 from n where i < 40)"
            " insert into notes select i, 'more', null from n",
        )
        await ui.hides("body   null")


async def test_copied_value_is_in_the_notification(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l", "y")
        assert "copied Ann" in ui.notifications


async def test_filter_without_matches_shows_hint(people: Shop) -> None:
    async with tables(people) as ui:
        ui.screen.navigate(["people", "name~stranger"])
        await ui.shows("no rows match the filter")
        await ui.press("backspace")
        await ui.shows("Ann")


async def test_column_name_with_spaces_can_be_filtered(shop: Shop) -> None:
    shop.sql("""create table "my 'own'" (id integer primary key, "first name" text)""")
    shop.sql("""insert into "my 'own'" ("first name") values ('Ann Lee'), ('Bob')""")
    async with tables(shop) as ui:
        ui.screen.navigate(["my 'own'", "first name~n L"])
        await ui.shows("1 row ", "Ann Lee")


async def test_rows_written_over_api_appear_and_are_marked(people: Shop) -> None:
    async with tables(people) as ui:
        await asyncio.to_thread(people.sql, "insert into people (name) values ('Newcomer')")
        await ui.shows("Newcomer", "4 rows")
        await asyncio.to_thread(people.sql, "update people set name = 'Robert' where id = 2")
        await ui.shows("⟳", "Robert")
        await ui.press("ctrl+r")
        await ui.hides("⟳")


async def test_key_acts_on_shown_row_while_rows_are_fetched_again(
    people: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tables(people) as ui:
        grid, resumed = ui.screen._current_grid(), threading.Event()
        window = grid.window

        def paused_window(start: int, n: int) -> Sequence[Row]:
            resumed.wait(SECONDS)
            return window(start, n)

        monkeypatch.setattr(grid, "window", paused_window)
        try:
            await asyncio.to_thread(people.sql, "insert into people (name) values ('Newcomer')")
            await ui.shows("4 rows", "Bob")
            await ui.pilot.press("j", "l", "e")
            await ui.until(lambda: bool(ui.screen.query_one(CellInput).display))
            assert ui.screen.query_one(CellInput).value == "Bob"
            assert "Newcomer" not in ui.text
        finally:
            resumed.set()
        await ui.shows("Newcomer")


async def test_keys_before_the_first_table_is_shown_take_effect(
    people: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = threading.Event()
    call_sync = ProjectClient.call_sync

    def delayed(client: ProjectClient, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        if (method, path) == ("POST", "/grid"):
            opened.wait(SECONDS)
        return call_sync(client, method, path, *args, **kwargs)

    monkeypatch.setattr(ProjectClient, "call_sync", delayed)
    async with tables(people, wait=False) as ui:
        await ui.pilot.press("e", "backspace", "7")
        await asyncio.sleep(0)
        assert ui.screen._grid is None
        opened.set()
        await ui.until(lambda: ui.screen.query_one(CellInput).value == "7")
        assert "people" in ui.screen.commands()[0].values


async def test_statistics_of_a_column_filter_by_a_value(people: Shop) -> None:
    people.sql("insert into people (name, age) values ('Dora', 27), ('Eve', 27)")
    async with tables(people) as ui:
        await ui.press("l", "l", "F")
        await ui.shows("5 rows   3 distinct   0 null", "min 27   max 41   avg 31", "60.0%")
        await ui.press("enter")
        await ui.shows("age=27 ×", "Dora")
        await ui.hides("Cleo")


async def test_column_picker_finds_column_by_name(shop: Shop, snapshot: Snapshot) -> None:
    names = [f"{word}_{number}" for number in range(40) for word in ("height", "width", "at", "note", "grow")]
    shop.sql(f"create table wide (id integer primary key, {', '.join(f'{each} text' for each in names)})")
    shop.sql("insert into wide (at_33, grow_39) values ('here', 'last')")
    async with tables(shop) as ui:
        await ui.press("c")
        await ui.shows("which column?", "height_0")
        await ui.type("at_33")
        snapshot(ui.app)
        await ui.press("enter")
        await ui.shows("at_33", "here")
        assert ui.screen.rows.cursor_column == 1 + 1 + names.index("at_33")
        await ui.press("c")
        await ui.type("grow_3")
        await ui.press("down", "enter")
        await ui.shows("grow_30")
        await ui.press("c", "escape")
        await ui.shows("grow_30")


async def test_column_picker_unhides_column(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("C", "j", "j", "enter", "escape")
        await ui.hides("age")
        await ui.press("c")
        await ui.shows("hidden")
        await ui.type("AG")
        await ui.press("enter")
        await ui.shows("age", "41")
        assert ui.screen.rows.cursor_column == 3


async def test_cursor_stays_on_row_after_insert_before_it(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l", "s", "j")
        assert ui.screen.rows.cursor_row == 1
        await asyncio.to_thread(people.sql, "insert into people (name) values ('Aaron')")
        await ui.shows("Aaron")
        assert ui.screen.rows.cursor_row == 2


async def test_no_tables_shows_hint(shop: Shop, snapshot: Snapshot) -> None:
    async with tables(shop) as ui:
        await ui.shows("no tables yet")
        snapshot(ui.app)


async def test_dropped_table_preserves_staged_edits(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l", "e")
        await ui.write("Anna")
        await asyncio.to_thread(people.sql, "drop table people")
        await ui.until(lambda: bool(ui.screen.banner))
        assert ui.screen.pending == 1
        await ui.press("ctrl+s")
        assert ui.screen.pending == 1
        await asyncio.to_thread(people.sql, "create table people (id integer primary key, name text)")
        await asyncio.to_thread(people.sql, "insert into people (name) values ('Ann')")
        await ui.press("ctrl+r")
        await ui.shows("Anna", "• ")
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.screen.pending == 0)


async def test_altered_table_is_reopened(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l", "e")
        await ui.write("Anna")
        await asyncio.to_thread(people.sql, "alter table people add column city text")
        await ui.shows("city", "Anna", "1 row changed")


async def test_staged_edits_survive_engine_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    shop = Shop(tmp_path_factory.mktemp("project") / ".svc")
    async with asyncio.timeout(60):
        first = shop.serving()
        await asyncio.to_thread(first.__enter__)
        await asyncio.to_thread(shop.sql, "create table people (id integer primary key, name text)")
        await asyncio.to_thread(shop.sql, "insert into people (name) values ('Ann')")
        async with tables(shop) as ui:
            await ui.press("l", "e")
            await ui.write("Anna")
            await asyncio.to_thread(first.__exit__, None, None, None)
            await ui.press("ctrl+s")
            assert ui.screen.pending == 1
            second = shop.serving()
            await asyncio.to_thread(second.__enter__)
            await asyncio.to_thread(ui.screen.client.reconnect)
            ui.screen.link_changed()
            await ui.shows("Anna", "● live")
            await ui.press("ctrl+s")
            await ui.until(lambda: ui.screen.pending == 0)
            assert await asyncio.to_thread(shop.sql, "select name from people") == [{"name": "Anna"}]
        await asyncio.to_thread(second.__exit__, None, None, None)


async def test_texts_in_any_script_align_in_columns(shop: Shop, snapshot: Snapshot) -> None:
    shop.sql("create table texts (id integer primary key, text text, tail text)")
    for text in ("寿司 🍣", "Zoe\u0308 e\u0301", "עברית שלום", "a\tb\nc\u202ed", "👨‍👩‍👧 family"):
        shop.sql("insert into texts (text, tail) values ($1, 'tail')", text)
    async with tables(shop) as ui:
        await ui.shows("寿司")
        snapshot(ui.app)
