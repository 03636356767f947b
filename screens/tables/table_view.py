"""The view of one table: its sort order, its filters, and polling for changes by others."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from screens.console_screen import ConsoleScreen
from screens.project_client import ProjectClient
from screens.tables.cell_input import CellInput
from screens.tables.cells import piece
from screens.tables.column_layout import ColumnLayout
from screens.tables.column_types import fetch_types
from screens.tables.columns_screen import ColumnsScreen
from screens.tables.draft import Draft, New
from screens.tables.grid import Grid, TableColumn, TableRow
from screens.tables.picker import Choice, ColumnPicker, TablePicker
from screens.tables.query import Query, sort_words
from screens.widgets.columns import Column, sanitize
from screens.widgets.row_source import Row
from screens.widgets.virtual_rows import VirtualRows
from svc_tui.client import SvcError
from svc_tui.column_types import ColumnTypes

POLL_SECONDS = 1.0
"""Interval of polling for changes by others."""
THEIRS = 24
"""Maximum characters of a shown value that others have written."""
NO_TABLES = "there are no tables yet · T makes one; so do tables/*.sql in the Project's folder"
NO_ROWS = "no rows yet · a adds one, i imports a file"
NO_ROWS_HERE = "no rows yet"
FILTERS = "name~an  name^A  age>=30  mood=null  any text"
KEYLESS = "Press A to add one: set primary key NAME, or add id integer primary key"
NOTHING = "no row passes the filter · backspace takes it away"


class Nothing:
    """No rows."""

    def count(self) -> int:
        """Return none."""
        return 0

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return none."""
        return ()


