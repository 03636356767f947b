"""A question over the screen that is answered with yes or no. What yes does is the asker's."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static


class ConfirmDialog(ModalScreen[bool]):
    """Asks one thing. `y` says yes; `n`, `esc` and a click beside it say no."""

    GROUP: ClassVar[str] = "Question"
    DEFAULT_CSS = """
    Question { align: center middle; background: $background 60%; }
    Question > Vertical {
        width: auto; min-width: 40; max-width: 90%; height: auto; max-height: 80%;
        padding: 1 2; background: $surface; border-left: outer $warning;
    }
    Question .title { text-style: bold; width: auto; max-width: 100%; }
    Question .text { color: $foreground-muted; width: auto; max-width: 100%; }
    Question .keys { margin-top: 1; width: auto; link-style: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", id="question.yes"),
        Binding("n,escape", "answer(False)", "No", id="question.no"),
    ]

    def __init__(self, title: str, text: str, yes: str) -> None:
        """`yes` says what is done then: `quit`, `delete 3 rows`."""
        super().__init__()
        self._title, self._text, self._confirm_label = title, text, yes

    def compose(self) -> ComposeResult:
        """Place the question and its two answers."""
        with Vertical():
            yield Static(Content(self._title), classes="title")
            yield Static(Content(self._text), classes="text")
            yield Static(
                Content.from_markup(
                    "[@click=screen.answer(True)][b $primary]y[/] $yes[/]    "
                    "[@click=screen.answer(False)][b $primary]n[/] back[/]",
                    yes=self._confirm_label,
                ),
                classes="keys",
            )

    def action_answer(self, answer: bool) -> None:
        """Close with the answer."""
        self.dismiss(answer)

    def on_click(self, event: object) -> None:
        """Take a click beside the question for a no."""
        if getattr(event, "widget", None) is self:
            self.dismiss(False)
