"""Dialogs in terminals of any size, and the values that the dialog for conflicts shows."""

import re
from functools import partial
from typing import Any

import pytest
from textual.app import App, ComposeResult

from screens.dialog import ChoiceDialog, ConfirmDialog, Form
from screens.tables.dialogs import Conflicts, PasteScreen, conflict_lines, excerpts, paste_lines
from screens.tables.forms import SchemaText
from screens.terminal_app import TerminalApp
from tests.support.screens import OpenApp, text

SIZES = [(80, 24), (60, 20), (40, 10)]
LONG = "the same beginning of each of the three values, "
ROWS = [
    (
        (number,),
        {"update": {"expected": {"note": f"{LONG}A"}, "set": {"note": f"{LONG}C"}}},
        {"note": f"{LONG}B"},
    )
    for number in range(9)
]
PREVIEW = {
    "columns": [{"name": "name", "type": "text", "primary_key": False}] * 9,
    "rows": [["Ann"] * 9] * 9,
    "count": 9,
}


def visible_words(app: App[Any]) -> str:
    return " ".join(re.sub(r"[▁-▌]", " ", text(app)).split())


def conflicts() -> ChoiceDialog:
    return Conflicts(partial(conflict_lines, "people", ROWS))


def pasted() -> ChoiceDialog:
    return PasteScreen(partial(paste_lines, "people", PREVIEW, [None] * 9))


class LongForm(Form[str]):
    DONE = "create it"

    def fields(self) -> ComposeResult:
        yield SchemaText("id integer")
        yield SchemaText("id integer")


def test_excerpts_show_first_difference_with_mark_at_cut_beginning() -> None:
    assert excerpts(["abc", "abd"], 3) == ["abc", "abd"]
    assert excerpts(["abcdefghiA", "abcdefghiB"], 6) == ["…fghiA", "…fghiB"]
    assert excerpts(["abcdefA" + "x" * 9, "abcdefB" + "x" * 9], 6) == ["…efA" + "x" * 9, "…efB" + "x" * 9]
    assert excerpts(["Abcdefghi", "Bbcdefghi"], 3) == ["Abcdefghi", "Bbcdefghi"]


def test_excerpts_measure_wide_characters_in_cells() -> None:
    assert excerpts(["日本語日本語A", "日本語日本語B"], 6) == ["…本語A", "…本語B"]


@pytest.mark.anyio
async def test_keys_of_form_and_question_stay_visible(open_app: OpenApp) -> None:
    async with open_app(TerminalApp(), (40, 10)) as pilot:
        for screen, keys in (
            (LongForm(), "enter create it"),
            (ConfirmDialog("quit?", "3 rows are changed. " * 30, "quit"), "y quit n cancel"),
        ):
            await pilot.app.push_screen(screen)
            await pilot.pause()
            assert keys in visible_words(pilot.app)


@pytest.mark.anyio
@pytest.mark.parametrize("size", SIZES)
async def test_conflict_dialog_shows_difference_of_long_values(open_app: OpenApp, size: Any) -> None:
    async with open_app(TerminalApp(), size) as pilot:
        await pilot.app.push_screen(conflicts())
        lines = []
        for _ in range(9):
            await pilot.pause()
            lines += text(pilot.app).splitlines()
            await pilot.press("down")
        for label, end in (("was", "A"), ("theirs", "B"), ("mine", "C")):
            assert any(f" {label} " in line and f"values, {end}" in line for line in lines)


@pytest.mark.anyio
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("create", [conflicts, pasted])
async def test_choices_stay_visible_while_lines_scroll(open_app: OpenApp, size: Any, create: Any) -> None:
    async with open_app(TerminalApp(), size) as pilot:
        dialog = create()
        await pilot.app.push_screen(dialog)
        await pilot.pause()
        for key in ("home", "end"):
            await pilot.press(key)
            await pilot.pause()
            words = visible_words(pilot.app)
            for each in dialog.choices():
                assert f"{pilot.app.get_key_display(each)} {each.description.lower()}" in words
