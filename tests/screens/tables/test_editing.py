"""Staged edits of the grid, conflicts, and their application to the table."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from textual.app import App
from textual.events import DescendantFocus

from screens.tables import table_view
from screens.tables.dialogs import Conflicts, TextScreen
from screens.tables.grid import RowQuery
from tests.screens.tables.tables_tab import Shop, Tables, tables
from tests.support.screens import idle

pytestmark = [pytest.mark.slow, pytest.mark.anyio]
Snapshot = Callable[[App[Any]], None]


async def row(shop: Shop, id: int) -> dict[str, Any] | None:
    result = await asyncio.to_thread(shop.sql, "select * from people where id = $1", id)
    return result[0] if result else None


async def test_edited_cell_is_staged_and_applied_by_ctrl_s(people: Shop, snapshot: Snapshot) -> None:
    async with tables(people) as ui:
        await ui.press("l", "e")
        await ui.write("Anna")
        await ui.shows("• ", "Anna", "1 row changed · ctrl+s applies")
        assert ui.screen.pending == 1
        assert (await row(people, 1) or {})["name"] == "Ann"
        snapshot(ui.app)
        await ui.press("ctrl+s")
        await ui.until(lambda: "1 row changed in people" in ui.notifications)
        assert (await row(people, 1) or {})["name"] == "Anna"
        assert ui.screen.pending == 0


async def test_status_line_in_small_terminal_shows_table_and_cuts_staged_edits(people: Shop) -> None:
    async with tables(people, (40, 10)) as ui:
        await ui.press("l", "e")
        await ui.write("Anna")
        await ui.shows(" people ▾   3 rows  1 row changed · ct…\n")


async def test_late_focus_event_of_the_rows_leaves_the_opened_cell_open(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l")
        ui.screen.action_edit()
        ui.screen.post_message(DescendantFocus(ui.screen.rows))
        await ui.write("Anna")
        await ui.shows("• ", "Anna", "1 row changed · ctrl+s applies")


async def test_staged_inserts_and_deletes_apply_together(people: Shop, snapshot: Snapshot) -> None:
    async with tables(people) as ui:
        await ui.press("d", "j", "d", "u", "a")
        await ui.shows("required")
        await ui.press("e")
        await ui.write("Dora")
        await ui.press("l", "e")
        await ui.write("19")
        await ui.shows("2 rows changed")
        snapshot(ui.app)
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.screen.pending == 0)
        assert await row(people, 1) is None
        assert await row(people, 2) is not None
        assert (await row(people, 4) or {})["name"] == "Dora"
        await ui.shows("Dora")


async def test_visible_row_is_editable_after_loading_6000_rows(people: Shop) -> None:
    people.sql(
        "insert into people (name) with recursive n(i)"
        " as (select 4 union all select i + 1 from n where i < 6000) select 'person ' || i from n"
    )
    async with tables(people) as ui:
        await ui.shows("person 10")
        rows = ui.screen.rows
        for place in range(0, 6000, 50):
            rows.cursor_row = place
            await ui.until(lambda: rows.row(rows.cursor_row) is not None)
        await ui.press("g", "l", "e")
        await ui.write("Anna")
        await ui.shows("1 row changed")


async def test_invalid_value_shows_error_in_input(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l", "l", "e")
        await ui.type("x")
        await ui.shows("this is not a whole number")
        await ui.press("enter")
        assert ui.screen.query_one("#line").display
        await ui.press("escape")
        assert ui.screen.pending == 0


async def test_null_and_default_keys_set_cells(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l", "ctrl+n")
        assert "name needs a value" in ui.notifications
        await ui.press("l", "ctrl+n")
        await ui.shows("1 row changed")
        await ui.press("a", "e")
        await ui.write("Eve")
        await ui.press("l", "e")
        await ui.write("3")
        await ui.press("e", "ctrl+d", "ctrl+s")
        await ui.until(lambda: ui.screen.pending == 0)
        assert (await row(people, 1) or {})["age"] is None
        assert (await row(people, 4) or {}) == {"id": 4, "name": "Eve", "age": None, "mail": None}


async def test_marked_stored_and_new_rows_are_deleted(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("a", "g", "space", "space", "space", "d")
        await ui.shows("2 rows changed")
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.screen.pending == 0)
        assert [each["name"] for each in await asyncio.to_thread(people.sql, "select * from people")] == [
            "Cleo"
        ]


async def test_constraint_violation_moves_cursor_and_preserves_edits(
    people: Shop, snapshot: Snapshot
) -> None:
    async with tables(people) as ui:
        await ui.press("j", "l", "l", "l", "e")
        await ui.write("ann@x.org")
        await ui.press("h", "h", "h", "g", "ctrl+s")
        await ui.shows("nothing was changed: row 2, mail: another row already has")
        assert (ui.screen.rows.cursor_row, ui.screen.rows.cursor_column) == (1, 4)
        assert ui.screen.pending == 1
        snapshot(ui.app)
        await ui.press("u")
        await ui.shows("▌")
        assert ui.screen.pending == 0
        assert "nothing was changed" not in ui.text


async def test_error_of_rejected_edits_stays_until_they_change(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l", "l", "l", "j", "e")
        await ui.write("ann@x.org")
        await ui.press("ctrl+s")
        await ui.shows("nothing was changed: row 2, mail")
        await asyncio.to_thread(people.sql, "update people set age = 42 where id = 1")
        await ui.shows("⟳", "42", "nothing was changed")
        await ui.press("h", "e")
        await ui.write("28")
        await ui.hides("nothing was changed")
        assert ui.screen.pending == 1


async def conflict(ui: Tables, shop: Shop) -> None:
    """Edit two rows, one of which another client changes."""
    await ui.press("l", "e")
    await ui.write("mine")
    await ui.press("j", "e")
    await ui.write("other")
    await asyncio.to_thread(shop.sql, "update people set name = 'theirs' where id = 1")
    await ui.shows("⟳ ")
    await ui.press("ctrl+s")
    await ui.until(lambda: isinstance(ui.app.screen, Conflicts))
    assert all(word in ui.text for word in ("row 1", "was     Ann", "theirs  theirs", "mine    mine"))


async def names(shop: Shop) -> list[Any]:
    return [each["name"] for each in await asyncio.to_thread(shop.sql, "select name from people order by id")]


@pytest.mark.parametrize(
    ("key", "expected", "pending"),
    [
        ("m", ["mine", "other", "Cleo"], 0),
        ("t", ["theirs", "Bob", "Cleo"], 1),
        ("r", ["theirs", "other", "Cleo"], 1),
        ("escape", ["theirs", "Bob", "Cleo"], 2),
    ],
)
async def test_conflict_choice_settles_edits(
    people: Shop, key: str, expected: list[str], pending: int
) -> None:
    async with tables(people) as ui:
        await conflict(ui, people)
        await ui.press(key)
        await ui.until(lambda: ui.screen.pending == pending)
        assert await names(people) == expected


async def test_applied_edit_of_a_row_that_others_changed_removes_its_sign(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l", "e")
        await ui.write("mine")
        await asyncio.to_thread(people.sql, "update people set name = 'theirs' where id = 1")
        await ui.shows("⟳")
        await ui.press("ctrl+s")
        await ui.until(lambda: isinstance(ui.app.screen, Conflicts))
        await ui.press("m")
        await ui.until(lambda: ui.screen.pending == 0)
        await ui.hides("⟳")


async def test_poll_that_sees_an_own_edit_does_not_mark_it(
    people: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tables(people) as ui:
        await ui.press("l", "e")
        await ui.write("mine")
        call, polled, applied = ui.screen.client.call, asyncio.Event(), asyncio.Event()

        async def late(method: str, path: str, *arguments: Any, **options: Any) -> Any:
            answer = await call(method, path, *arguments, **options)
            if path == "/rows":
                await polled.wait()
            elif path.endswith("/refresh") and not polled.is_set():
                polled.set()
                await applied.wait()
            return answer

        monkeypatch.setattr(ui.screen.client, "call", late)
        await ui.pilot.press("ctrl+s")
        async with asyncio.timeout(60):
            await polled.wait()
        await ui.until(lambda: ui.screen.pending == 0)
        applied.set()
        await idle(ui.pilot)
        assert "⟳" not in ui.text
        assert (await names(people))[0] == "mine"


async def test_edits_applied_while_the_table_is_opened_again_are_no_longer_pending(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l", "e")
        await ui.write("Anna")
        call = ui.screen.client.call

        async def call_and_open_again(method: str, path: str, *body: Any, **options: Any) -> Any:
            answer = await call(method, path, *body, **options)
            if path == "/rows":
                await ui.screen._show("people", RowQuery())
            return answer

        ui.screen.client.call = call_and_open_again  # type: ignore[method-assign]
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.screen.pending == 0)
        await ui.shows("Anna")
        assert "1 row changed in people" in ui.notifications
        assert await names(people) == ["Anna", "Bob", "Cleo"]


async def test_changes_by_others_show_when_answers_take_longer_than_a_poll(
    people: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_view, "POLL_SECONDS", 0.05)
    async with tables(people) as ui:
        call = ui.screen.client.call

        async def slow_call(method: str, path: str, *body: Any, **options: Any) -> Any:
            answer = await call(method, path, *body, **options)
            if path.endswith("/refresh"):
                await asyncio.sleep(0.15)
            return answer

        ui.screen.client.call = slow_call  # type: ignore[method-assign]
        await asyncio.to_thread(people.sql, "update people set name = 'theirs' where id = 1")
        await ui.shows("⟳", "theirs")


async def test_conflict_with_deleted_row_shows_staged_values(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l", "e")
        await ui.write("mine")
        await asyncio.to_thread(people.sql, "delete from people where id = 1")
        await ui.press("ctrl+s")
        await ui.shows("row 1", "the row was deleted", "name  mine mine")


async def test_concurrent_change_of_edited_cell_shows_in_status_line(
    people: Shop, snapshot: Snapshot
) -> None:
    async with tables(people) as ui:
        await ui.press("l", "e")
        await ui.write("mine")
        await ui.shows("• ", "1 row changed")
        await asyncio.to_thread(people.sql, "update people set name = 'Annabel', age = 42 where id = 1")
        await ui.shows("⟳ ", "mine", "others wrote Annabel here · ctrl+s asks")
        snapshot(ui.app)
        await ui.press("l")
        await ui.shows("1 row changed · ctrl+s applies")
        await ui.press("h", "u")
        await ui.shows("Annabel")
        await ui.hides("others wrote")


async def test_conflict_shows_both_values(people: Shop, snapshot: Snapshot) -> None:
    async with tables(people) as ui:
        await conflict(ui, people)
        snapshot(ui.app)


async def test_without_rowid_table_is_edited_by_key(shop: Shop) -> None:
    shop.sql("create table words (word text, lang text, n integer, primary key (lang, word)) without rowid")
    shop.sql("insert into words values ('ja', 'de', 1), ('ja', 'sv', 2)")
    async with tables(shop) as ui:
        await ui.press("j", "l", "l", "e")
        await ui.write("7")
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.screen.pending == 0)
        result = await asyncio.to_thread(shop.sql, "select n from words where lang = 'sv'")
        assert result == [{"n": 7}]


async def test_view_is_read_only_with_reason(people: Shop) -> None:
    people.sql("create view adults as select name, age from people where age >= 30")
    async with tables(people) as ui:
        await ui.shows("read-only: is a view")
        await ui.press("e", "a", "d")
        assert "is a view" in ui.notifications
        assert ui.screen.pending == 0


async def test_cell_of_5_mb_shows_start_and_copies_in_full(shop: Shop) -> None:
    shop.sql("create table notes (id integer primary key, text text)")
    shop.sql("insert into notes (text) values (replace(hex(zeroblob(1250000)), '00', 'åå'))")
    async with tables(shop) as ui:
        await ui.shows("åååå")
        await ui.press("l", "e")
        await ui.until(lambda: "E edits it" in ui.notifications)
        assert ui.screen.pending == 0
        await ui.press("y")
        await ui.until(lambda: "copied åååå" in ui.notifications)
        assert len(ui.app.clipboard) == 2_500_000


async def test_multiline_text_opens_text_screen(shop: Shop) -> None:
    shop.sql("create table notes (id integer primary key, text text)")
    shop.sql("insert into notes (text) values ($1)", "one\ntwo")
    async with tables(shop) as ui:
        await ui.press("l", "e")
        await ui.type("!")
        await ui.press("ctrl+s")
        await ui.shows("1 row changed", "two!")
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.screen.pending == 0)
        assert await asyncio.to_thread(shop.sql, "select text from notes") == [{"text": "one\ntwo!"}]


@pytest.mark.parametrize("text", ["one\ntwo\r\nthree", "one\u2028two\nthree", "one\rtwo\n", "a\v" * 600])
async def test_text_whose_line_ends_a_field_would_change_is_not_opened_in_one(shop: Shop, text: str) -> None:
    shop.sql("create table notes (id integer primary key, text text)")
    shop.sql("insert into notes (text) values ($1)", text)
    async with tables(shop) as ui:
        await ui.press("l", "e")
        await ui.until(lambda: "E edits it in $EDITOR" in ui.notifications)
        await ui.press("ctrl+s")
        assert ui.screen.pending == 0 and not isinstance(ui.app.screen, TextScreen)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_field_of_a_text_has_its_line_ends(shop: Shop, end: str) -> None:
    shop.sql("create table notes (id integer primary key, text text)")
    shop.sql("insert into notes (text) values ($1)", f"one{end}two{end}")
    async with tables(shop) as ui:
        await ui.press("l", "e")
        await ui.type("three")
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.screen.pending == 1)
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.screen.pending == 0)
        expected = [{"text": f"one{end}two{end}three"}]
        assert await asyncio.to_thread(shop.sql, "select text from notes") == expected


async def test_concurrent_change_of_a_long_text_is_a_conflict(shop: Shop) -> None:
    shop.sql("create table notes (id integer primary key, text text)")
    shop.sql("insert into notes (text) values ($1)", 500 * "a line\n" + "price 1")
    async with tables(shop) as ui:
        await ui.press("l", "e")
        await ui.type("0")
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.screen.pending == 1)
        await ui.shows("•")
        await asyncio.to_thread(shop.sql, "update notes set text = replace(text, 'price 1', 'price 2')")
        await ui.press("ctrl+s")
        await ui.until(lambda: isinstance(ui.app.screen, Conflicts))
        await ui.press("m")
        await ui.until(lambda: ui.screen.pending == 0)
        result = await asyncio.to_thread(shop.sql, "select substr(text, -8) as end from notes")
        assert result == [{"end": "price 10"}]


async def test_infinite_numbers_are_inserted_changed_and_deleted(shop: Shop) -> None:
    shop.sql("create table sizes (id integer primary key, size real, name text)")
    shop.sql("insert into sizes (size, name) values (9e999, 'all'), (-9e999, 'none'), (1, 'one')")
    async with tables(shop) as ui:
        await ui.press("l", "e")
        await ui.write("5")
        await ui.press("j", "d", "j", "e")
        await ui.write("-inf")
        await ui.press("a", "e")
        await ui.write("inf")
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.screen.pending == 0)
        result = await asyncio.to_thread(shop.sql, "select size from sizes order by id")
        assert [each["size"] for each in result] == [5, -math.inf, math.inf]


async def test_ctrl_s_in_cell_input_applies_valid_value(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l", "l", "e")
        await ui.type("x")
        await ui.press("ctrl+s")
        await ui.shows("this is not a whole number")
        assert ui.screen.query_one("#line").display
        await ui.press("backspace")
        await ui.type("0")
        await ui.press("ctrl+s")
        await ui.until(lambda: "1 row changed in people" in ui.notifications)
        assert not ui.screen.query_one("#line").display
        assert (await row(people, 1) or {})["age"] == 410


async def test_new_row_formats_default_like_cell(shop: Shop) -> None:
    shop.sql("create table marks (id integer primary key, on_ boolean default 1, off boolean default 0)")
    async with tables(shop) as ui:
        await ui.press("a")
        await ui.shows("true", "false")


async def test_staged_edits_of_other_table_are_shown(people: Shop) -> None:
    people.sql("create table pets (id integer primary key, name text)")
    async with tables(people) as ui:
        await ui.press("l", "e")
        await ui.write("Anna")
        ui.screen.navigate(["pets"])
        await ui.shows("pets ▾", "staged edits in people")
        await ui.press("a")
        await ui.shows("1 row changed")
