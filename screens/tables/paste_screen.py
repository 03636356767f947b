"""The dialog for a pasted range: insert new rows, or overwrite cells from the cursor."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from screens.tables.grid import TableColumn
from screens.tables.preview import lines
from screens.widgets.content import to_content

WIDTH, SHARE = 90, 0.96
"""Cells of the dialogue, and the most of the screen that it takes."""


class PasteScreen(ModalScreen[str]):
    """Gives `new` or `over`; empty where nothing is to be written."""

    GROUP: ClassVar[str] = "Tables"
    DEFAULT_CSS = """
    PasteScreen { align: center middle; background: $background 60%; }
    PasteScreen > Vertical {
        width: 90; max-width: 96%; height: auto; max-height: 90%; padding: 1 2; background: $surface;
        border-left: outer $primary;
    }
    PasteScreen .keys { margin-top: 1; link-style: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "choose('new')", "New rows", id="tables.paste-new"),
        Binding("o", "choose('over')", "Over the cells", id="tables.paste-over"),
        Binding("escape", "choose('')", "Back", id="tables.paste-back"),
    ]

    def __init__(self, table: str, told: Mapping[str, Any], to: Sequence[TableColumn | None]) -> None:
        """`told` is the preview of the range, `to` are its target columns."""
        super().__init__()
        self._table, self._told, self._to = table, told, to

    def compose(self) -> ComposeResult:
        """Place the preview and the choices."""
        names = ", ".join(column.name if column else "left out" for column in self._to)
        room = min(WIDTH, int(self.app.size.width * SHARE)) - 5  # the border, and the blanks at both sides
        with Vertical():
            yield Static(to_content(lines(f"pasted for {self._table}", self._told, room)))
            yield Static(Content.from_markup("[dim]into[/] $names", names=names))
            yield Static(
                Content.from_markup(
                    "[@click=screen.choose('new')][b $primary]n[/] as new rows[/]    "
                    "[@click=screen.choose('over')][b $primary]o[/] over the cells from the cursor on[/]    "
                    "[@click=screen.choose('')][b $primary]esc[/] back[/]"
                ),
                classes="keys",
            )

    def action_choose(self, choice: str) -> None:
        """Close with the choice."""
        self.dismiss(choice)
