"""The grid of a table, with concurrent changes."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from textual.app import App

from tests.screens.tables.conftest import Shop, tables

pytestmark = [pytest.mark.slow, pytest.mark.anyio]
Snapshot = Callable[[App[Any]], None]


async def test_grid_in_small_terminal(people: Shop, snapshot: Snapshot) -> None:
    async with tables(people, (60, 20)) as shown:
        snapshot(shown.app)


async def test_grid_in_wide_terminal_sorts_and_filters(people: Shop, snapshot: Snapshot) -> None:
    async with tables(people, (100, 24)) as shown:
        await shown.press("l", "l", "s", "s", "slash")
        await shown.write("age>30")
        await shown.shows("sorted by age ↓", "2 rows", "age>30 ×")
        await shown.hides("Bob")
        snapshot(shown.app)
        await shown.press("backspace")
        await shown.shows("Bob")


async def test_invalid_filter_shows_error_and_stays_editable(people: Shop) -> None:
    async with tables(people) as shown:
        await shown.press("slash")
        await shown.write("agee>3")
        await shown.shows("unknown column: agee", "agee>3")
        await shown.write("name='")
        await shown.shows("unclosed quote", "name='")
        await shown.write("age>=40")
        await shown.shows("1 row ", "age>=40 ×")
        assert not shown.screen.query_one("#line").display
        assert not shown.notifications


async def test_filter_without_matches_shows_hint(people: Shop) -> None:
    async with tables(people) as shown:
        shown.screen.navigate(["people", "name~stranger"])
        await shown.shows("no rows match the filter")
        await shown.press("backspace")
        await shown.shows("Ann")


async def test_column_name_with_spaces_can_be_filtered(shop: Shop) -> None:
    shop.sql("""create table "my 'own'" (id integer primary key, "first name" text)""")
    shop.sql("""insert into "my 'own'" ("first name") values ('Ann Lee'), ('Bob')""")
    async with tables(shop) as shown:
        shown.screen.navigate(["my 'own'", "first name~n L"])
        await shown.shows("1 row ", "Ann Lee")


async def test_rows_written_over_api_appear_and_are_marked(people: Shop) -> None:
    async with tables(people) as shown:
        await asyncio.to_thread(people.sql, "insert into people (name) values ('Newcomer')")
        await shown.shows("Newcomer", "4 rows")
        await asyncio.to_thread(people.sql, "update people set name = 'Robert' where id = 2")
        await shown.shows("⟳", "Robert")
        await shown.press("ctrl+r")
        await shown.hides("⟳")


async def test_column_picker_finds_column_by_name(shop: Shop, snapshot: Snapshot) -> None:
    names = [f"{word}_{number}" for number in range(40) for word in ("height", "width", "at", "note", "grow")]
    shop.sql(f"create table wide (id integer primary key, {', '.join(f'{each} text' for each in names)})")
    shop.sql("insert into wide (at_33, grow_39) values ('here', 'last')")
    async with tables(shop) as shown:
        await shown.press("c")
        await shown.shows("which column?", "height_0")
        await shown.type("at_33")
        snapshot(shown.app)
        await shown.press("enter")
        await shown.shows("at_33", "here")
        assert shown.screen.rows.cursor_column == 1 + 1 + names.index("at_33")
        await shown.press("c")
        await shown.type("grow_3")
        await shown.press("down", "enter")
        await shown.shows("grow_30")
        await shown.press("c", "escape")
        await shown.shows("grow_30")


async def test_column_picker_unhides_column(people: Shop) -> None:
    async with tables(people) as shown:
        await shown.press("C", "j", "j", "enter", "escape")
        await shown.hides("age")
        await shown.press("c")
        await shown.shows("hidden")
        await shown.type("AG")
        await shown.press("enter")
        await shown.shows("age", "41")
        assert shown.screen.rows.cursor_column == 3


async def test_cursor_stays_on_row_after_insert_before_it(people: Shop) -> None:
    async with tables(people) as shown:
        await shown.press("l", "s", "j")
        assert shown.screen.rows.cursor_row == 1
        await asyncio.to_thread(people.sql, "insert into people (name) values ('Aaron')")
        await shown.shows("Aaron")
        assert shown.screen.rows.cursor_row == 2


async def test_no_tables_shows_hint(shop: Shop, snapshot: Snapshot) -> None:
    async with tables(shop) as shown:
        await shown.shows("no tables yet")
        snapshot(shown.app)


async def test_dropped_table_keeps_staged_edits(people: Shop) -> None:
    async with tables(people) as shown:
        await shown.press("l", "e")
        await shown.write("Anna")
        await asyncio.to_thread(people.sql, "drop table people")
        await shown.until(lambda: bool(shown.screen.banner))
        assert shown.screen.pending == 1
        await shown.press("ctrl+s")
        assert shown.screen.pending == 1
        await asyncio.to_thread(people.sql, "create table people (id integer primary key, name text)")
        await asyncio.to_thread(people.sql, "insert into people (name) values ('Ann')")
        await shown.press("ctrl+r")
        await shown.shows("Anna", "• ")
        await shown.press("ctrl+s")
        await shown.until(lambda: shown.screen.pending == 0)


async def test_altered_table_is_reopened(people: Shop) -> None:
    async with tables(people) as shown:
        await shown.press("l", "e")
        await shown.write("Anna")
        await asyncio.to_thread(people.sql, "alter table people add column city text")
        await shown.shows("city", "Anna", "1 row changed")


async def test_staged_edits_survive_engine_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    shop = Shop(tmp_path_factory.mktemp("project") / ".svc")
    async with asyncio.timeout(60):
        first = shop.serving()
        await asyncio.to_thread(first.__enter__)
        await asyncio.to_thread(shop.sql, "create table people (id integer primary key, name text)")
        await asyncio.to_thread(shop.sql, "insert into people (name) values ('Ann')")
        async with tables(shop) as shown:
            await shown.press("l", "e")
            await shown.write("Anna")
            await asyncio.to_thread(first.__exit__, None, None, None)
            await shown.press("ctrl+s")
            assert shown.screen.pending == 1
            second = shop.serving()
            await asyncio.to_thread(second.__enter__)
            await asyncio.to_thread(shown.screen.client.reconnect)
            shown.screen.link_changed()
            await shown.shows("Anna", "● live")
            await shown.press("ctrl+s")
            await shown.until(lambda: shown.screen.pending == 0)
            assert await asyncio.to_thread(shop.sql, "select name from people") == [{"name": "Anna"}]
        await asyncio.to_thread(second.__exit__, None, None, None)


async def test_texts_in_any_script_align_in_columns(shop: Shop, snapshot: Snapshot) -> None:
    shop.sql("create table texts (id integer primary key, text text, tail text)")
    for text in ("寿司 🍣", "Zoe\u0308 e\u0301", "עברית שלום", "a\tb\nc\u202ed", "👨‍👩‍👧 family"):
        shop.sql("insert into texts (text, tail) values ($1, 'tail')", text)
    async with tables(shop) as shown:
        await shown.shows("寿司")
        snapshot(shown.app)
