"""Searchable lists: the tables of a project, and the columns of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.cells import cell_len, set_cell_size
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from screens.console_screen import StopWorkersFirst
from screens.project_client import ProjectClient
from screens.widgets.columns import sanitize
from svc_tui.client import SvcError
from svc_tui.terminal.units import plural


@dataclass(frozen=True, slots=True)
class Choice:
    """A name with its description."""

    name: str
    description: str


class Picker(StopWorkersFirst, ModalScreen[str]):
    """A list filtered by the typed text. Returns the chosen name, or "" for none."""

    GROUP: ClassVar[str] = "Tables"
    DEFAULT_CSS = """
    Picker { align: left top; background: $background 40%; }
    Picker > Vertical {
        width: 60; max-width: 96%; height: auto; max-height: 90%; margin: 1 1; padding: 0 1;
        background: $surface; border-left: outer $primary;
    }
    Picker Input { border: none; height: 1; padding: 0; background: $surface; margin-bottom: 1; }
    Picker Input:focus { border: none; }
    Picker OptionList { height: auto; max-height: 20; border: none; padding: 0; background: $surface; }
    Picker OptionList:focus { border: none; }
    Picker #none { display: none; color: $foreground-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="tables.picker-back"),
        Binding("down", "move(1)", "Down", show=False, priority=True, id="tables.picker-down"),
        Binding("up", "move(-1)", "Up", show=False, priority=True, id="tables.picker-up"),
    ]

    def __init__(self, placeholder: str, choices: Sequence[Choice] = ()) -> None:
        """Create the list. `placeholder` is shown in the empty input; `offer` can set the choices later."""
        super().__init__()
        self._placeholder, self._choices = placeholder, choices

    def compose(self) -> ComposeResult:
        """Compose the input and the list."""
        with Vertical():
            yield Input(placeholder=self._placeholder)
            yield OptionList()
            yield Static(id="none")

    def on_mount(self) -> None:
        """Move the focus to the input."""
        self.query_one(Input).focus()

    def offer(self, choices: Sequence[Choice]) -> None:
        """Show the choices that contain the typed text; those that start with it come first."""
        self._choices = choices
        typed = self.query_one(Input).value.lower()
        matches = sorted(
            (choice for choice in choices if typed in choice.name.lower()),
            key=lambda choice: not choice.name.lower().startswith(typed),
        )
        names = [sanitize(choice.name) for choice in matches]
        width = max(map(cell_len, names), default=0)
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(
            Option(
                Content.from_markup(
                    "[b]$name[/]  [dim]$about[/]", name=set_cell_size(name, width), about=choice.description
                ),
                id=choice.name,
            )
            for name, choice in zip(names, matches, strict=True)
        )
        options.highlighted = 0 if matches else None
        no_match = self.query_one("#none", Static)
        no_match.update("no matching name" if choices else "none yet")
        no_match.display = not matches

    def on_input_changed(self) -> None:
        """Filter the list."""
        self.offer(self._choices)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close with the highlighted name."""
        options = self.query_one(OptionList)
        if options.highlighted is not None:
            self.dismiss(str(options.get_option_at_index(options.highlighted).id))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Close with the clicked name."""
        self.dismiss(str(event.option.id))

    def action_move(self, rows: int) -> None:
        """Move the highlight."""
        options = self.query_one(OptionList)
        (options.action_cursor_down if rows > 0 else options.action_cursor_up)()

    def action_back(self) -> None:
        """Close without a choice."""
        self.dismiss("")


class ColumnPicker(Picker):
    """A list of columns."""

    def __init__(self, columns: Sequence[Choice]) -> None:
        super().__init__("which column?", columns)

    def on_mount(self) -> None:
        """List the columns."""
        self.offer(self._choices)


class TablePicker(Picker):
    """A list of the tables of a project."""

    def __init__(self, client: ProjectClient) -> None:
        super().__init__("which table?")
        self._client = client

    def on_mount(self) -> None:
        """Fetch the tables."""
        self.run_worker(self._fetch())

    async def _fetch(self) -> None:
        try:
            document = await self._client.call("GET", "/tables")
        except SvcError as error:
            self.notify(error.message, severity="error", markup=False)
            self.dismiss("")
            return
        self.offer([_table_choice(table) for table in document["tables"]])


def _table_choice(table: Mapping[str, Any]) -> Choice:
    """Return the choice for a table of `GET /tables`."""
    count = "many rows" if table["rows"] is None else plural(table["rows"], "row")
    kind = "view" if table["kind"] == "view" else count
    return Choice(table["name"], f"{kind:>16}  {table['note']}")
