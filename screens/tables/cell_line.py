"""The line in which a cell is edited, or a filter is written."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input


class CellLine(Input):
    """The line in which a cell is edited, or a filter is written."""

    GROUP: ClassVar[str] = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.close_line", "Back", id="tables.line-back"),
        Binding("ctrl+n", "screen.null", "Null", id="tables.null"),
        Binding("ctrl+d", "screen.default", "Default", id="tables.default"),
    ]
