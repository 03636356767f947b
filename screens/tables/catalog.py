"""Catalog beside the SQL statement: tables with their columns and types."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from screens.tables.sql_text import quoted_name
from screens.widgets.columns import LINE_COLUMNS, TextLines, sanitize
from screens.widgets.row_source import Line
from screens.widgets.virtual_list import VirtualRows

WIDE_CELLS = 120
"""Minimum width of a screen that shows the catalog."""


class Catalog(VirtualRows):
    """The list of tables and columns."""

    GROUP: ClassVar[str] = "SQL"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Insert the name", id="sql.insert-name"),
    ]

    class NameChosen(Message):
        """A name was chosen; `text` is its form in SQL."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self) -> None:
        super().__init__(TextLines(), LINE_COLUMNS, head=False, empty="no tables", id="catalog")
        self._names: list[str] = []

    def set_tables(self, tables: Sequence[Mapping[str, Any]]) -> None:
        """Show tables of `GET /tables`."""
        lines: list[Line] = []
        self._names = []
        for table in tables:
            lines.append([(sanitize(table["name"]), "accent")])
            self._names.append(table["name"])
            for column in table["columns"]:
                key = " key" if column["primary_key"] else ""
                lines.append(
                    [("  ", ""), (sanitize(column["name"]), ""), (f"  {column['type']}{key}", "dim")]
                )
                self._names.append(column["name"])
        self.set_source(TextLines(lines))

    def action_open(self) -> None:
        """Choose the name at the cursor."""
        if self.cursor_row < len(self._names):
            self.post_message(self.NameChosen(quoted_name(self._names[self.cursor_row])))
