"""The forms that create and alter tables."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from textual.app import App

from screens.tables.schema_forms import AlterForm
from tests.screens.tables.conftest import Shop, tables

Snapshot = Callable[[App[Any]], None]


@pytest.mark.slow
@pytest.mark.anyio
async def test_create_form_creates_table(shop: Shop, snapshot: Snapshot) -> None:
    async with tables(shop) as shown:
        await shown.press("T")
        await shown.write("pets")
        await shown.type("name txt")
        await shown.shows("type txt does not exist", "Did you mean text?")
        await shown.press("backspace", "backspace", "backspace")
        await shown.type("text not null\nborn date default now()")
        await shown.shows("born  date      default now()")
        snapshot(shown.app)
        await shown.press("ctrl+s")
        await shown.shows("pets ▾", "no rows yet")
        await shown.press("a")
        await shown.shows("next", "required", "now()")


@pytest.mark.slow
@pytest.mark.anyio
async def test_refused_create_leaves_form_open(people: Shop) -> None:
    async with tables(people) as shown:
        await shown.press("T")
        await shown.write("people")
        await shown.press("ctrl+s")
        await shown.shows("people", "already")
        await shown.press("escape")
        await shown.shows("3 rows")


@pytest.mark.slow
@pytest.mark.anyio
async def test_alter_form_applies_all_changes_and_keeps_staged_edits(
    people: Shop, snapshot: Snapshot
) -> None:
    async with tables(people) as shown:
        await shown.press("l", "e")
        await shown.write("Anna")
        await shown.press("A")
        await shown.type("add city text default Brno\ndrop mail\ncreate index on age\nrename to humans")
        await shown.shows("add city text default 'Brno'", "deletes its values")
        snapshot(shown.app)
        await shown.press("ctrl+s")
        await shown.shows("humans ▾", "city", "Brno", "Anna", "1 row changed")
        await shown.hides("mail")
        result = await asyncio.to_thread(people.call, "GET", "/tables")
        assert [each["columns"] for each in result["tables"][0]["indexes"]] == [["age"]]


@pytest.mark.slow
@pytest.mark.anyio
async def test_drop_table_requires_full_name(people: Shop) -> None:
    async with tables(people) as shown:
        await shown.press("A")
        await shown.type("drop table peopl")
        await shown.press("ctrl+s")
        assert isinstance(shown.app.screen, AlterForm)
        await shown.type("e")
        await shown.shows("drop table people   deletes its values")
        await shown.press("ctrl+s")
        await shown.shows("no tables yet")


@pytest.mark.slow
@pytest.mark.anyio
async def test_drop_table_discards_staged_edits(people: Shop) -> None:
    async with tables(people) as shown:
        await shown.press("l", "e")
        await shown.write("Anna")
        await shown.press("A")
        await shown.type("drop table people")
        await shown.press("ctrl+s")
        await shown.shows("no tables yet")
        assert shown.screen.pending == 0


@pytest.mark.slow
@pytest.mark.anyio
async def test_error_in_long_form_is_visible(shop: Shop) -> None:
    async with tables(shop, (60, 20)) as shown:
        await shown.press("T")
        await shown.write("people")
        await shown.type("\n".join(f"c{number} text" for number in range(40)) + "\nid text")
        await shown.press("ctrl+s")
        await shown.shows("two columns named id", "case-insensitive")
        await shown.type("\nx")
        await shown.press("ctrl+s")
        await shown.shows("column x has no type", "NAME TYPE [primary key]")
        assert shown.text.count("column x has no type") == 1


@pytest.mark.slow
@pytest.mark.anyio
async def test_alter_form_input_is_visible_with_200_columns(shop: Shop) -> None:
    shop.sql(f"create table wide ({', '.join(f'c{number} text' for number in range(200))})")
    async with tables(shop) as shown:
        await shown.shows("read-only")
        await shown.press("a")
        assert "Press A to add one" in shown.notifications
        await shown.press("A")
        await shown.shows("Alter wide", "c0")
        await shown.type("add id integer primary key")
        await shown.shows("add id integer primary key")
        await shown.press("ctrl+s")
        await shown.hides("read-only")
        await shown.press("a")
        await shown.until(lambda: shown.screen.pending == 1)
