"""Tables that are made and changed in words."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from textual.app import App

from screens.tables.columns_text import columns, spoken
from screens.tables.schema_commands import changes, loses, said
from screens.tables.schema_forms import AlterForm
from svc_tui.client import SvcError
from tests.screens.tables.conftest import Shop, tables

Snapshot = Callable[[App[Any]], None]
PEOPLE = {
    "name": "people",
    "columns": [{"name": name, "type": type} for name, type in (("id", "integer"), ("first name", "text"))],
}


def test_lines_are_columns() -> None:
    assert columns(
        "id integer key\n\n"
        '"first name" text needed unique\n'
        "at timestamp needed default now()\n"
        "mood text default 'it''s fine' note how it felt\n"
        'size real default 1.5 note "quoted"\n'
        "city TEXT default Brno"
    ) == [
        {"name": "id", "type": "integer", "primary_key": True},
        {"name": "first name", "type": "text", "nullable": False, "unique": True},
        {"name": "at", "type": "timestamp", "nullable": False, "default": "now()"},
        {"name": "mood", "type": "text", "default": "'it''s fine'", "note": "how it felt"},
        {"name": "size", "type": "real", "default": "1.5", "note": "quoted"},
        {"name": "city", "type": "text", "default": "'Brno'"},
    ]


def test_commas_and_the_words_of_sql_are_understood() -> None:
    assert columns("id integer, primary key, note a, b\nname text not null, unique\nx text default 'a,'") == [
        {"name": "id", "type": "integer", "primary_key": True, "note": "a, b"},
        {"name": "name", "type": "text", "nullable": False, "unique": True},
        {"name": "x", "type": "text", "default": "'a,'"},
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the columns are missing"),
        ("id integer\nname", "line 2: which type has name"),
        ("name txt", "no type txt"),
        ("name text nedeed", "name can not be nedeed"),
        ("name text default", "name can not be default"),
    ],
)
def test_a_line_that_is_no_column_is_told(text: str, said: str) -> None:
    with pytest.raises(SvcError) as told:
        columns(text)
    assert said in told.value.message


@pytest.mark.parametrize(
    ("line", "change", "words"),
    [
        ("add x real", {"op": "add-column", "column": {"name": "x", "type": "real"}}, "add column x real"),
        ('rename "first name" name', {"op": "rename-column", "column": "first name", "name": "name"}, "name"),
        ("type id text", {"op": "retype-column", "column": "id", "type": "text"}, "retype column id text"),
        ("drop id", {"op": "drop-column", "column": "id"}, "drop column id"),
        ('default "first name" x', {"op": "set-default", "column": "first name", "default": "'x'"}, "'x'"),
        ("no default id", {"op": "set-default", "column": "id", "default": None}, "none"),
        ("needed id", {"op": "set-nullable", "column": "id", "nullable": False}, "id needs a value"),
        ("optional id", {"op": "set-nullable", "column": "id", "nullable": True}, "id may be null"),
        ("unique id", {"op": "set-unique", "column": "id", "unique": True}, "id is unique"),
        ("not unique id", {"op": "set-unique", "column": "id", "unique": False}, "id is not unique"),
        ("key id", {"op": "set-primary-key", "columns": ["id"]}, "key: id"),
        ("no key", {"op": "set-primary-key", "columns": []}, "key: none"),
        ("note id its number", {"op": "set-note", "column": "id", "note": "its number"}, "its number"),
        ("note table all of us", {"op": "set-note", "column": "", "note": "all of us"}, "on the table"),
        ("index id", {"op": "create-index", "columns": ["id"], "unique": False}, "create index on id"),
        ("unique index id", {"op": "create-index", "columns": ["id"], "unique": True}, "create unique index"),
        ("call it humans", {"op": "rename-table", "name": "humans"}, "rename table people humans"),
    ],
)
def test_a_line_is_a_change(line: str, change: dict[str, Any], words: str) -> None:
    (made,) = changes(PEOPLE, line)
    assert made == {"table": "people", **change}
    assert words in said(made)


def test_what_loses_something_is_known_and_later_lines_see_what_earlier_ones_change() -> None:
    made = changes(
        PEOPLE, "call it us\ndrop id\ndrop index i\nrename 'first name' x".replace("'", '"') + "\nneeded x"
    )
    assert [each["op"] for each in made] == [
        "drop-column",
        "drop-index",
        "rename-column",
        "set-nullable",
        "rename-table",
    ]
    assert [loses(each) for each in made] == [True, False, False, False, False]
    assert changes(PEOPLE, "drop table people") == [{"op": "drop-table", "table": "people"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the changes are missing"),
        ("drop table peple", "the table is called people"),
        ("drop table first name", "this is no change"),
        ("drop ide", "there is no column ide"),
        ("drop id\nneeded id", "line 2: there is no column id"),
        ("explode", "this is no change"),
    ],
)
def test_a_line_that_is_no_change_is_told(text: str, said: str) -> None:
    with pytest.raises(SvcError) as told:
        changes(PEOPLE, text)
    assert said in told.value.message


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_table_is_made_of_words(shop: Shop, snapshot: Snapshot) -> None:
    async with tables(shop) as shown:
        await shown.press("T")
        await shown.write("pets")
        await shown.type("name txt")
        await shown.shows("there is no type txt", "Did you mean text?")
        await shown.press("backspace", "backspace", "backspace")
        await shown.type("text needed\nborn timestamp default now()")
        await shown.shows("born  timestamp default now()")
        snapshot(shown.app)
        await shown.press("ctrl+s")
        await shown.shows("pets ▾", "no rows yet")
        await shown.press("a")
        await shown.shows("next", "needed", "now()")


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_table_that_can_not_be_made_leaves_the_form(people: Shop) -> None:
    async with tables(people) as shown:
        await shown.press("T")
        await shown.write("people")
        await shown.press("ctrl+s")
        await shown.shows("people", "already")
        await shown.press("escape")
        await shown.shows("3 rows")


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_table_is_changed_all_at_once_and_what_waits_stays(people: Shop, snapshot: Snapshot) -> None:
    async with tables(people) as shown:
        await shown.press("l", "e")
        await shown.write("Anna")
        await shown.press("A")
        await shown.type("add city text default Brno\ndrop mail\nindex age\ncall it humans")
        await shown.shows("add column city text", "what it has is lost")
        snapshot(shown.app)
        await shown.press("ctrl+s")
        await shown.shows("humans ▾", "city", "Brno", "Anna", "1 row changed")
        await shown.hides("mail")
        found = await asyncio.to_thread(people.call, "GET", "/tables")
        assert [each["columns"] for each in found["tables"][0]["indexes"]] == [["age"]]


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_table_is_dropped_by_its_whole_name(people: Shop) -> None:
    async with tables(people) as shown:
        await shown.press("A")
        await shown.type("drop table peopl")
        await shown.press("ctrl+s")
        assert isinstance(shown.app.screen, AlterForm)
        await shown.type("e")
        await shown.shows("drop table people   what it has is lost")
        await shown.press("ctrl+s")
        await shown.shows("there are no tables yet")


@pytest.mark.slow
@pytest.mark.anyio
async def test_what_waited_for_a_table_goes_with_it(people: Shop) -> None:
    async with tables(people) as shown:
        await shown.press("l", "e")
        await shown.write("Anna")
        await shown.press("A")
        await shown.type("drop table people")
        await shown.press("ctrl+s")
        await shown.shows("there are no tables yet")
        assert shown.screen.pending == 0


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_name_of_several_words_is_dropped_as_the_hint_says(shop: Shop) -> None:
    name = """all "our" x's"""
    assert changes({"name": name, "columns": []}, f"drop table {spoken(name)}") == [
        {"op": "drop-table", "table": name}
    ]
    with pytest.raises(SvcError) as told:
        changes({"name": name, "columns": []}, "drop table all")
    assert told.value.hint == """`drop table "all ""our"" x's"` drops it."""


