"""A field for a long text, or one of several lines. What becomes of it is the asker's."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from screens.tables.cells import read
from svc_tui.column_types import TypeInfo


class TextScreen(ModalScreen[str | None]):
    """Gives the text as it is now, or None where it stays as it was."""

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
        Binding("ctrl+s", "take", "Take it", priority=True, id="tables.text-take"),
        Binding("escape", "leave", "Back", priority=True, id="tables.text-back"),
    ]

    def __init__(self, asked: str, text: str, type: TypeInfo, *, changed: bool = False) -> None:
        """`changed` says that the text is not what the cell has any more."""
        super().__init__()
        self._asked, self._text, self._type, self._changed = asked, text, type, changed

    def compose(self) -> ComposeResult:
        """Place the field and what ends it."""
        with Vertical():
            yield Static(Content.from_markup("[b]$asked[/]", asked=self._asked))
            yield TextArea(self._text, tab_behavior="indent")
            yield Static(id="wrong")
            yield Static(
                Content.from_markup(
                    "[@click=screen.take][b $primary]ctrl+s[/] take it[/]    "
                    "[@click=screen.leave][b $primary]esc[/] back[/]"
                )
            )

    def on_mount(self) -> None:
        """Begin behind the last character."""
        field = self.query_one(TextArea)
        field.move_cursor(field.document.end)

    def action_take(self) -> None:
        """Give the text, if a cell of the type can be it."""
        text = self.query_one(TextArea).text
        try:
            read(text, self._type)
        except ValueError as error:
            self.query_one("#wrong", Static).update(Content(str(error)))
        else:
            self.dismiss(text if self._changed or text != self._text else None)

    def action_leave(self) -> None:
        """Leave the text as it was."""
        self.dismiss(None)
