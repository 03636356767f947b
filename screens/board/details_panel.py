"""Panel below the diagram: details, a diff, or an input."""

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Input, Static

from screens.board.cards import Line
from screens.widgets.component_styles import to_content


class PanelInput(Input):
    """The input of the panel."""

    GROUP: ClassVar[str] = "Board"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Accept", id="board.take")]


class DetailsPanel(Vertical):
    """A panel that is hidden until it has content."""

    DEFAULT_CSS = """
    DetailsPanel {
        display: none; height: auto; max-height: 50%;
        border-top: solid $foreground 20%; border-title-color: $foreground; border-title-style: bold;
        border-title-background: $background; padding: 0 1;
        &.fills { height: 1fr; max-height: 100%; }
        &.fills > VerticalScroll { height: 1fr; }
        & > Input { border: none; height: 1; padding: 0; background: $background; }
        & > Input:focus { border: none; background-tint: $foreground 0%; }
        & > VerticalScroll { height: auto; max-height: 100%; scrollbar-size-vertical: 1; }
        & Static { height: auto; }
    }
    """

    class Text(VerticalScroll, can_focus=False):
        """The text of the panel; scrolled by the keys of the screen."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Line] = []

    def compose(self) -> ComposeResult:
        """Compose the input and the text."""
        yield PanelInput(compact=True, select_on_focus=False)
        with self.Text():
            yield Static()

    def on_mount(self) -> None:
        """Hide the input."""
        self.query_one(PanelInput).display = False

    @property
    def prompting(self) -> bool:
        """True while the input is shown."""
        return self.display and self.query_one(PanelInput).display

    @property
    def line_width(self) -> int:
        """The width of a line without the scrollbar, in cells."""
        return self.screen.size.width - 4

    def show(self, title: str, lines: Iterable[Line]) -> None:
        """Show a title and a text; a visible input stays."""
        self.border_title = f" {title} "
        self.set_lines(lines)

    def set_lines(self, lines: Iterable[Line]) -> None:
        """Show a text below the current title."""
        self.display = True
        if (content := list(lines)) != self._lines:
            self._lines = content
            self.query_one(Static).update(to_content(content))

    def prompt(self, title: str, value: str) -> None:
        """Show an input with a title and an initial value."""
        self.show(title, ())
        line = self.query_one(PanelInput)
        line.value = value
        line.cursor_position = len(value)
        line.display = True
        line.focus()

    def hide_input(self) -> None:
        """Hide the input."""
        self.query_one(PanelInput).display = False

    def close(self) -> None:
        """Hide the panel."""
        self.hide_input()
        self.display = False

    def page(self, pages: int) -> bool:
        """Scroll the text by pages. Return False if all of it is visible."""
        text = self.query_one(self.Text)
        if not self.display or not text.max_scroll_y:
            return False
        text.scroll_to(y=text.scroll_y + pages * max(text.size.height - 1, 1), animate=False)
        return True
