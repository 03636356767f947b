"""Untrusted text never reaches the terminal as a control sequence."""

import pytest
from rich.segment import ControlType, Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.color import Color
from textual.widgets import Input, Static, TextArea

from screens.terminal_app import TerminalApp, TextFilter, without_controls
from tests.support.screens import OpenApp, text

HOSTILE = "a\x1b[31mred\x1b]0;title\x07\x9b2J\u202e\u200f\u061cb"
SHOWN = "a[31mred]0;title2Jb"


def test_control_char_filter_removes_only_control_characters() -> None:
    bold = Style(bold=True)
    plain = [Segment("日本 שלום\u200e e\u0301 👩\u200d💻"), Segment("", None, [(ControlType.BELL,)])]
    assert TextFilter(without_controls).apply([Segment(HOSTILE, bold), *plain], Color(0, 0, 0)) == [
        Segment(SHOWN, bold),
        *plain,
    ]


class Hostile(TerminalApp[None]):
    """Shows a text in every kind of widget."""

    def compose(self) -> ComposeResult:
        yield Input(HOSTILE)
        yield Static(HOSTILE, markup=False)
        yield TextArea(HOSTILE)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_untrusted_text_cannot_send_control_characters_from_any_widget(open_app: OpenApp) -> None:
    async with open_app(Hostile(), (100, 24)) as pilot:
        result = text(pilot.app)
        assert result.count(SHOWN) == 3
        assert not any(sign in result for sign in "\x1b\x07\x9b\u202e")
