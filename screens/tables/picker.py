"""Lists to choose a name from, narrowed by what is typed: the tables of a Project, the columns of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from screens.console_screen import StopWorkersFirst
from screens.project_client import ProjectClient
from svc_tui.client import SvcError


@dataclass(frozen=True, slots=True)
class Choice:
    """A name, and what stands beside it."""

    name: str
    about: str


class Picker(StopWorkersFirst, ModalScreen[str]):
    """Gives a name, empty where none is chosen."""

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
        Binding("escape", "leave", "Back", id="tables.picker-back"),
        Binding("down", "move(1)", "Down", show=False, priority=True, id="tables.picker-down"),
        Binding("up", "move(-1)", "Up", show=False, priority=True, id="tables.picker-up"),
    ]

    def __init__(self, asked: str, choices: Sequence[Choice] = ()) -> None:
        """`asked` stands in the empty line; `choices` may come later, by `offer`."""
        super().__init__()
        self._asked, self._choices = asked, choices

    def compose(self) -> ComposeResult:
        """Place the line and the list."""
        with Vertical():
            yield Input(placeholder=self._asked)
            yield OptionList()
            yield Static(id="none")

    def on_mount(self) -> None:
        """Begin with the line."""
        self.query_one(Input).focus()

    def offer(self, choices: Sequence[Choice]) -> None:
        """List these, those first that begin with what is typed."""
        self._choices = choices
        typed = self.query_one(Input).value.lower()
        fits = sorted(
            (each for each in choices if typed in each.name.lower()),
            key=lambda each: not each.name.lower().startswith(typed),
        )
        width = max((len(each.name) for each in fits), default=0)
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(
            Option(
                Content.from_markup(
                    "[b]$name[/]  [dim]$about[/]", name=each.name.ljust(width), about=each.about
                ),
                id=each.name,
            )
            for each in fits
        )
        options.highlighted = 0 if fits else None
        none = self.query_one("#none", Static)
        none.update("no name has this in it" if choices else "there are none yet")
        none.display = not fits

    def on_input_changed(self) -> None:
        """Narrow the list."""
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
        """Choose another name."""
        options = self.query_one(OptionList)
        (options.action_cursor_down if rows > 0 else options.action_cursor_up)()

    def action_leave(self) -> None:
        """Choose none."""
        self.dismiss("")


class ColumnPicker(Picker):
    """Gives the name of one of the columns that there are."""

    def __init__(self, columns: Sequence[Choice]) -> None:
        super().__init__("which column?", columns)

    def on_mount(self) -> None:
        """List the columns."""
        self.offer(self._choices)


class TablePicker(Picker):
    """Gives the name of a table."""

    def __init__(self, link: ProjectClient) -> None:
        super().__init__("which table?")
        self._link = link

    def on_mount(self) -> None:
        """Fetch the tables."""
        self.run_worker(self._fetch())

    async def _fetch(self) -> None:
        try:
            found = await self._link.call("GET", "/tables")
        except SvcError as error:
            self.notify(error.message, severity="error", markup=False)
            self.dismiss("")
            return
        self.offer([_table(each) for each in found["tables"]])


def _table(told: Mapping[str, Any]) -> Choice:
    """Return a table of the control API's document."""
    count = "many rows" if told["rows"] is None else f"{told['rows']:,} rows"
    what = "view" if told["kind"] == "view" else count
    return Choice(told["name"], f"{what:>16}  {told['note']}")
