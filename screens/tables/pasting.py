"""A range that is pasted into the grid: looked at by the engine, written into the draft. Applies nothing."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from textual import events

from screens.tables.cell_input import CellInput
from screens.tables.clipboard_range import MAX_ROWS, PastedRange, cells, targets
from screens.tables.draft import New
from screens.tables.editing import EditedTable
from screens.tables.grid import Grid
from screens.tables.paste_screen import PasteScreen
from screens.tables.text_screen import TextScreen
from svc_tui.client import SvcError

_PIECE = 1 << 18


def _lines(text: str) -> str:
    """Return a text whose lines end as texts' do: terminals send the key that ends a line."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


class PastedTable(EditedTable):
    """The grid of one table, into which one pastes."""

    def on_paste(self, event: events.Paste) -> None:
        """Paste a range, or one cell."""
        grid = self._grid
        if grid is None or not event.text or self.query_one("#line").display or not self._may_edit():
            return
        event.stop()
        self._start_work("paste", self._look_at, grid, _lines(event.text))

    def on_cell_input_lines(self, event: CellInput.Lines) -> None:
        """Open a text of several lines in a field; insert only the first line into a short cell."""
        if self._editing is None or not self._editing[1].type.is_long:
            self.query_one(CellInput).insert_text_at_cursor(event.pasted.splitlines()[0])
            return
        row, column = self._editing
        self.action_close_line()
        field = TextScreen(
            f"{column.name}  {column.type.name}", _lines(event.whole), column.type, changed=True
        )
        self.app.push_screen(field, partial(self._written, row, column))

    async def _look_at(self, grid: Grid, text: str) -> None:
        first = max(self.rows.cursor_column - 1, 0)
        try:
            told = await asyncio.to_thread(self._preview, text)
            pasted = PastedRange.of(told)
            to = targets(pasted, grid.shown(), first)
            rows = await asyncio.to_thread(cells, pasted, to)
        except SvcError as error:
            self.show_error(error)
            return
        at = self.rows.cursor_row
        if len(rows) == 1 and len(to) == 1 and not pasted.header:
            await self._over(grid, rows, at)
            return

        def chosen(choice: str | None) -> None:
            if choice == "new":
                self._new(grid, rows)
            elif choice == "over":
                self._start_work("paste", self._over, grid, rows, at)

        self.app.push_screen(PasteScreen(grid.table, told, to), chosen)

    def _preview(self, text: str) -> Any:
        sent = text.encode("utf-8", "replace")
        pieces = (sent[at : at + _PIECE] for at in range(0, len(sent), _PIECE))
        params = {"format": "tsv", "rows": MAX_ROWS}
        return self.client.call_sync("POST", "/import/preview", params=params, content=pieces)

    def _new(self, grid: Grid, rows: Sequence[Mapping[str, Any]]) -> None:
        grid.draft.add(rows)
        self._redraw()
        self.rows.cursor_row = 0

    async def _over(self, grid: Grid, rows: Sequence[Mapping[str, Any]], at: int) -> None:
        """Write over the rows from one on; what is left when there are no more becomes new rows."""
        try:
            there = await asyncio.to_thread(grid.rows_at, at, len(rows))
        except SvcError as error:
            self.show_error(error)
            return
        seen: dict[Any, dict[str, tuple[Any, Any]]] = {}
        new: dict[int, Mapping[str, Any]] = {}
        for row, made in zip(there, rows, strict=False):
            if isinstance(row, New):
                new[row.number] = made
            elif row is not None and not ((edit := grid.draft.edit(row.key)) and edit.deleted):
                seen[row.key] = {name: (row.cells[grid.names[name]], now) for name, now in made.items()}
        grid.draft.write(seen, new, rows[len(there) :])
        self._redraw()
