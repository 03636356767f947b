"""Screens over any other: the palette, the help, the command line and the activity log."""

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult, SystemCommand
from textual.binding import ActiveBinding, Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from screens.console_screen import ConsoleCommand, KeyFooter, StopWorkersFirst
from screens.dialog import Completion, Dialog
from screens.files import common_prefix
from screens.project_client import ActivityLog
from screens.terminal_app import EVERYWHERE
from screens.widgets.rows import LINE_COLUMNS, TextLines, wrap_lines
from screens.widgets.virtual_list import GUTTER, VirtualRows

_MOVEMENT_ACTIONS = """
bottom down end jump move move_sideways next_edge next_match next_of_request page scroll scroll_details top up
"""
_MOVEMENTS = frozenset(_MOVEMENT_ACTIONS.split())
"""Actions that only move the cursor or the view."""


def is_movement(binding: Binding) -> bool:
    """Return whether a key only moves the cursor or the view."""
    return binding.action.rpartition(".")[2].partition("(")[0] in _MOVEMENTS


def by_use(active: ActiveBinding) -> tuple[bool, bool]:
    """Return the sort key of a binding: keys of the footer first, movements last."""
    return is_movement(active.binding), not active.binding.show


class EntryProvider(Provider):
    """Provides the commands of an application to Textual's palette. Their help is the keys, or ""."""

    def _displayed(self) -> list[tuple[SystemCommand, int]]:
        commands = [*self.app.get_system_commands(self.screen)]
        width = max((len(command.title) for command in commands), default=0)
        return [(command, width) for command in commands]

    async def discover(self) -> Hits:
        for (title, keys, run, _), width in self._displayed():
            yield DiscoveryHit(_line(Content(title), keys, width), run, text=title)

    async def search(self, query: str) -> Hits:
        """Yield the commands that match, with their match highlighted."""
        matcher = self.matcher(query)
        for (title, keys, run, _), width in self._displayed():
            if (score := matcher.match(title)) > 0:
                yield Hit(score, _line(matcher.highlight(title), keys, width), run, text=title)


def _line(title: Content, keys: str, width: int) -> Content:
    blanks = " " * (width - title.cell_length + 3)
    return Content.assemble(title, blanks, (keys, "$primary")) if keys else title


Keys = dict[str, list[tuple[str, str]]]
"""Pairs of keys and description by group, in the order of the key bindings."""


WIDE_CELLS = 116
"""Minimum screen width for two columns of keys."""


def binding_group(node: object) -> str:
    """Return the heading of a widget's keys; empty for widgets of Textual."""
    return str(getattr(node, "GROUP", ""))


class HelpScreen(Dialog[None]):
    """Shows the description of a screen and the keys that work now."""

    DEFAULT_CSS = """
    HelpScreen > VerticalScroll { width: 72; }
    HelpScreen.wide > VerticalScroll { width: 112; }
    HelpScreen .about { margin-bottom: 1; }
    HelpScreen Horizontal { height: auto; }
    HelpScreen .half { width: 1fr; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "dismiss", "Back", id="help.back")
    ]

    def __init__(self, about: str, keys: Keys) -> None:
        super().__init__()
        self._about, self._keys = about, keys

    def compose(self) -> ComposeResult:
        is_wide = self.app.size.width >= WIDE_CELLS
        self.set_class(is_wide, "wide")
        width = max((len(key) for rows in self._keys.values() for key, _ in rows), default=0)
        halves: tuple[list[Content], list[Content]] = ([], [])
        total, filled = sum(map(len, self._keys.values())), 0
        for group, rows in self._keys.items():
            lines = [
                Content.from_markup("  [b $primary]$key[/]  $does", key=key.ljust(width), does=description)
                for key, description in rows
            ]
            heading = Content.from_markup("[dim]$group[/]", group=group)
            half = halves[bool(filled) and is_wide and 2 * filled >= total]
            half.append(Content("\n").join([heading, *lines]))
            filled += len(rows)
        with VerticalScroll():
            if self._about:
                yield Static(Content(self._about), classes="about")
            with Horizontal():
                for half in filter(None, halves):
                    yield Static(Content("\n\n").join(half), classes="half")


def visible_keys(active: Iterable[ActiveBinding], display: Callable[[Binding], str], first: str = "") -> Keys:
    """Return the described bindings by group; keys with the same description share a row.

    The group `first` is the first one, and the group of the application the last one. Movements are last in
    their group.
    """
    groups: dict[str, dict[str, list[str]]] = {}
    for node, binding, *_ in sorted(active, key=by_use):
        if binding.id and binding.description and (group := binding_group(node)):
            groups.setdefault(group, {}).setdefault(binding.description, []).append(display(binding))
    return {
        group: [(" ".join(dict.fromkeys(keys)), description) for description, keys in rows.items()]
        for group, rows in sorted(groups.items(), key=lambda item: (item[0] != first, item[0] == EVERYWHERE))
    }


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


class CommandLine(ModalScreen[str]):
    """Asks for one command line. Returns "" if it is canceled."""

    GROUP: ClassVar[str] = "Command line"
    DEFAULT_CSS = """
    CommandLine { align: left bottom; background: transparent; }
    CommandLine > Vertical { height: auto; background: $surface; }
    CommandLine Input { height: 1; padding: 0 1; background: $surface; }
    CommandLine #known { padding: 0 1; color: $foreground-muted; height: auto; max-height: 12; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss('')", "Back", id="command.back"),
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
        with Vertical():
            yield Static(id="known")
            suggester = Completion(lambda value: complete(value, self._commands))
            yield Input(self._text, placeholder=":", suggester=suggester, select_on_focus=False)

    def on_mount(self) -> None:
        self._show(self._text)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._show(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())

    def action_complete(self) -> None:
        line = self.query_one(Input)
        line.value = complete(line.value, self._commands)
        line.cursor_position = len(line.value)

    def action_older(self, step: int) -> None:
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
        markup = "[$primary]$usage[/]  $summary"
        lines = [
            Content.from_markup(markup, usage=command.usage.ljust(width), summary=command.summary)
            for command in matching
        ]
        if blank and exact is not None:
            values = [value for value in exact.values if value.startswith(argument)]
            lines += [Content.styled("  ".join(values[:MAX_VALUES]), "dim")] if values else []
        content = Content("\n").join(lines) if matching else Content(f'unknown command "{word}"')
        self.query_one("#known", Static).update(content)


class ActivityScreen(StopWorkersFirst, Screen[None]):
    """Shows the actions, newest first."""

    GROUP: ClassVar[str] = "Activity"
    DEFAULT_CSS = """
    ActivityScreen { background: $background; }
    ActivityScreen > #title { height: 1; background: $panel; padding: 0 1; text-style: bold; }
    ActivityScreen > VirtualRows { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,at", "dismiss", "Back", id="activity.back")]

    def __init__(self, activity: ActivityLog) -> None:
        super().__init__()
        self._activity = activity

    def compose(self) -> ComposeResult:
        yield Static("Changes and messages, newest first", id="title")
        yield VirtualRows(TextLines(), LINE_COLUMNS, head=False, empty="no changes or messages yet")
        yield KeyFooter()

    def on_resize(self) -> None:
        lines = wrap_lines(self._activity.lines(), self.size.width - 2 * GUTTER)
        self.query_one(VirtualRows).set_source(TextLines(lines))
