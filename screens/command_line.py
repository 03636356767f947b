"""Command line at the bottom of a screen, with completion and history."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.suggester import Suggester
from textual.widgets import Input, Static

from screens.console_screen import ConsoleCommand
from screens.files import common_prefix

MAX_VALUES = 50
"""Maximum number of values of an argument that are listed."""


def complete(line: str, commands: Sequence[ConsoleCommand]) -> str:
    """Return a line with its command, or the first argument of it, completed to the common prefix."""
    word, blank, argument = line.partition(" ")
    candidates: Sequence[str] = [command.word for command in commands]
    if blank:
        candidates = next((command.values for command in commands if command.word == word), ())
    typed = argument if blank else word
    matching = [candidate for candidate in candidates if candidate.startswith(typed)]
    if not matching:
        return line
    completed = common_prefix(matching)
    end = " " if len(matching) == 1 and not blank else ""
    return f"{word}{blank}{completed}" if blank else f"{completed}{end}"


class _Completer(Suggester):
    """Suggests what `tab` completes."""

    def __init__(self, commands: Sequence[ConsoleCommand]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._commands = commands

    async def get_suggestion(self, value: str) -> str | None:
        """Return the completed line."""
        completed = complete(value, self._commands) if value else value
        return completed if completed.rstrip() != value else None


class CommandLine(ModalScreen[str]):
    """Asks for one command line. Returns "" if it is canceled."""

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
        Binding("tab", "complete", "Complete", id="command.complete"),
        Binding("up", "older(1)", "Previous line", id="command.older"),
        Binding("down", "older(-1)", "Next line", id="command.newer"),
    ]

    def __init__(self, commands: Sequence[ConsoleCommand], history: Sequence[str], text: str = "") -> None:
        """Create the dialog with a text to edit. `history` lists earlier lines, the latest last."""
        super().__init__()
        self._text = text
        self._commands = commands
        self._history = history
        self._history_index = 0

    def compose(self) -> ComposeResult:
        """Compose the input line and the matching commands above it."""
        with Vertical():
            yield Static(id="known")
            yield Input(
                self._text, placeholder=":", suggester=_Completer(self._commands), select_on_focus=False
            )

    def on_mount(self) -> None:
        """Show the commands that match the text."""
        self._show(self._text)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the commands that match the line."""
        self._show(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the line."""
        self.dismiss(event.value.strip())

    def action_cancel(self) -> None:
        """Return an empty line."""
        self.dismiss("")

    def action_complete(self) -> None:
        """Complete the word at the end of the line as far as it is unambiguous."""
        line = self.query_one(Input)
        line.value = complete(line.value, self._commands)
        line.cursor_position = len(line.value)

    def action_older(self, step: int) -> None:
        """Show an earlier or a later line."""
        self._history_index = max(0, min(self._history_index + step, len(self._history)))
        line = self.query_one(Input)
        line.value = self._history[-self._history_index] if self._history_index else ""
        line.cursor_position = len(line.value)

    def _show(self, text: str) -> None:
        word, blank, argument = text.partition(" ")
        matching = [command for command in self._commands if command.word.startswith(word)]
        exact = next((command for command in self._commands if command.word == word), None)
        if blank and exact is not None:
            matching = [exact]
        width = max((len(command.usage) for command in matching), default=0)
        lines = [
            Content.from_markup(
                "[$primary]$usage[/]  $summary",
                usage=command.usage.ljust(width),
                summary=command.summary,
            )
            for command in matching
        ]
        if blank and exact is not None:
            values = [value for value in exact.values if value.startswith(argument)]
            lines += [Content.styled("  ".join(values[:MAX_VALUES]), "dim")] if values else []
        content = Content("\n").join(lines) if matching else Content(f'unknown command "{word}"')
        self.query_one("#known", Static).update(content)
