"""Staged edits of cells and rows, typed or pasted."""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from textual import events, on, work
from textual.content import Content
from textual.widgets import Input, Static

from screens.external_editor import edit_text, editor_command
from screens.files import parse_path
from screens.tables.cell_input import CellInput
from screens.tables.cells import NOW, as_text, is_cut, read
from screens.tables.clipboard_range import MAX_ROWS, PastedRange, cells, targets
from screens.tables.draft import NewRow
from screens.tables.files import CHUNK_BYTES, read_blob
from screens.tables.grid import RemoteGrid, TableColumn, TableRow, default_text
from screens.tables.paste_screen import PasteScreen
from screens.tables.table_view import TableView
from screens.tables.text_screen import TextScreen
from screens.terminal_app import downloads_of, require_local
from screens.widgets.columns import sanitize
from svc_tui.terminal.units import plural

MAX_LINE_LENGTH, MAX_TEXT_LENGTH = 1000, 100_000
"""Maximum characters of a cell that is edited in one line, and of one that is edited in the Console."""
MAX_COPIED_LENGTH = 40
"""Maximum characters of a copied value in its notification."""


def _normalized(text: str) -> str:
    """Return a pasted text with line feeds: terminals send the key that ends a line."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


class TableEditor(TableView):
    """The grid of one table with staged edits."""

    def on_virtual_rows_opened(self) -> None:
        """Edit the cell."""
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
        with self.shown_errors():
            self._edit_text(row, column, as_text(await self._full_value(row, column)))

    def _edit_text(self, row: NewRow | TableRow, column: TableColumn, text: str) -> None:
        """Edit a text in the line, or in a field if it is long."""
        title = f"{column.name}  {column.type.name}"
        if len(text) > MAX_TEXT_LENGTH:
            self.notify(f"{column.name} has {len(text):,} characters; E edits it in $EDITOR", markup=False)
        elif "\n" in text or len(text) > MAX_LINE_LENGTH:
            self.app.push_screen(TextScreen(title, text, column.type), partial(self._set_text, row, column))
        else:
            self._editing = (row, column)
            self._open_line(self.query_one(CellInput), title, text, self._rule(column))

    @work(group="edit", exclusive=True)
    async def action_edit_outside(self) -> None:
        """Edit the cell in the user's editor, while the Console is suspended."""
        row, column = self._current_row(), self._current_column()
        if row is None or column is None or not self._can_edit() or column.generated:
            return
        with self.shown_errors():
            try:
                value = await self._full_value(row, column)
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
        """Stage the content of a file as the value of a blob cell."""
        with self.shown_errors():
            require_local(self.app, "file")
            self._set(row, column, await asyncio.to_thread(read_blob, parse_path(name)))

    def action_null(self) -> None:
        """Set the cell to null."""
        row, column = self._editing or (self._current_row(), self._current_column())
        if row is None or column is None or not self._can_edit():
            return
        if not column.nullable:
            self.notify(f"{column.name} needs a value", severity="warning", markup=False)
            return
        self.action_close_line()
        self._set(row, column, None)

    def action_default(self) -> None:
        """Reset the cell of a new row to its default."""
        row, column = self._editing or (None, None)
        if isinstance(row, NewRow) and column is not None:
            self.action_close_line()
            self._current_grid().draft.clear_new(row.number, column.name)
            self._redraw()

    def _set(self, row: NewRow | TableRow, column: TableColumn, value: Any) -> None:
        grid = self._current_grid()
        if isinstance(row, NewRow):
            grid.draft.set_new(row.number, column.name, value)
        else:
            grid.draft.set(row.key, column.name, row.cells[grid.column_index[column.name]], value)
        self._redraw()

    def action_add(self) -> None:
        """Add a row at the top, with the default in every cell."""
        if not self._can_edit():
            return
        grid = self._current_grid()
        grid.draft.add([{}])
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
            self.notify(
                f"{plural(len(marks), 'marked row')}, but only {len(new) + len(rows)} loaded",
                severity="warning",
            )
            return
        names = [column.name for column in grid.columns]
        if new:
            grid.draft.drop_new(new)
        if rows:
            grid.draft.delete({row.key: dict(zip(names, row.cells, strict=True)) for row in rows})
        self.rows.unmark()
        self._redraw()

    def action_undo(self) -> None:
        """Undo the last edit."""
        self._redraw_if(self._grid is not None and self._grid.draft.undo(), "nothing to undo")

    def action_redo(self) -> None:
        """Redo the last undone edit."""
        self._redraw_if(self._grid is not None and self._grid.draft.redo(), "nothing to redo")

    def _redraw_if(self, changed: bool, otherwise: str) -> None:
        if changed:
            self._redraw()
        else:
            self.notify(otherwise, timeout=2)

    @work(group="copy", exclusive=True)
    async def action_copy(self) -> None:
        """Copy the cell."""
        row, column = self._current_row(), self._current_column()
        if row is not None and column is not None:
            with self.shown_errors():
                text = as_text(await self._full_value(row, column))
                self.app.copy_to_clipboard(text)
                preview = sanitize(text[:MAX_COPIED_LENGTH]) + ("…" if len(text) > MAX_COPIED_LENGTH else "")
                self.notify(f"copied {preview}" if text else "copied an empty text", timeout=2, markup=False)

    # Pasting

    def on_paste(self, event: events.Paste) -> None:
        """Paste a range, or one cell."""
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
        field = TextScreen(title, text, column.type, changed=True)
        self.app.push_screen(field, partial(self._set_text, row, column))

    @work(group="paste", exclusive=True, description="paste")
    async def _paste(self, grid: RemoteGrid, text: str) -> None:
        with self.shown_errors():
            preview = await asyncio.to_thread(self._preview, text)
            pasted = PastedRange.from_preview(preview)
            columns = targets(pasted, grid.visible_columns(), max(self.rows.cursor_column - 1, 0))
            rows = await asyncio.to_thread(cells, pasted, columns)
            at = self.rows.cursor_row
            if len(rows) == 1 and len(columns) == 1 and not pasted.header:
                choice = "over"
            else:
                choice = await self.app.push_screen_wait(PasteScreen(grid.table, preview, columns))
            if choice == "new":
                grid.draft.add(rows)
                self._redraw()
                self.rows.cursor_row = 0
            elif choice == "over":
                await self._overwrite(grid, rows, at)

    def _preview(self, text: str) -> Any:
        data = text.encode("utf-8", "replace")
        chunks = (data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES))
        params = {"format": "tsv", "rows": MAX_ROWS}
        return self.client.call_sync("POST", "/import/preview", params=params, content=chunks)

    async def _overwrite(self, grid: RemoteGrid, rows: Sequence[Mapping[str, Any]], at: int) -> None:
        """Stage rows over the existing ones from index `at`; surplus rows are added. Raises `SvcError`."""
        current = await asyncio.to_thread(grid.rows_at, at, len(rows))
        existing: dict[Any, dict[str, tuple[Any, Any]]] = {}
        new: dict[int, Mapping[str, Any]] = {}
        for row, values in zip(current, rows, strict=False):
            if isinstance(row, NewRow):
                new[row.number] = values
            elif row is not None and not ((edit := grid.draft.edit(row.key)) and edit.deleted):
                old = row.cells
                existing[row.key] = {
                    name: (old[grid.column_index[name]], now) for name, now in values.items()
                }
        grid.draft.write(existing, new, rows[len(current) :])
        self._redraw()
