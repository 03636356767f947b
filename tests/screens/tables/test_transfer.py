"""Import and export of the open table."""

import asyncio
import json
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.widgets import Input

from screens.dialog import ConfirmDialog
from screens.files import complete_path, preview_lines, progress_bar, read_beginning, read_chunks, write_file
from screens.tables.forms import ImportForm
from svc_tui.client import SvcError
from tests.screens.tables.tables_tab import Shop, tables
from tests.support.screens import idle

Snapshot = Callable[[App[Any]], None]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the Console."""
    folder = tmp_path / "files"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_path_completes_to_common_prefix(files: Path) -> None:
    for name in ("people.csv", "people.json", "pets.csv", ".hidden"):
        (files / name).touch()
    (files / "sub ü").mkdir()
    assert complete_path("peo") == "people."
    assert complete_path("pe") == "pe"
    assert complete_path("s") == "sub ü/"
    assert complete_path(f"{files}/pet") == f"{files}/pets.csv"
    assert complete_path("none") == "none"
    assert complete_path("nowhere/x") == "nowhere/x"


def test_write_file_is_atomic(files: Path) -> None:
    existing = files / "kept.csv"
    existing.write_text("before")
    stopped = threading.Event()

    def interrupted() -> Any:
        yield b"half"
        stopped.set()
        yield b"of it"

    with pytest.raises(SvcError, match="stopped; nothing was written"):
        write_file(existing, interrupted(), lambda done, total: None, stopped)
    assert existing.read_text() == "before"
    assert [each.name for each in files.iterdir()] == ["kept.csv"]
    assert write_file(existing, iter([b"all", b" of it"]), lambda done, total: None, threading.Event()) == 9
    assert existing.read_text() == "all of it"


def test_write_file_follows_links_and_refuses_special_files(files: Path) -> None:
    (files / "link.csv").symlink_to("kept.csv")
    os.mkfifo(files / "pipe")
    (files / "device").symlink_to("/dev/null")

    def write(name: str) -> int:
        return write_file(files / name, iter([b"rows"]), lambda done, total: None, threading.Event())

    assert write("link.csv") == 4
    assert (files / "link.csv").is_symlink() and (files / "kept.csv").read_bytes() == b"rows"
    for name in ("pipe", "device", "."):
        with pytest.raises(SvcError, match="is not a regular file"):
            write(name)
    assert (files / "pipe").is_fifo() and (files / "device").is_char_device()


def test_unreadable_file_raises_error(files: Path) -> None:
    with pytest.raises(SvcError, match="cannot read"):
        list(read_chunks(files / "none.csv", lambda done, total: None, threading.Event(), "nothing was sent"))


def test_beginning_of_long_file_has_whole_lines(files: Path) -> None:
    (files / "long.csv").write_bytes(b"a,b\n" + b"1,2\n" * 2_000_000)
    result, complete = read_beginning(files / "long.csv", "csv")
    assert not complete and result.endswith(b"1,2\n")
    (files / "long.json").write_bytes(b" " * 5_000_000 + b"[]")
    assert read_beginning(files / "long.json", "json") == (b"", False)


def test_progress_bar_shows_percentage() -> None:
    assert progress_bar(1, 2) == f"{'━' * 12}{'╌' * 12}  50%"
    assert progress_bar(5, 0).endswith("   0%") and progress_bar(5, 4).endswith(" 100%")


@pytest.mark.slow
@pytest.mark.anyio
async def test_import_form_previews_and_imports_file(people: Shop, files: Path, snapshot: Snapshot) -> None:
    (files / "new.csv").write_text("name,age\nDora,19\nEve,\n")
    async with tables(people) as ui:
        await ui.press("i")
        await ui.type("ne")
        await ui.press("tab")
        await ui.shows("new.csv", "rows for people   2 rows", "integer", "Dora")
        snapshot(ui.app)
        await ui.press("ctrl+s")
        await ui.until(lambda: "imported 2 rows" in ui.notifications)
        await ui.shows("5 rows", "Eve")


@pytest.mark.slow
@pytest.mark.anyio
async def test_import_of_new_table_creates_it(shop: Shop, files: Path) -> None:
    (files / "cities.jsonl").write_text('{"id": 1, "name": "Brno"}\n{"id": 2, "name": "Łódź"}\n')
    async with tables(shop) as ui:
        await ui.press("i")
        await ui.type("cities.jsonl")
        await ui.shows("a new table cities")
        await ui.press("enter", "enter", "enter")
        await ui.shows("cities ▾", "Łódź")


@pytest.mark.slow
@pytest.mark.anyio
async def test_refused_import_shows_error_and_leaves_form_open(people: Shop, files: Path) -> None:
    (files / "bad.csv").write_text("name,mail\nDora,ann@x.org\n")
    async with tables(people) as ui:
        await ui.press("i")
        await ui.type("bad.csv")
        await ui.press("ctrl+s")
        await ui.shows("UNIQUE constraint failed")
        assert isinstance(ui.app.screen, ImportForm)
        assert "Dora" not in ui.text
        await ui.press("escape")
        await ui.shows("3 rows")


@pytest.mark.slow
@pytest.mark.anyio
async def test_invalid_line_is_shown_in_preview_and_after_import(people: Shop, files: Path) -> None:
    (files / "bad.csv").write_text("name,age\n" + "Dora,19\n" * 1000 + '"a"b,1\n')
    (files / "empty.csv").touch()
    async with tables(people) as ui:
        await ui.press("i")
        await ui.type("bad.csv")
        await ui.shows("line 1002: unexpected quote", "double quotes")
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.text.count("line 1002") == 1 and "nothing" not in ui.text)
        assert ui.text.count("double quotes") == 1
        await ui.press("escape", "i")
        await ui.type("empty.csv")
        await ui.shows("the file is empty")


def test_preview_shows_columns_that_fit() -> None:
    columns = [{"name": f"c{number}", "type": "text", "primary_key": False} for number in range(9)]
    preview = {"columns": columns, "rows": [["x" * 50] * 9], "count": 1}
    for room, ui in ((5, 1), (45, 2), (46, 3), (78, 5), (300, 5)):
        title, head, *rest = preview_lines("new", preview, room)
        assert [text for text, tone in head if tone == "accent"] == [f"c{n}" for n in range(ui)]
        assert (f"   1 row, {9 - ui} more columns", "dim") in title
        assert all(sum(len(text) for text, _ in line) <= max(room, 14) for line in (head, *rest))


@pytest.mark.slow
@pytest.mark.anyio
async def test_stopped_import_changes_nothing(people: Shop, files: Path) -> None:
    endless = files / "endless.csv"
    endless.write_text("name,age,a,b,c\n" + "Dora,19,x,y,z\n" * 9)
    async with tables(people, (60, 20)) as ui:
        form = ImportForm(ui.screen.client, "people")
        await ui.app.push_screen(form)
        await ui.type(endless.name)
        await ui.shows("rows for people", "Dora")
        endless.unlink()
        os.mkfifo(endless)
        await ui.pilot.press("ctrl+s")
        with suppress(BrokenPipeError), await asyncio.to_thread(endless.open, "wb") as feed:
            feed.write(b"name,age\n" + b"name,7\n" * 100_000)
            feed.flush()
            await ui.shows("sent", "esc stops")
            await ui.pilot.press("escape")
            feed.write(b"name,7\n" * 100_000)
        await ui.shows("stopped; nothing was imported")
        result = await asyncio.to_thread(people.sql, "select count(*) as n from people")
        assert result == [{"n": 3}]


@pytest.mark.slow
@pytest.mark.anyio
async def test_export_asks_before_replacing_file(people: Shop, files: Path) -> None:
    async with tables(people) as ui:
        await ui.press("x", "enter")
        await ui.until(lambda: "exported" in ui.notifications)
        assert (files / "people.csv").read_text().splitlines()[1] == "1,Ann,41,ann@x.org"
        (files / "people.csv").write_text("mine")
        await ui.press("x")
        for answer, words in (("n", "mine"), ("y", "id,name,age,mail")):
            await ui.pilot.press("ctrl+s")
            await ui.until(lambda: isinstance(ui.app.screen, ConfirmDialog))
            await ui.pilot.press(answer)
            await ui.until(lambda: not isinstance(ui.app.screen, ConfirmDialog))
            await ui.until(lambda words=words: (files / "people.csv").read_text().startswith(words))  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.anyio
async def test_export_form_exports_filtered_rows_or_whole_tables(people: Shop, files: Path) -> None:
    async with tables(people) as ui:
        await ui.press("slash")
        await ui.write("age>=30")
        await ui.shows("2 rows")
        await ui.press("l", "l", "s", "x")
        await ui.shows("the 2 shown rows")
        await ui.press("ctrl+s")
        await ui.until(lambda: "exported" in ui.notifications)
        assert [line[:2] for line in (files / "people.csv").read_text().splitlines()[1:]] == ["3,", "1,"]
        await ui.press("x", "ctrl+u")
        await ui.write("people.db")
        await ui.shows("a .db file has whole tables")
        await ui.press("tab", "ctrl+u")
        await ui.type("all")
        await ui.press("ctrl+s")
        await ui.until(lambda: (files / "people.db").exists())


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("name", ["all.json", "all.db"])
async def test_file_extension_selects_export_format(people: Shop, files: Path, name: str) -> None:
    async with tables(people) as ui:
        await ui.press("x")
        await ui.write(name)
        await ui.until(lambda: "exported" in ui.notifications)
    if name == "all.json":
        assert json.loads((files / name).read_text())[1]["name"] == "Bob"
    else:
        with sqlite3.connect(files / name) as database:
            assert database.execute("select count(*) from people").fetchone() == (3,)
        database.close()


@pytest.mark.slow
@pytest.mark.anyio
async def test_import_refuses_a_database_that_a_program_has_open(people: Shop, files: Path) -> None:
    with closing(sqlite3.connect(files / "app.db", isolation_level=None)) as program:
        program.execute("pragma journal_mode = wal")
        program.execute("create table orders (id integer primary key)")
        async with tables(people) as ui:
            await ui.press("i")
            await ui.type("app.db")
            await ui.shows("changes are in app.db-wal", "copy.db")
            await ui.press("ctrl+s")
            await ui.shows("changes are in app.db-wal")


@pytest.mark.slow
@pytest.mark.anyio
async def test_import_of_other_columns_proposes_a_table_with_the_name_of_the_file(
    people: Shop, files: Path
) -> None:
    (files / "cities.csv").write_text("id,city\n1,Rome\n")
    (files / "more.csv").write_text("name,age\nDan,50\n")
    async with tables(people, size=(100, 30)) as ui:
        await ui.press("i")
        table = ui.app.screen.query_one("#table", Input)
        assert table.value == "people" and "enter import it" in ui.text
        await ui.type("cities.csv")
        await ui.shows("a new table cities")
        assert table.value == "cities"
        await idle(ui.pilot)
        await ui.press("ctrl+u")
        await ui.type("more.csv")
        await ui.shows("rows for people")
        await ui.press("enter")
        await ui.until(lambda: "imported 1 row" in ui.notifications)
        await ui.shows("Dan")


@pytest.mark.slow
@pytest.mark.anyio
async def test_import_before_the_preview_asks_if_columns_do_not_fit(people: Shop, files: Path) -> None:
    (files / "cities.csv").write_text("id,city\n1,Rome\n")
    async with tables(people) as ui:
        await ui.press("i")
        ui.app.screen.query_one("#file", Input).value = "cities.csv"
        await ui.pilot.press("ctrl+s")
        await ui.shows("people has no column city", "Press ctrl+s to import the rows into cities")
        assert ui.app.screen.query_one("#table", Input).value == "cities"
        await idle(ui.pilot)
        await ui.shows("people has no column city")
        await ui.press("ctrl+s")
        await ui.until(lambda: "imported 1 row" in ui.notifications)
        await ui.shows("cities ▾", "Rome")


@pytest.mark.slow
@pytest.mark.anyio
async def test_import_before_the_preview_adds_rows_to_the_open_table(people: Shop, files: Path) -> None:
    (files / "more.csv").write_text("name,age\nDan,50\n")
    async with tables(people) as ui:
        await ui.press("i")
        ui.app.screen.query_one("#file", Input).value = "more.csv"
        await ui.pilot.press("ctrl+s")
        await ui.shows("people ▾   4 rows", "Dan")


@pytest.mark.slow
@pytest.mark.anyio
async def test_preview_names_missing_column_and_hides_earlier_error(people: Shop, files: Path) -> None:
    (files / "bad.csv").write_text("name,mail\nDora,ann@x.org\n")
    (files / "cities.csv").write_text("id,city\n1,Rome\n")
    async with tables(people) as ui:
        await ui.press("i")
        await ui.type("bad.csv")
        await ui.press("ctrl+s")
        await ui.shows("UNIQUE constraint failed")
        await ui.press("ctrl+u")
        await ui.type("cities.csv")
        await ui.shows("people has no column city", "a new table cities")
        assert "UNIQUE" not in ui.text


@pytest.mark.slow
@pytest.mark.anyio
async def test_form_names_what_enter_does(people: Shop, files: Path) -> None:
    (files / "cities.csv").write_text("id,city\n1,Rome\n")
    async with tables(people) as ui:
        await ui.press("i", "tab", "ctrl+u", "shift+tab")
        assert "enter next field" in ui.text and "ctrl+s import it" in ui.text
        await ui.type("cities.csv")
        await ui.press("enter")
        assert ui.app.focused is ui.app.screen.query_one("#table")
        assert "enter import it" in ui.text