@pytest.mark.slow
@pytest.mark.anyio
async def test_what_is_wrong_is_seen_however_long_the_form_is(shop: Shop) -> None:
    async with tables(shop, (60, 20)) as shown:
        await shown.press("T")
        await shown.write("people")
        await shown.type("\n".join(f"c{number} text" for number in range(40)) + "\nid text")
        await shown.press("ctrl+s")
        await shown.shows("two columns named id", "Capitals do not tell")
        await shown.type("\nx")
        await shown.press("ctrl+s")
        await shown.shows("which type has x", "NAME TYPE, then any of")
        assert shown.text.count("which type has x") == 1


@pytest.mark.slow
@pytest.mark.anyio
async def test_one_writes_in_sight_however_many_columns_there_are(shop: Shop) -> None:
    shop.sql(f"create table wide ({', '.join(f'c{number} text' for number in range(200))})")
    async with tables(shop) as shown:
        await shown.shows("read-only")
        await shown.press("a")
        assert "A gives it one" in shown.told
        await shown.press("A")
        await shown.shows("Change wide", "c0")
        await shown.type("add id integer key")
        await shown.shows("add column id integer")
        await shown.press("ctrl+s")
        await shown.hides("read-only")
        await shown.press("a")
        await shown.until(lambda: shown.screen.pending == 1)
