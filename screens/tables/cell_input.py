"""The input line for a cell or a filter."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Paste
from textual.message import Message
from textual.widgets import Input


class CellInput(Input):
    """The input line for a cell or a filter."""

    GROUP: ClassVar[str] = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.close_line", "Back", id="tables.line-back"),
        Binding("ctrl+n", "screen.null", "Null", id="tables.null"),
        Binding("ctrl+d", "screen.default", "Default", id="tables.default"),
    ]

    class LinesPasted(Message):
        """Several lines were pasted; `value` is the text of the input with them."""

        def __init__(self, pasted: str, value: str) -> None:
            super().__init__()
            self.pasted, self.value = pasted, value

    def _on_paste(self, event: Paste) -> None:
        """Pass a text of several lines to the screen."""
        if len(event.text.splitlines()) > 1:
            event.stop()
            event.prevent_default()
            start, end = sorted(self.selection)
            self.post_message(
                self.LinesPasted(event.text, self.value[:start] + event.text + self.value[end:])
            )
