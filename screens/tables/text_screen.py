"""Text field for a long cell, or one of several lines."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from screens.dialog import key_hints
from screens.tables.cells import read
from svc_tui.column_types import TypeInfo


class TextScreen(ModalScreen[str | None]):
    """Edits a text. Returns it, or None if it is unchanged."""

    GROUP: ClassVar[str] = "Tables"
    DEFAULT_CSS = """
    TextScreen { align: center middle; background: $background 60%; }
    TextScreen > Vertical {
        width: 96%; max-width: 100; height: 90%; padding: 0 1; background: $surface;
        border-left: outer $primary;
    }
    TextScreen Static { height: auto; max-height: 3; link-style: none; }
    TextScreen TextArea { height: 1fr; border: none; padding: 0; background: $surface; }
    TextScreen TextArea:focus { border: none; }
    TextScreen #wrong { color: $text-error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "accept", "Accept", priority=True, id="tables.text-take"),
        Binding("escape", "cancel", "Back", priority=True, id="tables.text-back"),
    ]

    def __init__(self, title: str, text: str, type: TypeInfo, *, changed: bool = False) -> None:
        """Create the field. `changed` is True if the text differs from the cell already."""
        super().__init__()
        self._title, self._text, self._type, self._changed = title, text, type, changed

    def compose(self) -> ComposeResult:
        """Compose the title, the field, the error and the keys."""
        with Vertical():
            yield Static(Content.from_markup("[b]$title[/]", title=self._title))
            yield TextArea(self._text, tab_behavior="indent")
            yield Static(id="wrong")
            yield key_hints(("ctrl+s", "accept", "accept"), ("esc", "cancel", "back"))

    def on_mount(self) -> None:
        """Move the cursor to the end."""
        field = self.query_one(TextArea)
        field.move_cursor(field.document.end)

    def action_accept(self) -> None:
        """Return the text if it is valid."""
        text = self.query_one(TextArea).text
        try:
            read(text, self._type)
        except ValueError as error:
            self.query_one("#wrong", Static).update(Content(str(error)))
        else:
            self.dismiss(text if self._changed or text != self._text else None)

    def action_cancel(self) -> None:
        """Close without a change."""
        self.dismiss(None)