class ShownTable(ConsoleScreen):
    """The grid of one table at a time."""

    def __init__(self, link: ProjectClient) -> None:
        super().__init__(link)
        self._drafts: dict[str, Draft] = {}
        self._grid: Grid | None = None
        self._arranged: dict[str, ColumnLayout] = {}
        self._wanted = ""
        self._editing: tuple[New | TableRow, TableColumn] | None = None
        self._types: ColumnTypes | None = None

    def body(self) -> ComposeResult:
        """Place the name of the table, the grid, and the line for words."""
        with Horizontal(id="what"):
            yield Static(id="table")
            yield Static(id="waiting")
        yield VirtualRows(Nothing(), (), cursor="cell", empty="")
        with Vertical(id="line"):
            yield Static(id="asked")
            yield CellInput(select_on_focus=False)

    def on_mount(self) -> None:
        """Start polling for changes by others."""
        self.set_interval(POLL_SECONDS, self._poll)

    def engine_connected(self) -> None:
        """Open the table again that was open, or the first one; what waits stays."""
        table = self._grid.table if self._grid is not None else self._wanted
        query = self._grid.query if self._grid is not None else Query()
        self._open(table, query)

    @property
    def rows(self) -> VirtualRows:
        """The grid's list."""
        return self.query_one(VirtualRows)

    def _start_work(self, group: str, work: Callable[..., Awaitable[None]], *given: Any) -> None:
        """Start a worker, which replaces the running one of its group."""
        does: Any = partial(work, *given)
        self.run_worker(does, group=group, exclusive=group != "apply")

    # Which table

    def _open(self, table: str, query: Query, line: str = "") -> None:
        self._start_work("open", self._opened, table, query, line)

    async def _opened(self, table: str, query: Query, line: str = "") -> None:
        if self.client.state != "live":
            return
        try:
            await self._show(table, query, line)
        except SvcError as error:
            self.show_error(error)

    async def _show(self, table: str, query: Query, line: str = "") -> None:
        """Show a table; an empty name is that of the first. Raises `SvcError`."""
        if not table:
            names = await self._table_names()
            if not names:
                self._show_no_tables()
                return
            table = names[0]
        draft = self._drafts.setdefault(table, Draft())
        grid = await self._open_grid(table, query, draft)
        if line:
            await self._close_grid(grid)
            grid = await self._open_grid(table, query.filtered(line, grid.names), draft)
        await asyncio.to_thread(grid.measure, self._grid)
        before, self._grid = self._grid, grid
        self.banner = ""
        none = NO_ROWS if grid.editable else NO_ROWS_HERE
        self.rows.empty = NOTHING if query.conditions or query.search or line else none
        grid.arrangement = self._arranged.get(grid.table, grid.arrangement).for_columns(list(grid.names))
        column = self.rows.cursor_column if before is not None and before.table == grid.table else 1
        self.rows.set_source(grid, grid.titles())
        self.rows.cursor_column = column
        self._update_status()
        self.refresh_bindings()
        if before is not None:
            await self._close_grid(before)

    async def _table_names(self) -> list[str]:
        """Return the names of the tables that there are. Raises `SvcError`."""
        return [each["name"] for each in (await self.client.call("GET", "/tables"))["tables"]]

    async def _open_grid(self, table: str, query: Query, draft: Draft) -> Grid:
        self._types = self._types or await fetch_types(self.client)
        opened = await self.client.call("POST", "/grid", query.body(table))
        return Grid(self.client, self._types, query, draft, opened)

    async def _close_grid(self, grid: Grid) -> None:
        """Close a grid, which may be closed already."""
        try:
            await self.client.call("DELETE", f"/grid/{grid.id}")
        except SvcError:
            return

    def _show_no_tables(self) -> None:
        self._grid = None
        self.rows.empty = NO_TABLES
        self.rows.set_source(Nothing(), (Column("", 1),))
        self._update_status()
        self.refresh_bindings()

    def action_tables(self) -> None:
        """Choose a table."""
        self.app.push_screen(
            TablePicker(self.client), lambda name: self._open(name, Query()) if name else None
        )

    # Status lines

    def _update_status(self) -> None:
        grid = self._grid
        self.pending = sum(len(draft) for draft in self._drafts.values())
        self._tell_what_waits()
        line = self.query_one("#table", Static)
        if grid is None:
            line.update(Content.from_markup("[dim]no tables[/]"))
            return
        parts = [
            Content.from_markup("[@click=screen.tables][b $primary]$name[/] ▾[/]", name=grid.table),
            Content.from_markup(
                "[dim]$count row$s[/]", count=f"{grid.total:,}", s="" if grid.total == 1 else "s"
            ),
        ]
        if words := sort_words(grid.query.sorts):
            parts.append(Content.from_markup("[dim]$words[/]", words=words))
        parts += [
            Content.from_markup(
                f"[on $panel] $chip [@click=screen.without({index})][dim]×[/][/] [/]", chip=chip
            )
            for index, chip in enumerate(grid.query.chips())
        ]
        if not grid.editable:
            parts.append(Content.from_markup("[$text-warning]read-only: $why[/]", why=grid.reason))
        line.update(Content("   ").join(parts))

    @on(VirtualRows.Moved)
    @on(VirtualRows.Loaded)
    def _tell_what_waits(self) -> None:
        """Show the staged edits, or the value that others have written into the edited cell at the cursor."""
        grid, here, column = self._grid, self._current_row(), self._current_column()
        waiting = len(grid.draft) if grid is not None else 0
        elsewhere = next((name for name, draft in self._drafts.items() if len(draft)), "")
        said = f"staged edits in {elsewhere}" if elsewhere else ""
        if waiting:
            said = f"{waiting} row{'' if waiting == 1 else 's'} changed · ctrl+s applies"
        if grid is not None and isinstance(here, TableRow) and column and grid.has_conflict(here, column):
            theirs, _ = piece(here.cells[grid.names[column.name]])
            theirs = sanitize(theirs if len(theirs) <= THEIRS else f"{theirs[: THEIRS - 1]}…")
            said = f"others wrote {theirs} here · ctrl+s asks"
        self.query_one("#waiting", Static).update(Content(said))

    def _redraw(self) -> None:
        """Draw again what waits."""
        self.rows.reload()
        self._update_status()

    def on_virtual_list_failed(self, event: VirtualRows.Failed) -> None:
        """Show that rows could not be loaded. Staged edits stay."""
        self.banner = event.reason

    # The cursor

    def _grid_now(self) -> Grid:
        assert self._grid is not None
        return self._grid

    def _current_row(self) -> New | TableRow | None:
        return self._grid.at(self.rows.cursor_row) if self._grid is not None else None

    def _current_column(self) -> TableColumn | None:
        number = self.rows.cursor_column - 1
        shown = self._grid.shown() if self._grid is not None else []
        return shown[number] if 0 <= number < len(shown) else None

    def _value(self, row: New | TableRow, column: TableColumn) -> Any:
        assert self._grid is not None
        if isinstance(row, New):
            return row.cells.get(column.name)
        edit = self._grid.draft.edit(row.key)
        if edit is not None and column.name in edit.now:
            return edit.now[column.name]
        return row.cells[self._grid.names[column.name]]

    def _may_edit(self) -> bool:
        """Return whether rows can be edited; notify the user of the reason if not."""
        if self._grid is None:
            return False
        if not self._grid.editable:
            way = f"\n{KEYLESS}" if "primary key" in self._grid.reason else ""
            self.notify(f"{self._grid.table} {self._grid.reason}{way}", severity="warning", markup=False)
        return self._grid.editable

    # What is shown

    def _open_line(self, asked: str, value: str, rule: str) -> None:
        self.query_one("#asked", Static).update(
            Content.from_markup("[b]$asked[/]  [dim]$rule[/]", asked=asked, rule=rule)
        )
        line = self.query_one(CellInput)
        line.value = value
        line.cursor_position = len(value)
        self.query_one("#line").display = True
        line.focus()

    def action_close_line(self) -> None:
        """Leave the line, and what it was for."""
        self._editing = None
        self.query_one("#line").display = False
        self.rows.focus()

    def action_filter(self) -> None:
        """Write a filter."""
        if self._grid is not None:
            self._editing = None
            self._open_line("filter", self._grid.query.words(), FILTERS)

    async def _filter(self, grid: Grid, line: str) -> None:
        """Show what passes a filter; what is wrong with it is said beside it, and it stays."""
        try:
            await self._show(grid.table, grid.query.filtered(line, grid.names))
        except SvcError as error:
            told = Content.from_markup(
                "[$text-error]$what[/]  [dim]$hint[/]", what=error.message, hint=error.hint
            )
            self.query_one("#asked", Static).update(told)
            return
        self.action_close_line()

    def action_without(self, index: int) -> None:
        """Remove one part of the filter."""
        grid = self._grid_now()
        self._open(grid.table, grid.query.without(index))

    def action_less(self) -> None:
        """Remove the last part of the filter."""
        if self._grid is not None and (chips := self._grid.query.chips()):
            self.action_without(len(chips) - 1)

    def action_columns(self) -> None:
        """Open the dialog for columns."""
        if (grid := self._grid) is not None:
            about = {
                each.name: (each.type.name, width.own)
                for each, width in zip(grid.columns, grid.widths, strict=True)
            }
            self.app.push_screen(ColumnsScreen(grid.arrangement, about, partial(self._arrange, grid)))

    def action_column(self) -> None:
        """Go to a column by its name; one that is hidden is shown again."""
        if (grid := self._grid) is None:
            return
        choices = []
        for each in grid.arrangement.columns:
            column = grid.columns[grid.names[each.name]]
            about = [column.type.name, "hidden" if each.hidden else "", column.note]
            choices.append(Choice(each.name, "  ".join(filter(None, about))))
        self.app.push_screen(ColumnPicker(choices), self._to_column)

    def _to_column(self, name: str | None) -> None:
        grid = self._grid
        if not name or grid is None or name not in grid.names:
            return
        if grid.number(name) is None:
            index = [each.name for each in grid.arrangement.columns].index(name)
            self._arrange(grid, grid.arrangement.toggled(index))
        self.rows.cursor_column = grid.number(name) or 0

    def _arrange(self, grid: Grid, arrangement: ColumnLayout) -> None:
        grid.arrangement = self._arranged[grid.table] = arrangement
        if grid is self._grid:
            self.rows.set_columns(grid.titles())

    def action_sort(self, more: bool) -> None:
        """Sort by the column of the cursor: up, down, not."""
        if self._grid is not None and (column := self._current_column()) is not None:
            self._open(self._grid.table, self._grid.query.sorted_by(column.name, more=more))

    # What others write

    def _poll(self) -> None:
        if self._grid is not None and self.client.state == "live" and self.app.screen is self:
            self._start_work("look", self._looked, self._grid)

    async def _looked(self, grid: Grid) -> None:
        try:
            if (await self.client.call("GET", f"/grid/{grid.id}"))["stale"] and grid is self._grid:
                await self._refreshed(grid)
        except SvcError as error:
            self._lost(grid, error)

    def action_refresh(self) -> None:
        """Refresh the grid."""
        if (grid := self._grid) is None or self.banner:
            self.engine_connected()
            return
        grid.changed.clear()
        self._start_work("look", self._refresh_now, grid)

    async def _refresh_now(self, grid: Grid, *, marked: bool = True) -> None:
        try:
            await self._refreshed(grid, marked=marked)
        except SvcError as error:
            self._lost(grid, error)

    async def _refreshed(self, grid: Grid, *, marked: bool = True) -> None:
        """Show the current rows; `marked` marks concurrent changes.

        The cursor stays on its row.
        """
        top = self.rows.scroll_offset.y
        seen = grid.shown_rows(top, top + self.size.height)
        here = self._current_row()
        asked = [*seen, *([here] if isinstance(here, TableRow) and here not in seen else [])]
        wish = {"rows": [{"key": list(row.key), "version": row.version} for row in asked]}
        found = await self.client.call("POST", f"/grid/{grid.id}/refresh", wish)
        if grid is not self._grid:
            return
        grid.total = found["count"]
        for row, became in zip(asked, found["rows"], strict=True):
            if marked and became["state"] == "changed":
                grid.changed[row.key] = "changed"
            if row is here and became["at"] is not None:
                self.rows.cursor_row = became["at"] + len(grid.draft.new)
        grid.clear_cache()
        self._redraw()

    def _lost(self, grid: Grid, error: SvcError) -> None:
        """Handle a grid that is closed or whose table changed. Staged edits stay."""
        if grid is not self._grid or error.code == "unreachable":
            return
        if error.code in ("not-found", "changed"):  # it was idle, or the columns changed
            self._open(grid.table, grid.query)
        else:
            self.banner = error.text
