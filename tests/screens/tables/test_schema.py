"""The forms that create and alter tables."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from textual.app import App

from screens.tables.forms import AlterForm
from tests.screens.tables.tables_tab import Shop, tables

Snapshot = Callable[[App[Any]], None]


@pytest.mark.slow
@pytest.mark.anyio
async def test_create_form_creates_table(shop: Shop, snapshot: Snapshot) -> None:
    async with tables(shop) as ui:
        await ui.press("T")
        await ui.write("pets")
        await ui.type("name txt")
        await ui.shows("type txt does not exist", "Did you mean text?")
        await ui.press("backspace", "backspace", "backspace")
        await ui.type("text not null\nborn date default now()")
        await ui.shows("born  date      default now()")
        snapshot(ui.app)
        await ui.press("ctrl+s")
        await ui.shows("pets ▾", "no rows yet")
        await ui.press("a")
        await ui.shows("next", "required", "now()")
        await ui.shows("id    next", "name  required", "born  now()")


@pytest.mark.slow
@pytest.mark.anyio
async def test_columns_of_schema_forms_and_names_of_picker_align_in_cells(shop: Shop) -> None:
    shop.sql('create table "名前の表" (id integer primary key, "名前" text, "ひらがな" date)')
    async with tables(shop) as ui:
        await ui.press("A")
        await ui.shows("id        integer", "名前      text", "ひらがな  date")
        await ui.press("escape", "c")
        await ui.shows("id        integer", "名前      text", "ひらがな  date")


@pytest.mark.slow
@pytest.mark.anyio
async def test_refused_create_leaves_form_open(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("T")
        await ui.write("people")
        await ui.press("ctrl+s")
        await ui.shows("people", "already")
        await ui.press("escape")
        await ui.shows("3 rows")


@pytest.mark.slow
@pytest.mark.anyio
async def test_form_is_submitted_once_while_the_answer_is_slow(people: Shop) -> None:
    async with tables(people) as ui:
        call, calls = ui.screen.client.call, list[tuple[str, str]]()

        async def slow_call(method: str, path: str, *body: Any, **options: Any) -> Any:
            if method != "GET":
                calls.append((method, path))
                await asyncio.sleep(0.2)
            return await call(method, path, *body, **options)

        await ui.press("T")
        await ui.write("pets")
        await ui.type("name text")
        await ui.shows("name  text")
        ui.screen.client.call = slow_call  # type: ignore[method-assign]
        await ui.pilot.press("ctrl+s", "ctrl+s")
        await ui.shows("pets ▾", "no rows yet")
        assert calls[0] not in calls[1:]


@pytest.mark.slow
@pytest.mark.anyio
async def test_alter_form_applies_all_changes_and_preserves_staged_edits(
    people: Shop, snapshot: Snapshot
) -> None:
    async with tables(people) as ui:
        await ui.press("l", "e")
        await ui.write("Anna")
        await ui.press("A")
        await ui.type("add city text default Brno\ndrop mail\ncreate index on age\nrename to humans")
        await ui.shows("add city text default 'Brno'", "deletes its values")
        snapshot(ui.app)
        await ui.press("ctrl+s")
        await ui.shows("humans ▾", "city", "Brno", "Anna", "1 row changed")
        await ui.hides("mail")
        result = await asyncio.to_thread(people.call, "GET", "/tables")
        assert [each["columns"] for each in result["tables"][0]["indexes"]] == [["age"]]


@pytest.mark.slow
@pytest.mark.anyio
async def test_drop_table_requires_full_name(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("A")
        await ui.type("drop table peopl")
        await ui.press("ctrl+s")
        assert isinstance(ui.app.screen, AlterForm)
        await ui.type("e")
        await ui.shows("drop table people   deletes its values")
        await ui.press("ctrl+s")
        await ui.shows("no tables yet")


@pytest.mark.slow
@pytest.mark.anyio
async def test_drop_table_discards_staged_edits(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l", "e")
        await ui.write("Anna")
        await ui.press("A")
        await ui.type("drop table people")
        await ui.press("ctrl+s")
        await ui.shows("no tables yet")
        assert ui.screen.pending == 0


@pytest.mark.slow
@pytest.mark.anyio
async def test_error_in_long_form_is_visible(shop: Shop) -> None:
    async with tables(shop, (60, 20)) as ui:
        await ui.press("T")
        await ui.write("people")
        await ui.type("\n".join(f"c{number} text" for number in range(40)) + "\nid text")
        await ui.press("ctrl+s")
        await ui.shows("two columns named id", "case-insensitive")
        await ui.type("\nx")
        await ui.press("ctrl+s")
        await ui.shows("column x has no type", "NAME TYPE [primary key]")
        assert ui.text.count("column x has no type") == 1


@pytest.mark.slow
@pytest.mark.anyio
async def test_alter_form_input_is_visible_with_200_columns(shop: Shop) -> None:
    shop.sql(f"create table wide ({', '.join(f'c{number} text' for number in range(200))})")
    async with tables(shop) as ui:
        await ui.shows("read-only")
        await ui.press("a")
        assert "Press A to add one" in ui.notifications
        await ui.press("A")
        await ui.shows("Alter wide", "c0")
        await ui.type("add id integer primary key")
        await ui.shows("add id integer primary key")
        await ui.press("ctrl+s")
        await ui.hides("read-only")
        await ui.press("a")
        await ui.until(lambda: ui.screen.pending == 1)
