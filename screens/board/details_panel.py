"""The sheet below the picture: what is known of something, a difference, a line to answer in."""

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Input, Static

from screens.board.cards import Line
from screens.widgets.content import to_content


class Answer(Input):
    """The line to answer in."""

    GROUP: ClassVar[str] = "Board"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Take it", id="board.take")]


class Sheet(Vertical):
    """Closed until there is something to say."""

    DEFAULT_CSS = """
    Sheet {
        display: none; height: auto; max-height: 50%;
        border-top: solid $foreground 20%; border-title-color: $foreground; border-title-style: bold;
        border-title-background: $background; padding: 0 1;
        & > Input { border: none; height: 1; padding: 0; background: $background; }
        & > Input:focus { border: none; background-tint: $foreground 0%; }
        & > VerticalScroll { height: auto; max-height: 100%; scrollbar-size-vertical: 1; }
        & Static { height: auto; }
    }
    """

    class Text(VerticalScroll, can_focus=False):
        """What the sheet says; scrolled by the screen's keys."""

    def compose(self) -> ComposeResult:
        """Place the line to answer in, and the text."""
        yield Answer(compact=True, select_on_focus=False)
        with self.Text():
            yield Static()

    def on_mount(self) -> None:
        """Begin closed."""
        self.query_one(Answer).display = False

    @property
    def asking(self) -> bool:
        """Whether there is a line to answer in."""
        return self.display and self.query_one(Answer).display

    @property
    def room(self) -> int:
        """The cells of a line, beside a scrollbar."""
        return self.screen.size.width - 3

    def tell(self, title: str, lines: Iterable[Line]) -> None:
        """Open the sheet with a text; a line that is asked for stays."""
        self.border_title = f" {title} "
        self.say(lines)

    def say(self, lines: Iterable[Line]) -> None:
        """Open the sheet with a text below the title that it has."""
        self.query_one(Static).update(to_content(lines))
        self.display = True

    def ask(self, title: str, value: str) -> None:
        """Open the sheet with a line to answer in."""
        self.tell(title, ())
        line = self.query_one(Answer)
        line.value = value
        line.cursor_position = len(value)
        line.display = True
        line.focus()

    def answered(self) -> None:
        """Take the line to answer in away."""
        self.query_one(Answer).display = False

    def close(self) -> None:
        """Close the sheet."""
        self.answered()
        self.display = False

    def page(self, pages: int) -> bool:
        """Scroll the text; return whether there is more of it than fits."""
        text = self.query_one(self.Text)
        if not self.display or not text.max_scroll_y:
            return False
        text.scroll_to(y=text.scroll_y + pages * max(text.size.height - 1, 1), animate=False)
        return True
