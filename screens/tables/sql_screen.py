"""SQL screen: a statement with completion and history, and its result below."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static, TextArea

from screens.console_screen import KeyFooter, StopWorkersFirst, is_working
from screens.project_client import ProjectClient
from screens.tables import sql_text
from screens.tables.forms import result_export
from screens.widgets.component_styles import ComponentStyles
from screens.widgets.rows import LINE_COLUMNS, Line, Piece, TextLines, sanitize
from screens.widgets.virtual_list import VirtualRows
from svc_tui.client import SvcError

WIDE_CELLS = 120
"""Minimum width of a screen that shows the catalog."""


class Catalog(VirtualRows):
    """The list of tables and columns."""

    GROUP: ClassVar[str] = "SQL"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Insert the name", id="sql.insert-name")
    ]

    @dataclass
    class NameChosen(Message):
        """A name was chosen; `text` is its form in SQL."""

        text: str

    def __init__(self) -> None:
        super().__init__(TextLines(), LINE_COLUMNS, head=False, empty="no tables", id="catalog")
        self._names: list[str] = []

    def set_tables(self, tables: Sequence[Mapping[str, Any]]) -> None:
        """Show tables of `GET /tables`."""
        lines: list[Line] = []
        self._names = []
        for table in tables:
            lines.append([(sanitize(table["name"]), "accent")])
            self._names.append(table["name"])
            for column in table["columns"]:
                key = " key" if column["primary_key"] else ""
                about: Piece = (f"  {column['type']}{key}", "dim")
                lines.append([("  ", ""), (sanitize(column["name"]), ""), about])
                self._names.append(column["name"])
        self.set_source(TextLines(lines))

    def action_open(self) -> None:
        if self.cursor_row < len(self._names):
            self.post_message(self.NameChosen(sql_text.quoted_name(self._names[self.cursor_row])))


class SqlInput(TextArea):
    """Text area for the statement, with colors and completion of the names of `names`.

    Up on its first line and down on its last one browse the history.
    """

    GROUP: ClassVar[str] = "SQL"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", "Complete", show=False, id="sql.complete"),
        Binding("up", "up", "Up", show=False, id="sql.up"),
        Binding("down", "down", "Down", show=False, id="sql.down"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__(text, show_line_numbers=False, highlight_cursor_line=False)
        self.names: frozenset[str] = frozenset()
        self._tone_style = ComponentStyles(self)
        self._colored_text = ""
        self._spans: dict[int, list[sql_text.StyledRange]] = {}

    def notify_style_update(self) -> None:
        """Clear cached styles."""
        super().notify_style_update()
        self._tone_style.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        text = "\n".join(self.document.lines)
        if text != self._colored_text:
            self._colored_text, self._spans = text, sql_text.spans_by_line(text)
        return super().render_lines(crop)

    def get_line(self, line_index: int) -> Text:
        """Return a line with its colors."""
        line = super().get_line(line_index)
        for span in self._spans.get(line_index, ()):
            line.stylize(self._tone_style(span.tone), span.start, span.end)
        return line

    def update_suggestion(self) -> None:
        """Suggest the rest of the word at the end of a line."""
        row, column = self.cursor_location
        self.suggestion = ""
        if column == len(self.document.get_line(row)):
            before = self.document.get_text_range((0, 0), (row, column))
            if len(before) <= sql_text.MAX_COLORED:
                self.suggestion = sql_text.completion(before, self.names)

    def action_complete(self) -> None:
        if self.suggestion:
            row, column = self.cursor_location
            line = self.document.get_line(row)[:column]
            word = sql_text.LAST_WORD.search(line)
            start = word.start() if word else column
            first = '"' if self.suggestion.endswith('"') and not line[:start].endswith('"') else ""
            completed = f"{first}{line[start:]}{self.suggestion}"
            self.replace(completed, (row, start), (row, column), maintain_selection_offset=False)
        else:
            self.screen.focus_next()

    def action_up(self) -> None:
        if self.cursor_at_first_line:
            self.screen.call_next(self.screen.run_action, "history(1)")
        else:
            self.action_cursor_up()

    def action_down(self) -> None:
        if self.cursor_at_last_line:
            self.screen.call_next(self.screen.run_action, "history(-1)")
        else:
            self.action_cursor_down()


@dataclass(frozen=True, slots=True)
class SqlTarget:
    """Target of statements: a route of the control API, and its title in the screen.

    `views` are the only objects that can be read; empty for the tables of the project, which can be written.
    """

    path: str
    title: str
    views: tuple[str, ...] = ()

    def body(self, sql: str, *, write: bool) -> dict[str, Any]:
        return {"sql": sql} if self.views else {"sql": sql, "write": write, "cells": True}


TABLES = SqlTarget("/sql", "SQL")
TIMELINE = SqlTarget("/logs/sql", "SQL of the logs", ("requests", "spans", "records", "lines", "metrics"))


class SqlScreen(StopWorkersFirst, Screen[bool]):
    """Returns whether a statement may have written. Statements only read until writing is allowed."""

    GROUP: ClassVar[str] = "SQL"
    AUTO_FOCUS = "SqlInput"
    DEFAULT_CSS = """
    SqlScreen {
        background: $background;
        & #head { height: 1; padding: 0 1; background: $panel; link-style: none; }
        & SqlInput { height: 8; max-height: 40%; background: $surface; }
        & #outcome { height: auto; max-height: 4; padding: 0 1; }
        & #result { height: 1fr; }
        & #catalog { display: none; width: 34; background: $surface; margin: 0 1 0 0; }
        &.wide #catalog { display: block; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f9", "run(False)", "Run", priority=True, id="sql.run"),
        Binding("ctrl+g,f8", "run(True)", "Explain", priority=True, id="sql.explain"),
        Binding("ctrl+t", "writes", "Allow writing", priority=True, id="sql.writes"),
        Binding("y", "copy", "Copy", show=False, id="sql.copy"),
        Binding("x", "export", "Export", show=False, id="sql.export"),
        Binding("escape", "back", "Back", priority=True, id="sql.back"),
    ]

    def __init__(
        self,
        client: ProjectClient,
        history: sql_text.StatementHistory,
        text: str = "",
        target: SqlTarget = TABLES,
    ) -> None:
        super().__init__()
        self._client, self._history, self._text, self._target = client, history, text, target
        self._writes = self._wrote = False
        self._result: sql_text.ResultRows | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        with Horizontal():
            yield Catalog()
            with Vertical():
                yield SqlInput(self._text)
                yield Static(id="outcome")
                yield VirtualRows(TextLines(), (), cursor="cell", id="result")
        yield KeyFooter()

    def on_mount(self) -> None:
        field = self.query_one(SqlInput)
        field.move_cursor(field.document.end)
        self._update_head()
        hint = "tab completes a word or goes to the rows, ↑ to earlier statements"
        self._show_outcome(hint, "$foreground 60%")
        self._load_names()

    @work(group="names")
    async def _load_names(self) -> None:
        with suppress(SvcError):  # A statement can be typed without.
            tables = await self._tables()
            columns = {column["name"] for table in tables for column in table["columns"]}
            self.query_one(SqlInput).names = frozenset({table["name"] for table in tables} | columns)
            self.query_one(Catalog).set_tables(tables)

    async def _tables(self) -> list[dict[str, Any]]:
        """Return the tables, or views, with their columns. Raises `SvcError`."""
        if not self._target.views:
            return list((await self._client.call("GET", "/tables"))["tables"])
        views = []
        for name in self._target.views:
            body = self._target.body(f"select * from {name} limit 0", write=False)
            columns = (await self._client.call("POST", self._target.path, body))["columns"]
            views.append({"name": name, "columns": [column | {"primary_key": False} for column in columns]})
        return views

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "writes" or not self._target.views

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE_CELLS, "wide")

    def on_catalog_name_chosen(self, event: Catalog.NameChosen) -> None:
        field = self.query_one(SqlInput)
        field.insert(event.text)
        field.focus()

    def _update_head(self) -> None:
        mode = "[$text-warning]may write[/]" if self._writes else "[dim]read-only[/]"
        text = f" [b]$title[/]  [b $primary]$project[/]  [@click=screen.writes]{mode}[/]"
        content = Content.from_markup(text, title=self._target.title, project=self._client.info.project)
        self.query_one("#head", Static).update(content)

    def _show_outcome(self, text: str, style: str) -> None:
        self.query_one("#outcome", Static).update(Content.styled(text, style))

    def action_writes(self) -> None:
        self._writes = not self._writes
        self._update_head()

    def action_history(self, back: int) -> None:
        field = self.query_one(SqlInput)
        if (statement := self._history.step(back, field.text)) is not None:
            field.text = statement
            field.move_cursor(field.document.end)

    def action_run(self, explain: bool) -> None:
        """Run the statement, or explain it; stop waiting for a running one."""
        text = self.query_one(SqlInput).text
        if text.strip():
            (self._explain if explain else self._run_statement)(text, self._writes)

    @work(group="sql", exclusive=True)
    async def _run_statement(self, text: str, writes: bool) -> None:
        self._history.add(text)
        try:
            types = await self._client.column_types()
            result = await self._call(text, writes)
        except SvcError as error:
            self._show_failure(text, error)
            return
        self._wrote = self._wrote or writes
        self._result = sql_text.ResultRows(result, types)
        self._rows.set_source(self._result, self._result.columns())
        style = "$text-success" if not result["truncated"] else "$text-warning"
        self._show_outcome(sql_text.describe_result(result), style)

    async def _call(self, text: str, writes: bool) -> Any:
        """Return the response of a statement; show the time until then. Raises `SvcError`."""
        started = time.monotonic()

        def show_time() -> None:
            self._show_outcome(f"{time.monotonic() - started:.0f} s · esc stops it", "$foreground 60%")

        self._show_outcome("…", "$foreground 60%")
        timer = self.set_interval(1, show_time)
        try:
            body = self._target.body(text, write=writes)
            return await self._client.cancelable("POST", self._target.path, body)
        finally:
            timer.stop()

    @work(group="sql", exclusive=True)
    async def _explain(self, text: str, writes: bool) -> None:
        try:
            statement = text if sql_text.EXPLAIN.match(text) else f"EXPLAIN QUERY PLAN {text}"
            result = await self._call(statement, writes)
        except SvcError as error:
            self._show_outcome(self._error_text(error), "$text-error")
            return
        self._result = None
        self._rows.set_source(TextLines(sql_text.plan_lines(result["rows"])), LINE_COLUMNS)
        self._show_outcome("plan of the statement, which was not run", "$text-success")

    @property
    def _rows(self) -> VirtualRows:
        return self.query_one("#result", VirtualRows)

    @staticmethod
    def _error_text(error: SvcError) -> str:
        """Return an error and its hint, which names the key for writes instead of options of other tools."""
        if error.code == "writes-in-query":
            return f"{error.message}\nPress ctrl+t to permit writes."
        return error.text

    def _show_failure(self, text: str, error: SvcError) -> None:
        """Show an error without the rows before, and select its position in the statement."""
        self._result = None
        self._rows.set_source(TextLines(), LINE_COLUMNS)
        self._show_outcome(self._error_text(error), "$text-error")
        at = sql_text.error_position(error.message)
        if at is not None:
            field = self.query_one(SqlInput)
            start = sql_text.line_and_column(text, at)
            field.move_cursor(start)
            field.move_cursor((start[0], start[1] + 1), select=True)
            field.focus()

    def action_copy(self) -> None:
        rows = self._rows
        if self._result is not None and rows.count:
            self.app.copy_to_clipboard(self._result.cell(rows.cursor_row, rows.cursor_column))
            self.notify("copied the cell", timeout=2)

    def action_export(self) -> None:
        if self._result is not None and self._result.names:
            self.app.push_screen(result_export(self._result))

    def action_back(self) -> None:
        if not is_working(self, "sql"):
            self.dismiss(self._wrote)
            return
        self.workers.cancel_group(self, "sql")
        self._wrote = self._wrote or self._writes
        self._show_outcome("stopped", "$text-warning")
