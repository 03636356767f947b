"""The input lines for a filter and for a cell."""

from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.events import Paste
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.widgets import Input

MIN_CELLS = 24
"""Minimum width of the input over a cell."""


class LineInput(Input):
    """An input line that `esc` closes."""

    GROUP: ClassVar[str] = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Accept", id="tables.line-take"),
        Binding("escape", "screen.close_line", "Back", id="tables.line-back"),
    ]


class CellInput(LineInput):
    """The input over the cell that is edited."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+n", "screen.null", "Null", id="tables.null"),
        Binding("ctrl+d", "screen.default", "Default", id="tables.default"),
    ]

    class LinesPasted(Message):
        """Several lines were pasted; `value` is the text of the input with them."""

        def __init__(self, pasted: str, value: str) -> None:
            super().__init__()
            self.pasted, self.value = pasted, value

    def place(self, cell: Region, screen: Size) -> None:
        """Cover a cell of the screen, and as many cells at its right as the text needs."""
        width = min(max(cell.width, MIN_CELLS, cell_len(self.value) + 2), screen.width)
        self.styles.width = width
        self.styles.offset = Offset(min(cell.x, screen.width - width), cell.y)

    def _on_paste(self, event: Paste) -> None:
        """Pass a text of several lines to the screen."""
        if len(event.text.splitlines()) > 1:
            event.stop()
            event.prevent_default()
            start, end = sorted(self.selection)
            self.post_message(
                self.LinesPasted(event.text, self.value[:start] + event.text + self.value[end:])
            )
