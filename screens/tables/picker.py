"""The list of tables to choose from."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from screens.ending import EndsFirst
from screens.link import Link
from svc_tui.client import SvcError


class TablePicker(EndsFirst, ModalScreen[str]):
    """Gives the name of a table; what is typed narrows the list."""

    GROUP: ClassVar[str] = "Tables"
    DEFAULT_CSS = """
    TablePicker { align: left top; background: $background 40%; }
    TablePicker > Vertical {
        width: 60; max-width: 96%; height: auto; max-height: 90%; margin: 1 1; padding: 0 1;
        background: $surface; border-left: outer $primary;
    }
    TablePicker Input { border: none; height: 1; padding: 0; background: $surface; margin-bottom: 1; }
    TablePicker Input:focus { border: none; }
    TablePicker OptionList { height: auto; max-height: 20; border: none; padding: 0; background: $surface; }
    TablePicker OptionList:focus { border: none; }
    TablePicker #none { display: none; color: $foreground-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", id="tables.picker-back"),
        Binding("down", "move(1)", "Down", show=False, priority=True, id="tables.picker-down"),
        Binding("up", "move(-1)", "Up", show=False, priority=True, id="tables.picker-up"),
    ]

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link
        self._tables: list[tuple[str, str, str]] = []

    def compose(self) -> ComposeResult:
        """Place the line and the list."""
        with Vertical():
            yield Input(placeholder="which table?")
            yield OptionList()
            yield Static("there are no tables yet", id="none")

    def on_mount(self) -> None:
        """Fetch the tables."""
        self.query_one(Input).focus()
        self.run_worker(self._fetch())

    async def _fetch(self) -> None:
        try:
            found = await self._link.call("GET", "/tables")
        except SvcError as error:
            self.notify(error.message, severity="error", markup=False)
            self.dismiss("")
            return
        for table in found["tables"]:
            count = "many rows" if table["rows"] is None else f"{table['rows']:,} rows"
            self._tables.append((table["name"], "view" if table["kind"] == "view" else count, table["note"]))
        self._fill("")

    def _fill(self, typed: str) -> None:
        options = self.query_one(OptionList)
        options.clear_options()
        fits = [each for each in self._tables if typed.lower() in each[0].lower()]
        width = max((len(name) for name, _, _ in fits), default=0)
        for name, count, note in fits:
            text = "[b]$name[/]  [dim]$count  $note[/]"
            options.add_option(
                Option(
                    Content.from_markup(text, name=name.ljust(width), count=f"{count:>16}", note=note),
                    id=name,
                )
            )
        options.highlighted = 0 if fits else None
        self.query_one("#none").display = not fits

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow the list."""
        self._fill(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the table that is chosen."""
        options = self.query_one(OptionList)
        if options.highlighted is not None:
            self.dismiss(str(options.get_option_at_index(options.highlighted).id))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take the table that was clicked."""
        self.dismiss(str(event.option.id))

    def action_move(self, rows: int) -> None:
        """Choose another table."""
        options = self.query_one(OptionList)
        (options.action_cursor_down if rows > 0 else options.action_cursor_up)()

    def action_leave(self) -> None:
        """Choose none."""
        self.dismiss("")
