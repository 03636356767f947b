"""The history of a cell, the table at earlier moments, and reverts after a preview."""

import asyncio
from typing import Any

import pytest

from doors.tables.replication.journal import begin_again
from doors.tables.sqlite.connections import DATABASE_NAME
from screens.tables.dialogs import RevertConflicts, RevertPreview
from tests.screens.tables.tables_tab import Shop, tables

pytestmark = [pytest.mark.slow, pytest.mark.anyio]
SIZES = [(60, 20), (80, 24), (120, 40)]


async def sql(shop: Shop, text: str) -> list[dict[str, Any]]:
    return await asyncio.to_thread(shop.sql, text)


@pytest.mark.parametrize("size", SIZES)
async def test_history_of_a_cell_leads_to_a_revert_after_a_preview(
    people: Shop, size: tuple[int, int]
) -> None:
    people.sql("update people set age = 41 where id = 1")
    people.sql("update people set age = 42 where id < 3")
    async with tables(people, size) as ui:
        await ui.press("l", "l", "b")
        await ui.shows("what wrote age?", "age 41 → 42" if size[0] > 60 else "41 →")
        await ui.press("enter")
        await ui.until(lambda: isinstance(ui.app.screen, RevertPreview))
        await ui.shows("A revert changes 2 rows", "update people 1", "age 42 → 41", "z revert")
        await ui.press("z")
        await ui.until(lambda: "2 rows reverted" in ui.notifications)
        assert (await sql(people, "select age from people where id = 1")) == [{"age": 41}]
        await ui.shows("41")


async def test_last_write_of_a_row_is_reverted_with_conflicts_shown(people: Shop) -> None:
    people.sql("update people set age = 40")
    people.sql("update people set age = 99 where id = 2")
    async with tables(people) as ui:
        await ui.press("z")
        await ui.until(lambda: isinstance(ui.app.screen, RevertConflicts))
        await ui.shows("A revert changes 2 rows", "changed since, now age 99", "z revert the rest")
        await ui.press("escape")
        assert (await sql(people, "select age from people where id = 2")) == [{"age": 99}]
        await ui.press("z", "z")
        await ui.until(lambda: "2 rows reverted" in ui.notifications)
        assert (await sql(people, "select age from people where id = 2")) == [{"age": 99}]


@pytest.mark.parametrize("size", SIZES)
async def test_steps_show_the_table_as_it_was_read_only(people: Shop, size: tuple[int, int]) -> None:
    people.sql("delete from people where id = 3")
    async with tables(people, size) as ui:
        await ui.shows("2 rows")
        await ui.press("less_than_sign")
        await ui.shows("3 rows", "as of 20", "Cleo")
        assert "esc Now" in ui.foot and not any(key in ui.foot for key in ("e Edit", "a Add", "d Delete"))
        await ui.press("enter")
        assert "is shown as it was, and cannot be changed" in ui.notifications
        await ui.press("l", "s")
        await ui.shows("sorted by", "3 rows")
        await ui.press("greater_than_sign")
        await ui.shows("2 rows", "as of 20")
        await ui.press("greater_than_sign")
        await ui.hides("as of 20")
        await ui.press("greater_than_sign")
        assert "the table is shown as it is now" in ui.notifications
        await ui.press("less_than_sign")
        await ui.shows("3 rows", "as of 20")
        await ui.press("escape")
        await ui.hides("as of 20")
        assert "esc Now" not in ui.foot and "e Edit" in ui.foot
        ui.screen.action_at(["2020-01-01", "10:00"])
        await ui.until(lambda: "the history of people begins at 20" in ui.notifications + ui.text)
        ui.screen.action_at(["nonsense"])
        await ui.until(lambda: "nonsense is not a time" in ui.notifications + ui.text)


@pytest.mark.parametrize("size", SIZES)
async def test_preview_has_all_changed_cells_of_rows_in_the_order_of_keys(
    people: Shop, size: tuple[int, int]
) -> None:
    for id in range(4, 12):
        people.sql(f"insert into people (id, name) values ({id}, 'Person {id}')")
    people.sql("delete from people where id < 4")
    people.sql(
        "update people set name = 'a name of many words ' || id, age = id, mail = id || '@somewhere.org'"
    )
    async with tables(people, size) as ui:
        await ui.press("z")
        await ui.shows("A revert changes 8 rows", "update people 4", '@somewhere.org" → null', "esc back")
        places = [ui.text.find(f"update people {id}") for id in (4, 5)]
        assert places == sorted(places) and -1 not in places


async def test_row_of_another_journal_has_no_known_writes(people: Shop) -> None:
    begin_again(people.folder / "tables" / DATABASE_NAME)
    async with tables(people) as ui:
        await ui.press("z")
        await ui.until(lambda: "what wrote it is not known: the history begins with" in ui.notifications)
        people.sql("update people set name = 'Zoe' where id = 1")
        await ui.press("j", "b")
        await ui.until(lambda: "what wrote it is not known: the history begins at 20" in ui.notifications)


async def test_preview_leads_to_the_table_before_it(people: Shop) -> None:
    people.sql("update people set name = 'Zoe' where id = 1")
    async with tables(people) as ui:
        await ui.shows("Zoe")
        await ui.press("z")
        await ui.until(lambda: isinstance(ui.app.screen, RevertPreview))
        await ui.press("less_than_sign")
        await ui.shows("as of 20", "Ann")
        ui.screen.action_at(["now"])
        await ui.shows("Zoe")
