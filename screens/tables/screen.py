"""The Tables tab: staged edits and applying them, keys, commands, schema changes and files."""

import asyncio
import json
import os
import re
import shlex
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

from textual import events, on, work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static

from screens.console_screen import ConsoleCommand, Tab
from screens.files import CHUNK_BYTES, edit_text, editor_command, parse_path, read_blob
from screens.project_client import ProjectClient
from screens.tables import dialogs
from screens.tables.cells import NOW, as_text, is_cut, read
from screens.tables.draft import Draft, NewRow, StagedChange
from screens.tables.forms import AlterForm, CreateForm, ImportForm, table_export
from screens.tables.grid import (
    MAX_ROWS,
    ColumnLayout,
    Condition,
    RemoteGrid,
    TableColumn,
    TableRow,
    cells,
    default_text,
    targets,
)
from screens.tables.sql_screen import SqlScreen
from screens.tables.sql_text import StatementHistory, TextStore
from screens.tables.table_view import CellInput, TableView
from screens.terminal_app import downloads_of, require_local
from screens.widgets.rows import sanitize
from svc_tui.client import SvcError
from svc_tui.tables_syntax import changed_cells, history_begin, wrote
from svc_tui.terminal.units import local_time, parse_moment, plural

MAX_LINE_LENGTH, MAX_TEXT_LENGTH = 1000, 100_000
"""Maximum characters of a cell that is edited in one line, and of one that is edited in the Console."""
_LINE_ENDS = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Line ends of a TextArea, which writes one of them at the end of each line."""
MAX_COPIED_LENGTH = 40
"""Maximum characters of a copied value in its notification."""


def _normalized(text: str) -> str:
    """Return a pasted text with line feeds: terminals send the key that ends a line."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


APPLYING = "apply"
"""The group of the workers that apply staged edits."""
_TABLE_ACTIONS = """
edit add delete filter sort drop_last_filter apply edit_outside column columns stats history step revert
"""
_NEEDS_TABLE = frozenset(_TABLE_ACTIONS.split())


