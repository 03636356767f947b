"""Dialogs with one question, answered by a key."""

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from screens.widgets.component_styles import to_content
from screens.widgets.row_source import Line


def key_hints(*hints: tuple[str, str, str]) -> Static:
    """Return a line of clickable keys, each a key, its action and a label."""
    return Static(key_line(*hints), classes="keys")


def key_line(*hints: tuple[str, str, str]) -> Content:
    """Return the text of clickable keys, each a key, its action and a label."""
    parts = [
        Content.from_markup(f"[@click=screen.{action}][b $primary]$key[/] $label[/]", key=key, label=label)
        for key, action, label in hints
    ]
    return Content("    ").join(parts)


class FittedLines(Static):
    """Lines that depend on the width."""

    def __init__(self, lines: Callable[[int], Iterable[Line]]) -> None:
        """Create the widget. `lines` returns the lines for a number of cells."""
        super().__init__()
        self._lines = lines

    def on_resize(self) -> None:
        """Show the lines for the new width."""
        self.update(to_content(self._lines(self.size.width)))


class ChoiceDialog(ModalScreen[str]):
    """Shows some lines and asks for one of several choices. Returns "" if it is canceled."""

    DEFAULT_CSS = """
    ChoiceDialog { align: center middle; background: $background 60%; }
    ChoiceDialog > VerticalScroll {
        width: 90; max-width: 96%; height: auto; max-height: 90%; scrollbar-size-vertical: 1;
        padding: 1 2; background: $surface; border-left: outer $primary;
    }
    ChoiceDialog .keys { dock: bottom; padding-top: 1; background: $surface; link-style: none; }
    """
    CHOICES: ClassVar[tuple[tuple[str, str, str], ...]]
    """Key, result and label of each choice."""

    def compose(self) -> ComposeResult:
        """Compose the lines and the choices."""
        with VerticalScroll():
            yield FittedLines(self.lines)
            yield key_hints(*((key, f"choose('{choice}')", label) for key, choice, label in self.CHOICES))

    def lines(self, room: int) -> Iterable[Line]:
        """Return the lines above the choices, for `room` cells."""
        raise NotImplementedError

    def action_choose(self, choice: str) -> None:
        """Return the choice."""
        self.dismiss(choice)


class ConfirmDialog(ModalScreen[bool]):
    """Asks one yes/no question: `y` confirms; `n`, `esc` and a click outside cancel."""

    GROUP: ClassVar[str] = "Question"
    DEFAULT_CSS = """
    ConfirmDialog { align: center middle; background: $background 60%; }
    ConfirmDialog > VerticalScroll {
        width: auto; min-width: 40; max-width: 90%; height: auto; max-height: 80%;
        scrollbar-size-vertical: 1; padding: 1 2; background: $surface; border-left: outer $warning;
    }
    ConfirmDialog .title { text-style: bold; width: auto; max-width: 100%; }
    ConfirmDialog .text { color: $foreground-muted; width: auto; max-width: 100%; }
    ConfirmDialog .change { width: auto; max-width: 100%; margin-top: 1; }
    ConfirmDialog .keys { dock: bottom; width: 100%; padding-top: 1; background: $surface; link-style: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", id="question.yes"),
        Binding("n,escape", "answer(False)", "No", id="question.no"),
    ]

    def __init__(self, title: str, text: str, yes: str, lines: Sequence[Line] = ()) -> None:
        """Create the dialog. `yes` labels the confirmation: `delete 3 rows`. `lines` show a change."""
        super().__init__()
        self._title, self._text, self._confirm_label, self._lines = title, text, yes, lines

    def compose(self) -> ComposeResult:
        """Compose the question and the two answers."""
        with VerticalScroll():
            yield Static(Content(self._title), classes="title")
            yield Static(Content(self._text), classes="text")
            if self._lines:
                yield Static(to_content(self._lines), classes="change")
            yield key_hints(("y", "answer(True)", self._confirm_label), ("n", "answer(False)", "cancel"))

    def action_answer(self, answer: bool) -> None:
        """Return the answer."""
        self.dismiss(answer)

    def on_click(self, event: object) -> None:
        """Cancel on a click outside the dialog."""
        if getattr(event, "widget", None) is self:
            self.dismiss(False)
