"""The line in which a cell is edited, or a filter is written."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Paste
from textual.message import Message
from textual.widgets import Input


class CellInput(Input):
    """The line in which a cell is edited, or a filter is written."""

    GROUP: ClassVar[str] = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.close_line", "Back", id="tables.line-back"),
        Binding("ctrl+n", "screen.null", "Null", id="tables.null"),
        Binding("ctrl+d", "screen.default", "Default", id="tables.default"),
    ]

    class Lines(Message):
        """Several lines were pasted into the one: `whole` is what would be written then."""

        def __init__(self, pasted: str, whole: str) -> None:
            super().__init__()
            self.pasted, self.whole = pasted, whole

    def _on_paste(self, event: Paste) -> None:
        """Leave several lines to the screen, which may have room for them."""
        if len(event.text.splitlines()) > 1:
            event.stop()
            event.prevent_default()
            start, end = sorted(self.selection)
            self.post_message(self.Lines(event.text, self.value[:start] + event.text + self.value[end:]))
