"""Command line at the bottom of a screen, with completion and history."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from screens.console_screen import ConsoleCommand


class CommandLine(ModalScreen[str]):
    """Asks for one command line. Returns "" if it is cancelled."""

    GROUP: ClassVar[str] = "Command line"
    DEFAULT_CSS = """
    CommandLine { align: left bottom; background: transparent; }
    CommandLine > Vertical { height: auto; background: $surface; }
    CommandLine Input { border: none; height: 1; padding: 0 1; background: $surface; }
    CommandLine Input:focus { border: none; }
    CommandLine #known { padding: 0 1; color: $foreground-muted; height: auto; max-height: 8; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Back", id="command.back"),
        Binding("up", "older(1)", "Previous line", id="command.older"),
        Binding("down", "older(-1)", "Next line", id="command.newer"),
    ]

    def __init__(self, commands: Sequence[ConsoleCommand], history: Sequence[str]) -> None:
        """Create the dialog. `history` lists earlier lines, the latest last."""
        super().__init__()
        self._commands = commands
        self._history = history
        self._history_index = 0

    def compose(self) -> ComposeResult:
        """Compose the input line and the matching commands above it."""
        words = [command.word for command in self._commands]
        with Vertical():
            yield Static(id="known")
            yield Input(placeholder=":", suggester=SuggestFromList(words), select_on_focus=False)

    def on_mount(self) -> None:
        """Show all commands."""
        self._show("")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the commands that match the line."""
        self._show(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the line."""
        self.dismiss(event.value.strip())

    def action_cancel(self) -> None:
        """Return an empty line."""
        self.dismiss("")

    def action_older(self, step: int) -> None:
        """Show an earlier or a later line."""
        self._history_index = max(0, min(self._history_index + step, len(self._history)))
        line = self.query_one(Input)
        line.value = self._history[-self._history_index] if self._history_index else ""
        line.cursor_position = len(line.value)

    def _show(self, text: str) -> None:
        word = text.split(" ", 1)[0]
        matching = [command for command in self._commands if command.word.startswith(word)]
        width = max((len(command.usage) for command in matching), default=0)
        lines = [
            Content.from_markup(
                "[$primary]$usage[/]  $summary",
                usage=command.usage.ljust(width),
                summary=command.summary,
            )
            for command in matching
        ]
        content = Content("\n").join(lines) if matching else Content(f'unknown command "{word}"')
        self.query_one("#known", Static).update(content)