class TablesScreen(TableView):
    """The tables: the grid of one at a time, with staged edits."""

    TAB: ClassVar[Tab] = "tables"
    GROUP: ClassVar[str] = "Tables"
    HELP: ClassVar[str] = (
        "A table as a grid. Edits are staged and highlighted; ctrl+s applies them in one transaction. "
        "Rows that others have changed are conflicts. Filters: name~an age>=30 mood=null, any text."
    )
    AUTO_FOCUS = "VirtualRows"
    DEFAULT_CSS = """
    TablesScreen {
        layers: base above;
        & #status { height: 1; padding: 0 1; }
        & #status > Static { width: 1fr; height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & #table { link-style: none; link-color: $foreground; }
        & #staged { display: none; margin-left: 2; text-align: right; color: $text-warning; }
        & .-staged > #table { width: auto; max-width: 55%; }
        & .-staged > #staged { display: block; }
        & VirtualRows { height: 1fr; }
        & #record {
            height: 1fr; border-top: solid $foreground 20%; padding: 0 2; scrollbar-size-vertical: 1;
        }
        & #record > Static { height: auto; }
        & #line { display: none; height: auto; background: $surface; padding: 0 1; }
        & #line > #prompt { height: auto; color: $foreground-muted; }
        & LineInput { height: 1; padding: 0; background: $surface; }
        & #cell { display: none; layer: above; background: $warning-muted; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "tables", "Table", id="tables.choose"),
        Binding("e", "edit", "Edit", id="tables.edit"),
        Binding("a", "add", "Add", id="tables.add"),
        Binding("d", "delete", "Delete", id="tables.delete"),
        Binding("slash", "filter", "Filter", id="tables.filter"),
        Binding("s", "sort(False)", "Sort", show=False, id="tables.sort"),
        Binding("S", "sort(True)", "Add to sort", show=False, id="tables.sort-more"),
        Binding("backspace", "drop_last_filter", "Drop last filter", show=False, id="tables.less"),
        Binding("u", "move_edits('undo')", "Undo", show=False, id="tables.undo"),
        Binding("U", "move_edits('redo')", "Redo", show=False, id="tables.redo"),
        Binding("ctrl+s", "apply", "Apply", id="tables.apply"),
        Binding("E", "edit_outside", "Edit in $EDITOR", show=False, id="tables.edit-outside"),
        Binding("c", "column", "Go to a column", show=False, id="tables.column"),
        Binding("C", "columns", "Columns", show=False, id="tables.columns"),
        Binding("F", "stats", "Statistics of the column", show=False, id="tables.stats"),
        Binding("b", "history", "History of the cell", show=False, id="tables.history"),
        Binding("z", "revert", "Revert what last wrote the row", show=False, id="tables.revert"),
        Binding("less_than_sign", "step(-1)", "Before the last change", show=False, id="tables.earlier"),
        Binding("greater_than_sign", "step(1)", "After the next change", show=False, id="tables.later"),
        Binding("escape", "at(['now'])", "Now", id="tables.now"),
        Binding("Q", "sql", "SQL", id="tables.sql"),
        Binding("T", "create", "Create a table", show=False, id="tables.create"),
        Binding("A", "alter", "Alter the table", show=False, id="tables.alter"),
        Binding("i", "import", "Import", show=False, id="tables.import"),
        Binding("x", "export", "Export", show=False, id="tables.export"),
        Binding("ctrl+r,f5", "refresh", "Refresh", show=False, id="tables.refresh"),
        Binding("ctrl+n", "null", "Null", show=False, id="tables.cell-null"),
        Binding("y", "copy", "Copy", show=False, id="tables.copy"),
    ]

    ROW_KEYS = frozenset(
        key
        for binding in BINDINGS
        if isinstance(binding, Binding) and binding.action.partition("(")[0] in _NEEDS_TABLE
        for key in binding.key.split(",")
    ) | {"enter"}

    def __init__(self, client: ProjectClient, history: TextStore | None = None) -> None:
        """Create the screen. `history` stores the SQL statements."""
        super().__init__(client)
        self._history = StatementHistory(history)
        self._rejection: tuple[str, Sequence[StagedChange]] = ("", [])
        """The error of the last rejected edits, and these edits."""

    def on_virtual_rows_opened(self) -> None:
        self.action_edit()

    def action_edit(self) -> None:
        """Edit the cell of the cursor. A boolean is toggled at once."""
        row, column = self._current_row(), self._current_column()
        if row is None or column is None or not self._can_edit():
            return
        if column.generated:
            self.notify(f"{column.name} is computed", severity="warning", markup=False)
            return
        if isinstance(row, TableRow) and (edit := self._current_grid().draft.edit(row.key)) and edit.deleted:
            self.notify("the row is deleted; press d to restore it", severity="warning")
            return
        value = self._value(row, column)
        if column.type.form == "bool" and isinstance(value, bool):
            self._set(row, column, not value)
        elif is_cut(value):
            self._edit_full_value(row, column)
        else:
            # Not in a worker: the next key must reach the input.
            self._edit_text(row, column, as_text(value))

    @work(group="edit", exclusive=True)
    async def _edit_full_value(self, row: NewRow | TableRow, column: TableColumn) -> None:
        value = await self._full_value(row, column)
        self._edit_text(self._with_text(row, column, value), column, as_text(value))

    def _edit_text(self, row: NewRow | TableRow, column: TableColumn, text: str) -> None:
        """Edit a text in the line, or in a field if it is long."""
        title = f"{column.name}  {column.type.name}"
        if len(text) > MAX_TEXT_LENGTH:
            self.notify(f"{column.name} has {len(text):,} characters; E edits it in $EDITOR", markup=False)
        elif "\n" in text or len(text) > MAX_LINE_LENGTH:
            if len(ends := set(_LINE_ENDS.findall(text))) > 1 or not ends <= {"\n", "\r\n"}:
                what = f"{column.name} has line ends of different kinds, which a field would make equal"
                self.notify(f"{what}; E edits it in $EDITOR", severity="warning", markup=False)
                return
            field = dialogs.TextScreen(title, text, column.type)
            self.app.push_screen(field, partial(self._set_text, row, column))
        else:
            self._editing = (row, column)
            self._open_line(self.query_one(CellInput), title, text, self._rule(column))

    @work(group="edit", exclusive=True)
    async def action_edit_outside(self) -> None:
        """Edit the cell in the user's editor, while the Console is suspended."""
        row, column = self._current_row(), self._current_column()
        if row is None or column is None or not self._can_edit() or column.generated:
            return
        try:
            value = await self._full_value(row, column)
            row = self._with_text(row, column, value)
            command = editor_command(os.environ)
            with self.app.suspend():
                name = "cell.json" if column.type.form == "document" else "cell.txt"
                text = edit_text(as_text(value), name, command)
            self._set_text(row, column, text)
        except ValueError as error:
            self.notify(f"{error}; {column.name} is unchanged", severity="error", markup=False)

    async def _full_value(self, row: NewRow | TableRow, column: TableColumn) -> Any:
        """Return the complete value of a cell. Raises `SvcError`."""
        value = self._value(row, column)
        if not is_cut(value) or isinstance(row, NewRow):
            return value
        params = {"key": json.dumps(list(row.key)), "column": column.name}
        path = f"/grid/{self._current_grid().id}/cell"
        return (await self.client.call("GET", path, params=params))["value"]

    def _with_text(self, row: NewRow | TableRow, column: TableColumn, value: Any) -> NewRow | TableRow:
        """Return a row with a complete text instead of its beginning, so that all of it is compared later.

        A longer text is not: it would be sent twice.
        """
        index = self._current_grid().column_index[column.name]
        if isinstance(row, NewRow) or not isinstance(value, str) or len(value) > MAX_TEXT_LENGTH:
            return row
        if not is_cut(row.cells[index]):
            return row
        return replace(row, cells=(*row.cells[:index], value, *row.cells[index + 1 :]))

    def _set_text(self, row: NewRow | TableRow, column: TableColumn, text: str | None) -> None:
        """Stage a text as the value of a cell; None stages nothing. Raises `ValueError`."""
        if text is not None:
            self._set(row, column, read(text, column.type))

    def _rule(self, column: TableColumn) -> str:
        """Return what can be typed into a column."""
        parts = ["ctrl+n null"] if column.nullable else []
        if column.type.form == "format":
            or_now = f", or {NOW}" if column.type.accepts_now else ""
            parts.insert(0, f"{column.type.example}{or_now}")
        if column.type.form == "bytes":
            local = downloads_of(self.app) is None
            parts.insert(0, "base64, or @ and the path of a file" if local else "base64")
        return " · ".join([*parts, *([column.note] if column.note else [])])

    @on(Input.Changed, "#cell")
    def _typed(self, event: Input.Changed) -> None:
        """Validate the typed value and show the error."""
        if self._editing is None:
            return
        column, problem = self._editing[1], ""
        try:
            if column.type.form != "bytes" or not event.value.startswith("@"):
                read(event.value, column.type)
        except ValueError as error:
            problem = str(error)
        content = Content.from_markup(
            "[b]$name  $type[/]  [$text-error]$problem[/][dim]$rule[/]",
            name=column.name,
            type=column.type.name,
            problem=problem,
            rule="" if problem else self._rule(column),
        )
        self.query_one("#prompt", Static).update(content)
        self._place_cell_input()

    @on(Input.Submitted, "#filter")
    def _filter_submitted(self, event: Input.Submitted) -> None:
        self._filter(self._current_grid(), event.value)

    def on_descendant_focus(self) -> None:
        """Stage the value of a cell when the rows are clicked; an invalid one stays open.

        The event may come late, after another cell was opened.
        """
        rows_focused = self.focused is self.rows
        if rows_focused and self._editing is not None and not self._stage_line() and self._editing:
            self.set_focus(self.query_one(CellInput))

    @on(Input.Submitted, "#cell")
    def _cell_submitted(self) -> None:
        self._stage_line()

    def _stage_line(self) -> bool:
        """Stage the value of the input line. Return whether it is staged; a file is read later.

        The error of an invalid value is already shown.
        """
        if self._editing is None:
            return True
        text = self.query_one(CellInput).value
        row, column = self._editing
        if column.type.form == "bytes" and text.startswith("@"):
            self.action_close_line()
            self._set_file(row, column, text[1:])
            return False
        try:
            value = read(text, column.type)
        except ValueError:
            self.app.bell()
            return False
        self.action_close_line()
        self._set(row, column, value)
        return True

    @work(group="edit", exclusive=True)
    async def _set_file(self, row: NewRow | TableRow, column: TableColumn, name: str) -> None:
        require_local(self.app, "file")
        self._set(row, column, await asyncio.to_thread(read_blob, parse_path(name)))

    def action_null(self) -> None:
        row, column = self._editing or (self._current_row(), self._current_column())
        if row is None or column is None or not self._can_edit():
            return
        if not column.nullable:
            self.notify(f"{column.name} needs a value", severity="warning", markup=False)
            return
        self.action_close_line()
        self._set(row, column, None)

    def action_default(self) -> None:
        row, column = self._editing or (None, None)
        if isinstance(row, NewRow) and column is not None:
            self.action_close_line()
            self._current_grid().draft.clear_new(row.number, column.name)
            self._redraw()

    def _set(self, row: NewRow | TableRow, column: TableColumn, value: Any) -> None:
        grid = self._current_grid()
        if isinstance(row, NewRow):
            grid.draft.write(new={row.number: {column.name: value}})
        else:
            was = row.cells[grid.column_index[column.name]]
            grid.draft.write({row.key: {column.name: (was, value)}})
        self._redraw()

    def action_add(self) -> None:
        if not self._can_edit():
            return
        grid = self._current_grid()
        grid.draft.write(rows=[{}])
        self._redraw()
        self.rows.cursor_row = 0
        required = [column for column in grid.columns if default_text(column) == "required"]
        others = [column for column in grid.columns if not column.primary_key]
        if first := (*required, *others)[:1]:
            self.rows.cursor_column = grid.position(first[0].name) or 1

    def action_delete(self) -> None:
        """Delete the marked rows, or that of the cursor. Restore them if all are deleted already."""
        if not self._can_edit():
            return
        grid, current, marks = self._current_grid(), self._current_row(), self.rows.marks
        if marks:
            new = [row.number for row in grid.draft.new if ("new", row.number) in marks]
            rows = [row for row in grid.cached_rows(0, grid.count()) if row.key in marks]
        else:
            new = [current.number] if isinstance(current, NewRow) else []
            rows = [current] if isinstance(current, TableRow) else []
        if len(new) + len(rows) < len(marks):
            text = f"{plural(len(marks), 'marked row')}, but only {len(new) + len(rows)} loaded"
            self.notify(text, severity="warning")
            return
        names = [column.name for column in grid.columns]
        if new:
            grid.draft.drop_new(new)
        if rows:
            grid.draft.delete({row.key: dict(zip(names, row.cells, strict=True)) for row in rows})
        self.rows.unmark()
        self._redraw()

    def action_move_edits(self, step: Literal["undo", "redo"]) -> None:
        draft = self._grid.draft if self._grid is not None else Draft()
        if draft.undo() if step == "undo" else draft.redo():
            self._redraw()
        else:
            self.notify(f"nothing to {step}", timeout=2)

    @work(group="copy", exclusive=True)
    async def action_copy(self) -> None:
        row, column = self._current_row(), self._current_column()
        if row is not None and column is not None:
            text = as_text(await self._full_value(row, column))
            self.app.copy_to_clipboard(text)
            preview = sanitize(text[:MAX_COPIED_LENGTH]) + ("…" if len(text) > MAX_COPIED_LENGTH else "")
            self.notify(f"copied {preview}" if text else "copied an empty text", timeout=2, markup=False)

    # Pasting

    def on_paste(self, event: events.Paste) -> None:
        grid = self._grid
        if grid is None or not event.text or self.query_one("#line").display or not self._can_edit():
            return
        event.stop()
        self._paste(grid, _normalized(event.text))

    def on_cell_input_lines_pasted(self, event: CellInput.LinesPasted) -> None:
        """Edit a text of several lines in a field; insert only its first line into a short cell."""
        if self._editing is None or not self._editing[1].type.is_long:
            self.query_one(CellInput).insert_text_at_cursor(event.pasted.splitlines()[0])
            return
        row, column = self._editing
        self.action_close_line()
        title, text = f"{column.name}  {column.type.name}", _normalized(event.value)
        field = dialogs.TextScreen(title, text, column.type, changed=True)
        self.app.push_screen(field, partial(self._set_text, row, column))

    @work(group="paste", exclusive=True, description="paste")
    async def _paste(self, grid: RemoteGrid, text: str) -> None:
        data = text.encode("utf-8", "replace")
        content = (data[first : first + CHUNK_BYTES] for first in range(0, len(data), CHUNK_BYTES))
        params = {"format": "tsv", "rows": MAX_ROWS}
        preview = partial(self.client.call_sync, "POST", "/import/preview", params=params)
        pasted = await asyncio.to_thread(preview, content=content)
        columns = targets(pasted, grid.visible_columns(), max(self.rows.cursor_column - 1, 0))
        rows = await asyncio.to_thread(cells, pasted, columns)
        at = self.rows.cursor_row
        if len(rows) == 1 and len(columns) == 1 and not pasted["header"]:
            choice = "over"
        else:
            lines = partial(dialogs.paste_lines, grid.table, pasted, columns)
            choice = await self.app.push_screen_wait(dialogs.PasteScreen(lines))
        if choice == "new":
            grid.draft.write(rows=rows)
            self._redraw()
            self.rows.cursor_row = 0
        elif choice == "over":
            await self._overwrite(grid, rows, at)

    async def _overwrite(self, grid: RemoteGrid, rows: Sequence[Mapping[str, Any]], at: int) -> None:
        """Stage rows over the existing ones from index `at`; surplus rows are added. Raises `SvcError`."""
        current = await asyncio.to_thread(grid.rows_at, at, len(rows))
        existing: dict[Any, dict[str, tuple[Any, Any]]] = {}
        new: dict[int, Mapping[str, Any]] = {}
        for row, values in zip(current, rows, strict=False):
            if isinstance(row, NewRow):
                new[row.number] = values
            elif row is not None and not ((edit := grid.draft.edit(row.key)) and edit.deleted):
                old = {name: row.cells[grid.column_index[name]] for name in values}
                existing[row.key] = {name: (old[name], now) for name, now in values.items()}
        grid.draft.write(existing, new, rows[len(current) :])
        self._redraw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in _NEEDS_TABLE and self._grid is None:
            return False
        if action in ("at", "edit", "add", "delete"):
            return bool(self._grid and self._grid.moment) == (action == "at")
        line_open = self.is_mounted and self.query_one("#line").display
        if action in ("null", "default") and line_open and self._editing is None:
            return False
        if action == "filter" and line_open:
            return False
        if action == "default" and line_open and self._editing is not None:
            return isinstance(self._editing[0], NewRow)
        if action == "apply":
            return self._editing is not None or bool(self.pending and not line_open)
        return super().check_action(action, parameters)

    def commands(self) -> Sequence[ConsoleCommand]:
        return [
            ConsoleCommand("table NAME", "Open a table", self.navigate, self.client.known_tables),
            ConsoleCommand("at TIME", "Show the table as it was; `:at now` as it is", self.action_at),
            ConsoleCommand("sql [STATEMENT]", "Run SQL", lambda words: self.action_sql(" ".join(words))),
        ]

    def navigate(self, words: Sequence[str]) -> None:
        """Open the table of this name, filtered by the other words."""
        self._first_table = words[0]
        self._open(words[0], line=shlex.join(words[1:]))

    # Columns

    def action_columns(self) -> None:
        grid = self._current_grid()
        shown = [column.name for column in grid.visible_columns()]
        displayed = dict(zip(shown, self.rows.column_widths[1:], strict=False))
        about = {
            column.name: (column.type.name, displayed.get(column.name, measured.width))
            for column, measured in zip(grid.columns, grid.measured, strict=True)
        }
        on_change = partial(self._apply_column_layout, grid)
        self.app.push_screen(dialogs.ColumnsScreen(grid.layout, about, on_change))

    def action_column(self) -> None:
        """Go to a column by its name. A hidden column is shown again."""
        grid, choices = self._current_grid(), {}
        for layout_column in grid.layout.columns:
            column = grid.columns[grid.column_index[layout_column.name]]
            about = [column.type.name, "hidden" if layout_column.hidden else "", column.note]
            choices[layout_column.name] = "  ".join(filter(None, about))
        self.app.push_screen(dialogs.Picker("which column?", choices), self._go_to_column)

    def _go_to_column(self, name: str | None) -> None:
        grid = self._grid
        if not name or grid is None or name not in grid.column_index:
            return
        if grid.position(name) is None:
            index = [column.name for column in grid.layout.columns].index(name)
            self._apply_column_layout(grid, grid.layout.toggled(index))
        self.rows.cursor_column = grid.position(name) or 0

    def _apply_column_layout(self, grid: RemoteGrid, layout: ColumnLayout) -> None:
        grid.layout = self._layouts[grid.table] = layout
        if grid is self._grid:
            self.rows.set_columns(grid.list_columns())

    def action_stats(self) -> None:
        grid, column = self._grid, self._current_column()
        if grid is None or column is None:
            return

        def on_choice(condition: Condition | None) -> None:
            if condition is not None:
                self._open(grid.table, replace(grid.query, conditions=(*grid.query.conditions, condition)))

        self.app.push_screen(dialogs.ColumnStats(self.client, grid.table, column), on_choice)

    # Schema, SQL and files

    def action_create(self) -> None:
        self.app.push_screen(CreateForm(self.client), self._open_if_named)

    def action_alter(self) -> None:
        if (grid := self._grid) is None:
            return

        def on_altered(name: str | None) -> None:
            if name is None:
                return
            if name != grid.table:
                draft = self._drafts.pop(grid.table)
                if name:
                    self._drafts[name] = draft
            self._open(name, grid.query if name == grid.table else None)

        self.app.push_screen(AlterForm(self.client, grid.table), on_altered)

    def action_sql(self, text: str = "") -> None:
        screen = SqlScreen(self.client, self._history, text)
        self.app.push_screen(screen, lambda wrote: self.engine_connected() if wrote else None)

    def action_import(self) -> None:
        current = self._grid.table if self._grid is not None else ""
        columns = tuple(self._grid.column_index) if self._grid is not None else ()

        def on_imported(table: str | None) -> None:
            if table is not None:
                self._open(table or current)

        self.app.push_screen(ImportForm(self.client, current, columns), on_imported)

    def action_export(self) -> None:
        if self._grid is not None:
            self.app.push_screen(table_export(self.client, self._grid))

    # History

    @work(group="history", exclusive=True)
    async def action_history(self) -> None:
        """Show what wrote the cell, and revert the chosen entry."""
        column = self._current_column()
        if column is not None and (rows := await self._writes_of_row(column.name)):
            names = [f"{at}  {local_time(row['write']['time_ns'])[:19]}" for at, row in enumerate(rows, 1)]
            abouts = (f"{changed_cells(row)}  {wrote(row['write'])}" for row in rows)
            choices = dict(zip(names, abouts, strict=True))

            def on_choice(chosen: str | None) -> None:
                if chosen:
                    self._preview_revert(rows[names.index(chosen)]["write"])

            self.app.push_screen(dialogs.Picker(f"what wrote {column.name}?", choices), on_choice)

    @work(group="history", exclusive=True)
    async def action_revert(self) -> None:
        """Revert what last wrote the row, after a preview."""
        if rows := await self._writes_of_row("", limit=1):
            self._preview_revert(rows[0]["write"])

    async def _writes_of_row(self, column: str, limit: int = 100) -> Sequence[Any]:
        """Return the history of the row at the cursor, or of its cell in a column."""
        row, grid = self._current_row(), self._current_grid()
        if isinstance(row, TableRow):
            key = json.dumps(list(row.key))
            params = {"table": grid.table, "key": key, "column": column, "limit": limit}
            found = await self.client.call("GET", "/tables/history", params=params)
            if found["rows"]:
                return list(found["rows"])
            self.notify(f"what wrote it is not known: {history_begin(found)}", severity="warning")
        return ()

    @work(group="history", exclusive=True)
    async def _preview_revert(self, write: Mapping[str, Any]) -> None:
        """Show the rows of an entry, and revert it or show the table before it."""
        body = {"entry": write["entry"], "plan": True}

        def on_choice(choice: str | None) -> None:
            if choice == "before":
                self._show_moment({"entry": write["entry"], "step": -1})
            elif choice:
                self._revert(write["entry"], choice)

        plan = await self.client.call("POST", "/tables/revert", body)
        conflicts = any(row["conflict"] for row in plan["rows"])
        dialog = dialogs.RevertConflicts if conflicts else dialogs.RevertPreview
        self.app.push_screen(dialog(partial(dialogs.revert_lines, write, plan["rows"])), on_choice)

    @work(group=APPLYING)
    async def _revert(self, entry: str, conflicts: str) -> None:
        body = {"entry": entry, "conflicts": conflicts}
        done = await self.client.call("POST", "/tables/revert", body)
        changed = sum(not row["conflict"] for row in done["rows"]) if done["applied"] else 0
        self.notify(f"{plural(changed, 'row')} reverted", timeout=3)
        await self._show_changes(())

    def action_step(self, by: int) -> None:
        """Show the table before the last change, or after the next one."""
        moment = self._current_grid().moment
        if moment is not None:
            self._show_moment({"entry": moment["entry"], "step": by})
        elif by < 0:
            self._show_moment({"time_ns": time.time_ns(), "step": by})
        else:
            self.notify("the table is shown as it is now", timeout=2)

    def action_at(self, words: Sequence[str]) -> None:
        with self.shown_errors():
            self._show_moment(None if words == ["now"] else {"time_ns": parse_moment("T".join(words))})

    @work(group="open", exclusive=True)
    async def _show_moment(self, at: Mapping[str, Any] | None) -> None:
        """Show the table at a moment; after its last change, as it is now."""
        grid = self._current_grid()
        try:
            await self._show(grid.table, replace(grid.query, at=at))
        except SvcError as error:
            if error.code != "conflict":
                raise
            await self._show(grid.table, replace(grid.query, at=None))

    # Applying

    def action_apply(self) -> None:
        if self._stage_line() and self._grid is not None and len(self._grid.draft):
            self._apply(self._grid, "refuse")

    @work(group=APPLYING)
    async def _apply(self, grid: RemoteGrid, conflicts: str) -> None:
        """Apply the staged edits. `conflicts` is `refuse` or `skip`."""
        edits = grid.draft.changes()
        body = {"table": grid.table, "changes": [change for _, change in edits], "conflicts": conflicts}
        outcome = await self.client.call("POST", "/rows", body)
        if outcome["errors"]:
            self._show_errors(grid, edits, outcome["errors"])
            return
        self._clear_rejection()
        if outcome["conflicts"] and conflicts == "refuse":
            self._resolve(grid, edits, outcome["conflicts"])
            return
        skipped = [edits[conflict["index"]][0] for conflict in outcome["conflicts"]]
        grid.draft.applied(skipped)
        self._update_status()
        text = f"{plural(outcome['applied'], 'row')} changed in {grid.table}"
        self.notify(text, markup=False, timeout=3)
        await self._show_changes(skipped)

    async def _show_changes(self, skipped: Collection[Any]) -> None:
        """Show the rows after changes of this screen. Only rows that were `skipped` are still marked."""
        if (grid := self._grid) is not None:  # The table may be opened again, or another one.
            await self._refresh(grid, mark_changes=False)
            # A poll in progress takes these changes for those of others, and marks them in the former signs.
            grid.changed = {key: sign for key, sign in grid.changed.items() if key in skipped}
            self._redraw()

    def _show_errors(self, grid: RemoteGrid, edits: Sequence[StagedChange], errors: Sequence[Any]) -> None:
        """Show the first invalid change, and move the cursor there."""
        first = errors[0]
        more = f"\n… and {len(errors) - 1} more" if len(errors) > 1 else ""
        key = None if first["index"] is None else edits[first["index"]][0]
        column, location = first["column"], ""
        if key is not None:
            row = "the new row" if isinstance(key, int) else f"row {', '.join(map(str, key))}"
            location = f"{row}, {column}: " if column else f"{row}: "
        self.banner = f"nothing was changed: {location}{first['message']}{more}"
        self._rejection = (self.banner, edits)
        if key is None:
            return
        numbers = [new_row.number for new_row in grid.draft.new]
        index = numbers.index(key) if isinstance(key, int) else grid.row_of(key)
        if index is not None:
            self.rows.cursor_row = index
        if column and (number := grid.position(column)) is not None:
            self.rows.cursor_column = number

    def _clear_rejection(self) -> None:
        if self.banner == self._rejection[0]:
            self.banner = ""

    def _update_status(self) -> None:
        """Show the current state; hide the error of edits that have changed since."""
        super()._update_status()
        if self.banner and self._grid is not None and self._grid.draft.changes() != self._rejection[1]:
            self._clear_rejection()

    def _resolve(self, grid: RemoteGrid, edits: Sequence[StagedChange], conflicts: Sequence[Any]) -> None:
        """Ask how to resolve rows with concurrent changes."""
        rows: list[dialogs.ConflictRow] = []
        for conflict in conflicts:
            key, change = edits[conflict["index"]]
            if not isinstance(key, int):
                rows.append((key, change, conflict["current"]))

        def on_choice(choice: str | None) -> None:
            if choice == "rest":
                self._apply(grid, "skip")
            elif choice in ("mine", "theirs"):
                grid.draft.settle({key: now for key, _, now in rows}, mine=choice == "mine")
                self._redraw()
                if choice == "mine":
                    self._apply(grid, "refuse")

        lines = partial(dialogs.conflict_lines, grid.table, rows)
        self.app.push_screen(dialogs.Conflicts(lines), on_choice)
