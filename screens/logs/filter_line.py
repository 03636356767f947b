"""The line over the list in which words are written. What they mean is the screen's."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

from screens.widgets.virtual_rows import VirtualRows


class FilterLine(Input):
    """The line in which a filter is written, or what is searched."""

    GROUP: ClassVar[str] = "Logs"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back", id="logs.line-back")]

    purpose = "filter"
    """What the line is for: `filter` or `search`."""

    def action_leave(self) -> None:
        """Leave the line as it was."""
        self.display = False
        self.screen.query_one(VirtualRows).focus()
