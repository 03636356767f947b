"""Editing of cells and rows into the draft."""

import asyncio
import json
import os
from functools import partial
from typing import Any

from textual import on
from textual.app import SuspendNotSupported
from textual.content import Content
from textual.widgets import Input, Static

from screens.files import parse_path
from screens.tables.cell_input import CellInput
from screens.tables.cells import NOW, as_text, is_cut, read
from screens.tables.draft import New
from screens.tables.external_editor import command_of, edited
from screens.tables.files import blob_of
from screens.tables.grid import Grid, TableColumn, TableRow, default
from screens.tables.table_view import ShownTable
from screens.tables.text_screen import TextScreen
from svc_tui.client import SvcError

MAX_LINE_LENGTH, MAX_TEXT_LENGTH = 1000, 100_000
"""Characters of a cell that is edited in one line, and of one that is edited in the Console at all."""


class EditedTable(ShownTable):
    """The grid of one table, in which one writes."""

    def on_virtual_rows_opened(self) -> None:
        """Edit the cell."""
        self.action_edit()

    def action_edit(self) -> None:
        """Edit the cell that the cursor is on; a boolean turns at once."""
        row, column = self._current_row(), self._current_column()
        if row is None or column is None or not self._may_edit():
            return
        if column.generated:
            self.notify(f"{column.name} is computed", severity="warning", markup=False)
            return
        if isinstance(row, TableRow) and (edit := self._grid_now().draft.edit(row.key)) and edit.deleted:
            self.notify("the row is deleted; d takes that back", severity="warning")
            return
        value = self._value(row, column)
        if column.type.form == "bool" and isinstance(value, bool):
            self._set(row, column, not value)
        elif is_cut(value):
            self._start_work("edit", self._fetch, row, column)
        else:
            self._begin(row, column, as_text(value))

    def action_edit_outside(self) -> None:
        """Edit the cell in one's own editor, while the Console waits."""
        row, column = self._current_row(), self._current_column()
        if row is not None and column is not None and self._may_edit() and not column.generated:
            self._start_work("edit", self._edit_outside, row, column)

    async def _edit_outside(self, row: New | TableRow, column: TableColumn) -> None:
        try:
            value = await self._complete(row, column)
            command = command_of(os.environ)
            with self.app.suspend():
                text = edited(as_text(value), column.type, command)
            if text is not None:
                self._set(row, column, read(text, column.type))
        except SuspendNotSupported:
            self.notify("no terminal is available for an editor", severity="warning")
        except ValueError as error:
            self.notify(f"{error}; {column.name} stays as it was", severity="error", markup=False)
        except SvcError as error:
            self.show_error(error)

    async def _complete(self, row: New | TableRow, column: TableColumn) -> Any:
        """Return a cell, read whole where only its beginning is shown. Raises `SvcError`."""
        value = self._value(row, column)
        if is_cut(value) and isinstance(row, TableRow):
            return await asyncio.to_thread(self._whole, self._grid_now(), row, column)
        return value

    async def _fetch(self, row: New | TableRow, column: TableColumn) -> None:
        try:
            self._begin(row, column, as_text(await self._complete(row, column)))
        except SvcError as error:
            self.show_error(error)

    def _begin(self, row: New | TableRow, column: TableColumn, text: str) -> None:
        """Edit a text where there is room for it; at once, so that the next key goes there."""
        if len(text) > MAX_TEXT_LENGTH:
            self.notify(f"{column.name} has {len(text):,} characters; E edits it in $EDITOR", markup=False)
        elif "\n" in text or len(text) > MAX_LINE_LENGTH:
            taken = partial(self._written, row, column)
            self.app.push_screen(TextScreen(f"{column.name}  {column.type.name}", text, column.type), taken)
        else:
            self._editing = (row, column)
            self._open_line(f"{column.name}  {column.type.name}", text, self._rule(column))

    def _written(self, row: New | TableRow, column: TableColumn, text: str | None) -> None:
        if text is not None:
            self._set(row, column, read(text, column.type))

    def _whole(self, grid: Grid, row: TableRow, column: TableColumn) -> Any:
        """Return a cell that was cut, whole."""
        params = {"key": json.dumps(list(row.key)), "column": column.name}
        return self.client.call_sync("GET", f"/grid/{grid.id}/cell", params=params)["value"]

    @staticmethod
    def _rule(column: TableColumn) -> str:
        about = ["ctrl+n null"] if column.nullable else []
        if column.type.form == "format":
            now = f", or {NOW}" if column.type.accepts_now else ""
            about.insert(0, f"{column.type.example}{now}")
        if column.type.form == "bytes":
            about.insert(0, "base64, or @ and the path of a file")
        return " · ".join([*about, *([column.note] if column.note else [])])

    @on(Input.Changed, "CellInput")
    def _typed(self, event: Input.Changed) -> None:
        """Validate the typed value and show the error."""
        if self._editing is None:
            return
        column, wrong = self._editing[1], ""
        try:
            if column.type.form != "bytes" or not event.value.startswith("@"):
                read(event.value, column.type)
        except ValueError as error:
            wrong = str(error)
        said = Content.from_markup(
            "[b]$name  $type[/]  [$text-error]$wrong[/][dim]$rule[/]",
            name=column.name,
            type=column.type.name,
            wrong=wrong,
            rule="" if wrong else self._rule(column),
        )
        self.query_one("#asked", Static).update(said)

    @on(Input.Submitted, "CellInput")
    def _answered(self, event: Input.Submitted) -> None:
        if self._editing is None:
            self._start_work("open", self._filter, self._grid_now(), event.value)
        else:
            self._take_line()

    def _take_line(self) -> bool:
        """Stage the value of the line. Return whether it is staged; a file is read later.

        The error of an invalid value is already shown.
        """
        if self._editing is None:
            return True
        text = self.query_one(CellInput).value
        row, column = self._editing
        if column.type.form == "bytes" and text.startswith("@"):
            self.action_close_line()
            self._start_work("edit", self._take_file, row, column, text[1:])
            return False
        try:
            value = read(text, column.type)
        except ValueError:
            self.app.bell()
            return False
        self.action_close_line()
        self._set(row, column, value)
        return True

    async def _take_file(self, row: New | TableRow, column: TableColumn, name: str) -> None:
        """Set a blob cell to the content of a file."""
        try:
            self._set(row, column, await asyncio.to_thread(blob_of, parse_path(name)))
        except SvcError as error:
            self.show_error(error)

    def action_null(self) -> None:
        """Set the cell to null."""
        row, column = self._editing or (self._current_row(), self._current_column())
        if row is None or column is None or not self._may_edit():
            return
        if not column.nullable:
            self.notify(f"{column.name} needs a value", severity="warning", markup=False)
            return
        self.action_close_line()
        self._set(row, column, None)

    def action_default(self) -> None:
        """Leave the cell of a new row to its default."""
        row, column = self._editing or (None, None)
        if isinstance(row, New) and column is not None:
            self.action_close_line()
            self._grid_now().draft.clear_new(row.number, column.name)
            self._redraw()

    def _set(self, row: New | TableRow, column: TableColumn, value: Any) -> None:
        grid = self._grid_now()
        if isinstance(row, New):
            grid.draft.set_new(row.number, column.name, value)
        else:
            grid.draft.set(row.key, column.name, row.cells[grid.names[column.name]], value)
        self._redraw()

    def action_add(self) -> None:
        """Add a row, at the top, with every cell left to its default."""
        if self._may_edit():
            self._grid_now().draft.add([{}])
            self._redraw()
            self.rows.cursor_row = 0
            needed = [each for each in self._grid_now().columns if default(each) == "needed"]
            first = (
                needed[0]
                if needed
                else next((each for each in self._grid_now().columns if not each.primary_key), None)
            )
            if first is not None:
                self.rows.cursor_column = self._grid_now().number(first.name) or 1

    def action_delete(self) -> None:
        """Delete the marked rows, or that of the cursor; those that are deleted already come back."""
        if not self._may_edit():
            return
        grid, here, marks = self._grid_now(), self._current_row(), self.rows.marks
        if marks:
            new = [row.number for row in grid.draft.new if ("new", row.number) in marks]
            seen = [row for row in grid.shown_rows(0, grid.count()) if row.key in marks]
        else:
            new = [here.number] if isinstance(here, New) else []
            seen = [here] if isinstance(here, TableRow) else []
        if len(new) + len(seen) < len(marks):
            self.notify(
                f"{len(marks)} rows are marked, and only {len(new) + len(seen)} of them are held here",
                severity="warning",
            )
            return
        names = [column.name for column in grid.columns]
        if new:
            grid.draft.drop_new(new)
        if seen:
            grid.draft.delete({row.key: dict(zip(names, row.cells, strict=True)) for row in seen})
        self.rows.unmark()
        self._redraw()

    def action_undo(self) -> None:
        """Undo the last change."""
        self._stepped(self._grid is not None and self._grid.draft.undo(), "nothing to undo")

    def action_redo(self) -> None:
        """Redo the last undone change."""
        self._stepped(self._grid is not None and self._grid.draft.redo(), "nothing to redo")

    def _stepped(self, done: bool, otherwise: str) -> None:
        if done:
            self._redraw()
        else:
            self.notify(otherwise, timeout=2)

    def action_copy(self) -> None:
        """Copy the cell."""
        if (row := self._current_row()) is not None and (column := self._current_column()) is not None:
            self._start_work("copy", self._copy, row, column)

    async def _copy(self, row: New | TableRow, column: TableColumn) -> None:
        try:
            text = as_text(await self._complete(row, column))
        except SvcError as error:
            self.show_error(error)
            return
        self.app.copy_to_clipboard(text)
        self.notify(f"{column.name} is in the clipboard", timeout=2, markup=False)
