"""The box for SQL: a statement, its history, and what it gave, below it."""

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static, TextArea

from screens.console_screen import StopWorkersFirst
from screens.project_client import ProjectClient
from screens.tables.column_types import fetch_types
from screens.tables.history import History
from screens.tables.result import ResultRows, describe_result, line_and_column, position
from screens.tables.table_view import Nothing
from screens.widgets.virtual_rows import VirtualRows
from svc_tui.client import SvcError
from svc_tui.column_types import ColumnTypes


class Statement(TextArea):
    """Where the statement is written; the cursor leaves it upwards and downwards into the history."""

    GROUP: ClassVar[str] = "SQL"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "up", "Up", show=False, id="sql.up"),
        Binding("down", "down", "Down", show=False, id="sql.down"),
    ]

    def action_up(self) -> None:
        """Go up; from the first line to the statement of before."""
        if self.cursor_at_first_line:
            self.screen.call_next(self.screen.run_action, "history(1)")
        else:
            self.action_cursor_up()

    def action_down(self) -> None:
        """Go down; from the last line to the statement after."""
        if self.cursor_at_last_line:
            self.screen.call_next(self.screen.run_action, "history(-1)")
        else:
            self.action_cursor_down()


class SqlScreen(StopWorkersFirst, Screen[bool]):
    """Gives whether anything was written. It only reads until that is allowed."""

    GROUP: ClassVar[str] = "SQL"
    AUTO_FOCUS = "Statement"
    DEFAULT_CSS = """
    SqlScreen {
        background: $background;
        & #head { height: 1; padding: 0 1; background: $panel; link-style: none; }
        & Statement { height: 8; max-height: 40%; border: none; padding: 0 1; background: $surface; }
        & Statement:focus { border: none; }
        & #outcome { height: auto; max-height: 4; padding: 0 1; }
        & VirtualRows { height: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f9", "run", "Run", priority=True, id="sql.run"),
        Binding("ctrl+t", "writes", "Allow writing", priority=True, id="sql.writes"),
        Binding("y", "copy", "Copy", show=False, id="sql.copy"),
        Binding("escape", "leave", "Back", priority=True, id="sql.back"),
    ]

    def __init__(self, link: ProjectClient, history: History, text: str = "") -> None:
        super().__init__()
        self._link, self._history, self._text = link, history, text
        self._writes = self._wrote = False
        self._result: ResultRows | None = None
        self._types: ColumnTypes | None = None

    def compose(self) -> ComposeResult:
        """Place the statement, what it did, and its rows."""
        yield Static(id="head")
        yield Statement(self._text, show_line_numbers=False)
        yield Static(id="outcome")
        yield VirtualRows(Nothing(), (), cursor="cell")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Begin behind the last character."""
        field = self.query_one(Statement)
        field.move_cursor(field.document.end)
        self._tell_head()
        self._tell("tab goes to the rows, ↑ to the statements of before", "$foreground 60%")

    def _tell_head(self) -> None:
        how = "[$text-warning]may write[/]" if self._writes else "[dim]only reads[/]"
        text = f" [b]SQL[/]  [b $primary]$project[/]  [@click=screen.writes]{how}[/]"
        content = Content.from_markup(text, project=self._link.info.project)
        self.query_one("#head", Static).update(content)

    def _tell(self, text: str, style: str) -> None:
        self.query_one("#outcome", Static).update(Content.styled(text, style))

    def action_writes(self) -> None:
        """Toggle between statements that may write and statements that only read."""
        self._writes = not self._writes
        self._tell_head()

    def action_history(self, back: int) -> None:
        """Show another statement."""
        field = self.query_one(Statement)
        found = self._history.step(back, field.text)
        if found is not None:
            field.text = found
            field.move_cursor(field.document.end)

    def action_run(self) -> None:
        """Run the statement, unless one runs."""
        text = self.query_one(Statement).text
        if text.strip():
            does: Any = self._run_statement
            self.run_worker(does, group="sql", exclusive=True)

    async def _run_statement(self) -> None:
        field = self.query_one(Statement)
        text, writes = field.text, self._writes
        self._history.ran(text)
        self._tell("…", "$foreground 60%")
        try:
            self._types = self._types or await fetch_types(self._link)
            result = await self._link.call("POST", "/sql", {"sql": text, "write": writes})
        except SvcError as error:
            self._wrong(text, error)
            return
        self._wrote = self._wrote or writes
        self._result = ResultRows(result, self._types)
        rows = self.query_one(VirtualRows)
        rows.set_source(self._result, self._result.columns())
        self._tell(describe_result(result), "$text-success" if not result["truncated"] else "$text-warning")

    def _wrong(self, text: str, error: SvcError) -> None:
        """Show an error, and select its place in the statement."""
        self._tell(error.text, "$text-error")
        at = position(error.message)
        if at is not None:
            field = self.query_one(Statement)
            start = line_and_column(text, at)
            field.move_cursor(start)
            field.move_cursor((start[0], start[1] + 1), select=True)
            field.focus()

    def action_copy(self) -> None:
        """Copy the cell."""
        rows = self.query_one(VirtualRows)
        if self._result is not None and rows.count:
            self.app.copy_to_clipboard(self._result.cell(rows.cursor_row, rows.cursor_column))
            self.notify("the cell is in the clipboard", timeout=2)

    def action_leave(self) -> None:
        """Go back to the table."""
        self.dismiss(self._wrote)
