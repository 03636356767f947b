"""Layout of columns, and cells from an editor or a file."""

import asyncio
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App

from screens.files import edit_text, editor_command
from screens.tables.grid import MAX_WIDTH, MIN_WIDTH, ColumnLayout
from svc_tui.client import SvcError
from tests.screens.tables.tables_tab import Shop, tables

Snapshot = Callable[[App[Any]], None]
NAMES = ["a", "b", "c", "d"]
steps = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["turn", "move", "widen"]), st.integers(-60, 60))
)


@given(steps)
def test_column_layout_shows_at_least_one_column(done: list[tuple[int, str, int]]) -> None:
    arranged = ColumnLayout().for_columns(NAMES)
    for index, what, by in done:
        if what == "turn":
            arranged = arranged.toggled(index)
        elif what == "move":
            arranged = arranged.moved(index, by)
        else:
            arranged = arranged.widened(index, by, 10)
    assert sorted(each.name for each in arranged.columns) == NAMES
    assert arranged.visible()
    assert all(each.width is None or MIN_WIDTH <= each.width <= MAX_WIDTH for each in arranged.columns)


def test_added_and_removed_columns_preserve_layout_of_others() -> None:
    arranged = ColumnLayout().for_columns(NAMES).moved(3, -3).toggled(1)
    second = arranged.for_columns(["a", "c", "d", "new"])
    assert [(each.name, each.hidden) for each in second.columns] == [
        ("d", False),
        ("a", True),
        ("c", False),
        ("new", False),
    ]


def program(tmp_path: Path, body: str) -> list[str]:
    file = tmp_path / "editor.py"
    file.write_text(f"import sys, pathlib\nfile = pathlib.Path(sys.argv[1])\n{body}\n")
    return [sys.executable, str(file)]


def test_editor_changes_text(tmp_path: Path) -> None:
    append = program(tmp_path, "file.write_text(file.read_text() + ' more\\n')")
    assert edit_text("één\ntwo", "cell.txt", append) == "één\ntwo more"


def test_editor_without_change_returns_none(tmp_path: Path) -> None:
    assert edit_text("one", "cell.txt", program(tmp_path, "")) is None
    assert edit_text("one", "cell.txt", program(tmp_path, "file.write_text('one\\n')")) is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.exit(3)", "failed with status 3"),
        ("file.unlink()", "cannot be read as text"),
        ("file.write_bytes(b'\\xff')", "cannot be read as text"),
    ],
)
def test_failed_editor_raises_error(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(SvcError, match=message):
        edit_text("one", "cell.txt", program(tmp_path, body))
    with pytest.raises(SvcError, match="cannot be run"):
        edit_text("one", "cell.txt", [str(tmp_path / "none")])


def test_editor_command_comes_from_environment() -> None:
    assert editor_command({"EDITOR": "code -w", "VISUAL": ""}) == ["code", "-w"]
    assert editor_command({}) == ["vi"]
    with pytest.raises(SvcError):
        editor_command({"EDITOR": "'open"})


@pytest.mark.slow
@pytest.mark.anyio
async def test_columns_are_hidden_moved_and_widened(people: Shop, snapshot: Snapshot) -> None:
    async with tables(people) as ui:
        await ui.press("C", "j", "j", "enter", "j", "K", "K", "K", "plus", "plus")
        await ui.shows("48")
        snapshot(ui.app)
        await ui.press("escape")
        head = ui.text.splitlines()[2].split()
        assert head == ["mail", "id", "key", "name"]
        await ui.press("h", "h", "h", "l", "e")
        await ui.write("a@b")
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.screen.pending == 0)
        result = await asyncio.to_thread(people.sql, "select mail from people where id = 1")
        assert result == [{"mail": "a@b"}]


@pytest.mark.slow
@pytest.mark.anyio
async def test_blob_cell_reads_file(shop: Shop, tmp_path: Path) -> None:
    shop.sql("create table pictures (id integer primary key, data blob)")
    shop.sql("insert into pictures (data) values (x'00')")
    (tmp_path / "picture").write_bytes(b"\x89PNG")
    async with tables(shop) as ui:
        await ui.press("l", "e")
        await ui.write(f"@{tmp_path}/none")
        await ui.until(lambda: "cannot read" in ui.notifications)
        await ui.press("e")
        await ui.write(f"@{tmp_path}/picture")
        await ui.until(lambda: ui.screen.pending == 1)
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.screen.pending == 0)
        result = await asyncio.to_thread(shop.sql, "select data from pictures")
        assert result == [{"data": b64encode(b"\x89PNG").decode()}]


@pytest.mark.slow
@pytest.mark.anyio
async def test_editor_without_terminal_is_refused(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("l", "E")
        await ui.until(lambda: "in a terminal only" in ui.notifications)
        assert ui.screen.pending == 0
