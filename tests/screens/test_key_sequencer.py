"""Keys that arrive together have the same effect as keys pressed one after another."""

from typing import Any, ClassVar

import pytest
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widgets import Input

from screens.terminal_app import TerminalApp
from tests.support import screens
from tests.support.screens import OpenApp

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


class Line(ModalScreen[str]):
    """Screen with an input."""

    def compose(self) -> ComposeResult:
        yield Input()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


class Lines(TerminalApp[None]):
    """Application that opens inputs and collects their text; `d` detects misplaced keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("colon", "open", "Open"),
        Binding("d", "destroy", "Destroy"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str | None] = []
        self.destroyed = 0

    def action_open(self) -> None:
        self.push_screen(Line(), self.written.append)

    def action_destroy(self) -> None:
        self.destroyed += 1


def at_once(pilot: Pilot[Any], *keys: str) -> None:
    """Send keys as one chunk, as a terminal does."""
    for key in keys:
        name = {":": "colon"}.get(key, key)
        pilot.app.post_message(Key(name, key if len(key) == 1 else None))


async def until(pilot: Pilot[Any], lines: int) -> None:
    app = pilot.app
    assert isinstance(app, Lines)
    await screens.until(pilot, lambda: len(app.written) == lines)


async def test_text_after_opening_key_goes_into_opened_input(open_app: OpenApp) -> None:
    app = Lines()
    async with open_app(app) as pilot:
        at_once(pilot, *":dada", "enter", *":dud", "enter", "d")
        await until(pilot, 2)
        assert app.written == ["dada", "dud"]
        await pilot.pause()
        assert app.destroyed == 1


async def test_letters_and_other_keys_stay_in_order(open_app: OpenApp) -> None:
    app = Lines()
    async with open_app(app) as pilot:
        at_once(pilot, *":xa", "backspace", "b", "home", "c", "end", "ctrl+u", *"new", "left", "o", "enter")
        await until(pilot, 1)
        assert app.written == ["neow"]


async def test_burst_of_two_hundred_letters_is_complete(open_app: OpenApp) -> None:
    app = Lines()
    async with open_app(app) as pilot:
        at_once(pilot, *":", *"abcde" * 40, "enter")
        await until(pilot, 1)
        assert app.written == ["abcde" * 40]
