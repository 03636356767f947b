"""The view of one table: its status line, inputs, sort order, filters, and polling for changes by others."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.cells import cell_len, set_cell_size
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key, Paste
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, Static

from screens.console_screen import ConsoleScreen, is_working
from screens.project_client import ProjectClient
from screens.tables.cells import piece, typed_piece
from screens.tables.dialogs import Picker
from screens.tables.draft import Draft, NewRow
from screens.tables.grid import (
    DELETED_KEY,
    ColumnLayout,
    RemoteGrid,
    RowQuery,
    TableColumn,
    TableRow,
    default_text,
    describe_sort,
)
from screens.terminal_app import downloads_of
from screens.widgets.component_styles import to_content
from screens.widgets.rows import Line, ListColumn, TextLines, Tone, sanitize
from screens.widgets.virtual_list import VirtualRows
from svc_tui.client import SvcError
from svc_tui.tables_syntax import wrote
from svc_tui.terminal.units import local_time, plural

KEY_SECONDS = 2.0
"""Maximum time that keys wait for rows. After it, they are dropped with a message."""
MIN_CELLS = 24
"""Minimum width of the input over a cell."""


class LineInput(Input):
    """An input line that `esc` closes."""

    GROUP: ClassVar[str] = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Accept", id="tables.line-take"),
        Binding("escape", "screen.close_line", "Back", id="tables.line-back"),
    ]


class CellInput(LineInput):
    """The input over the cell that is edited."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+n", "screen.null", "Null", id="tables.null"),
        Binding("ctrl+d", "screen.default", "Default", id="tables.default"),
    ]

    @dataclass
    class LinesPasted(Message):
        """Several lines were pasted; `value` is the text of the input with them."""

        pasted: str
        value: str

    def place(self, cell: Region, screen: Size) -> None:
        """Cover a cell of the screen, and as many cells at its right as the text needs."""
        width = min(max(cell.width, MIN_CELLS, cell_len(self.value) + 2), screen.width)
        self.styles.width = width
        self.styles.offset = Offset(min(cell.x, screen.width - width), cell.y)

    def _on_paste(self, event: Paste) -> None:
        """Pass a text of several lines to the screen."""
        if len(event.text.splitlines()) > 1:
            event.stop()
            event.prevent_default()
            start, end = sorted(self.selection)
            value = self.value[:start] + event.text + self.value[end:]
            self.post_message(self.LinesPasted(event.text, value))


MAX_VALUE_LENGTH = 24
"""Maximum characters of a value that others have written."""


POLL_SECONDS = 1.0
"""Interval of polling for changes by others."""
NO_TABLES = "no tables yet · press T to create one, or add tables/*.sql to the project"
NO_ROWS = "no rows yet · a adds one, i imports a file"
NO_ROWS_READ_ONLY = "no rows yet"
NO_MATCH = "no rows match the filter · press backspace to remove it"
FILTERS = "name~an  name^A  age>=30  mood=null  any text"
KEYLESS = "Press A to add one: set primary key NAME, or add id integer primary key"


class TableView(ConsoleScreen):
    """The grid of one table at a time."""

    ROW_KEYS: ClassVar[frozenset[str]] = frozenset()
    """The keys that act on the rows of a table."""

    def __init__(self, client: ProjectClient) -> None:
        super().__init__(client)
        self._drafts: dict[str, Draft] = {}
        self._grid: RemoteGrid | None = None
        self._layouts: dict[str, ColumnLayout] = {}
        self._first_table = ""
        self._editing: tuple[NewRow | TableRow, TableColumn] | None = None
        self._opened = False
        self._held_keys: list[Key] = []
        """Keys that wait until rows are loaded. After the first one, every other key waits too."""
        self._held_timer: Timer | None = None

    def body(self) -> ComposeResult:
        """Yield the grid, and the lines around it."""
        with Horizontal(id="status"):
            yield Static(id="table")
            yield Static(id="staged")
        yield VirtualRows(TextLines(), (), cursor="cell")
        with VerticalScroll(id="record", can_focus=False):
            yield Static()
        with Vertical(id="line"):
            yield Static(id="prompt")
            yield LineInput(select_on_focus=False, id="filter")
        yield CellInput(select_on_focus=False, id="cell")

    def on_mount(self) -> None:
        self.set_interval(POLL_SECONDS, self._poll)
        self.watch(self.rows, "scroll_y", self._place_cell_input, init=False)

    def on_resize(self) -> None:
        self.call_after_refresh(self._place_cell_input)

    def engine_connected(self) -> None:
        """Open the current table again, or the first one. Staged edits stay."""
        if (grid := self._grid) is not None:
            self._open(grid.table, grid.query)
        else:
            self._open(self._first_table)

    # The table

    @work(group="open", exclusive=True)
    async def _open(self, table: str, query: RowQuery | None = None, line: str = "") -> None:
        if self.client.state == "live":
            with self.shown_errors():
                await self._show(table, query or RowQuery(), line)
            self._opened = True
            self._update_staged()

    async def _show(self, table: str, query: RowQuery, line: str = "") -> None:
        """Show a table; "" shows the first one. `line` is a filter to parse. Raises `SvcError`."""
        if self._grid is None or table != self._grid.table:
            names = await self.client.table_names()
            if not table and not names:
                self._grid = None
                self.rows.empty = NO_TABLES
                self.rows.set_source(TextLines(), (ListColumn("", 1),))
                self._update_status()
                self.refresh_bindings()
                return
            table = table or names[0]
        draft = self._drafts.setdefault(table, Draft()) if query.at is None else Draft()
        grid = await self._open_grid(table, query, draft)
        if line:
            await self._close_grid(grid)
            grid = await self._open_grid(table, grid.filtered(line), draft)
        await asyncio.to_thread(grid.measure, self._grid)
        old, self._grid = self._grid, grid
        self.banner = ""
        self.rows.empty = NO_ROWS if grid.editable else NO_ROWS_READ_ONLY
        if downloads_of(self.app) is not None:
            self.rows.empty = self.rows.empty.partition(",")[0]
        if query.conditions or query.search or line:
            self.rows.empty = NO_MATCH
        grid.layout = self._layouts.get(grid.table, grid.layout).for_columns(list(grid.column_index))
        column = self.rows.cursor_column if old is not None and old.table == grid.table else 1
        self.rows.set_source(grid, grid.list_columns())
        self.rows.cursor_column = column
        self._update_status()
        self.refresh_bindings()
        if old is not None:
            await self._close_grid(old)

    async def _open_grid(self, table: str, query: RowQuery, draft: Draft) -> RemoteGrid:
        types = await self.client.column_types()
        document = await self.client.call("POST", "/grid", query.document(table))
        return RemoteGrid(self.client, types, query, draft, document)

    async def _close_grid(self, grid: RemoteGrid) -> None:
        """Close a grid, which may be closed already."""
        with suppress(SvcError):
            await self.client.call("DELETE", f"/grid/{grid.id}")

    def _open_if_named(self, name: str | None) -> None:
        if name:
            self._open(name)

    def action_tables(self) -> None:
        self.app.push_screen(Picker("which table?", self._table_choices), self._open_if_named)

    async def _table_choices(self) -> dict[str, str]:
        choices = {}
        for table in (await self.client.call("GET", "/tables"))["tables"]:
            count = "many rows" if table["rows"] is None else plural(table["rows"], "row")
            kind = "view" if table["kind"] == "view" else count
            choices[table["name"]] = f"{kind:>16}  {table['note']}"
        return choices

    # The status line

    def _update_status(self) -> None:
        grid = self._grid
        pending = sum(len(draft) for draft in self._drafts.values())
        if bool(pending) != bool(self.pending):
            self.call_next(self.refresh_bindings)
        self.pending = pending
        self._update_staged()
        parts = [Content.styled("no tables", "dim")]
        if grid is not None:
            sort_text, count = describe_sort(grid.query.sorts), plural(grid.total, "row")
            parts = [
                Content.from_markup("[@click=screen.tables][b $primary]$name[/] ▾[/]", name=grid.table),
                *(Content.styled(text, "dim") for text in (count, sort_text) if text),
            ]
            for index, chip in enumerate(grid.query.chips()):
                drop = f"[@click=screen.drop_filter({index})][dim]×[/][/]"
                parts.append(Content.from_markup(f"[on $panel] $chip {drop} [/]", chip=chip))
            warning = "" if grid.editable else f"read-only: {grid.read_only_reason}"
            if grid.moment is not None:
                warning = f"as of {local_time(grid.moment['time_ns'])[:19]}, {wrote(grid.moment)}"
            if warning:
                parts.append(Content.styled(warning, "$text-warning"))
        self.query_one("#table", Static).update(Content("   ").join(parts))

    @on(VirtualRows.Moved)
    @on(VirtualRows.Loaded)
    def _update_staged(self) -> None:
        """Show the staged edits, or what others wrote into the edited cell; handle the keys that waited."""
        grid, row, column = self._grid, self._current_row(), self._current_column()
        elsewhere = next((name for name, draft in self._drafts.items() if len(draft)), "")
        text = f"staged edits in {elsewhere}" if elsewhere else ""
        if grid is not None and len(grid.draft):
            text = f"{plural(len(grid.draft), 'row')} changed · ctrl+s applies"
        if grid is not None and isinstance(row, TableRow) and column and grid.has_conflict(row, column):
            current, _ = piece(row.cells[grid.column_index[column.name]])
            if len(current) > MAX_VALUE_LENGTH:
                current = f"{current[: MAX_VALUE_LENGTH - 1]}…"
            text = f"others wrote {sanitize(current)} here · ctrl+s asks"
        self.query_one("#status").set_class(bool(text), "-staged")
        self.query_one("#staged", Static).update(Content(text))
        if not self._is_loading():
            for event in self._take_held_keys():
                key = Key(event.key, event.character)
                if (sender := event._sender) is not None:  # Events of a screen do not bubble beyond it.
                    key.set_sender(sender)
                self.app.post_message(key)

    def on_key(self, event: Key) -> None:
        """Queue a key that acts on rows until they are loaded."""
        if self.focused is not None and not self.rows.has_focus:
            return
        if self._held_keys or (event.key in self.ROW_KEYS and self._is_loading()):
            if self._held_timer is None:
                self._held_timer = self.set_timer(KEY_SECONDS, self._drop_held_keys)
            self._held_keys.append(event)
            event.stop()

    def _drop_held_keys(self) -> None:
        if self._take_held_keys():
            self.notify("the rows are still loading; press the key again", severity="warning")

    def _take_held_keys(self) -> list[Key]:
        if self._held_timer is not None:
            self._held_timer.stop()
            self._held_timer = None
        keys, self._held_keys = self._held_keys, []
        return keys

    @on(VirtualRows.Loaded)
    def _widen_columns(self) -> None:
        top = self.rows.scroll_offset.y
        if (grid := self._grid) is not None and grid.widen(top, top + self.size.height):
            self.rows.set_columns(grid.list_columns(), same_cells=True)

    @on(VirtualRows.Moved)
    @on(VirtualRows.Loaded)
    def _show_record(self) -> None:
        """Show the fields of the row at the cursor below a table that leaves room for them."""
        grid, row, record = self._grid, self._current_row(), self.query_one("#record")
        list_rows = self.rows.virtual_size.height + 1
        record.display = row is not None and list_rows <= self.size.height // 2
        self.rows.styles.height = list_rows if record.display else "1fr"
        if grid is not None and row is not None and record.display:
            columns = grid.visible_columns()
            width = max((cell_len(sanitize(column.name)) for column in columns), default=0)
            lines: list[Line] = []
            tone: Tone
            for column in columns:
                text, tone = default_text(column), "dim"  # what an empty cell of a new row will be
                if isinstance(row, TableRow) or column.name in row.cells:
                    text, tone = typed_piece(self._value(row, column), column.type)
                for number, line in enumerate(text.splitlines() or [""]):
                    name = set_cell_size("" if number else sanitize(column.name), width)
                    lines.append(((name, "dim"), ("  ", ""), (sanitize(line), tone)))
            record.query_one(Static).update(to_content(lines))

    def _is_loading(self) -> bool:
        """Return whether the first table is being opened, or the row at the cursor is being loaded."""
        grid, rows = self._grid, self.rows
        if grid is None:
            return not self._opened
        at = rows.cursor_row
        return at < rows.count and grid.at(at) is None and rows.key(at) != DELETED_KEY

    def _redraw(self) -> None:
        self.rows.reload()
        self._update_status()
        self._place_cell_input()

    def on_virtual_list_failed(self, event: VirtualRows.Failed) -> None:
        """Show why rows could not be loaded. Staged edits stay."""
        self.banner = event.reason

    # The cursor

    def _current_grid(self) -> RemoteGrid:
        assert self._grid is not None
        return self._grid

    def _current_row(self) -> NewRow | TableRow | None:
        return self._grid.at(self.rows.cursor_row) if self._grid is not None else None

    def _current_column(self) -> TableColumn | None:
        number = self.rows.cursor_column - 1
        columns = self._grid.visible_columns() if self._grid is not None else []
        return columns[number] if 0 <= number < len(columns) else None

    def _value(self, row: NewRow | TableRow, column: TableColumn) -> Any:
        """Return the value of a cell, with its staged edit."""
        grid = self._current_grid()
        if isinstance(row, NewRow):
            return row.cells.get(column.name)
        edit = grid.draft.edit(row.key)
        if edit is not None and column.name in edit.now:
            return edit.now[column.name]
        return row.cells[grid.column_index[column.name]]

    def _can_edit(self) -> bool:
        """Return whether rows can be edited; notify the user of the reason if not."""
        if self._grid is None:
            return False
        if not self._grid.editable:
            hint = f"\n{KEYLESS}" if "primary key" in self._grid.read_only_reason else ""
            text = f"{self._grid.table} {self._grid.read_only_reason}{hint}"
            self.notify(text, severity="warning", markup=False)
        return self._grid.editable

    # Filter and sort order

    def _open_line(self, line: LineInput, prompt: str, value: str, rule: str) -> None:
        """Edit a value in the filter or over the cell at the cursor, with a prompt at the bottom."""
        content = Content.from_markup("[b]$prompt[/]  [dim]$rule[/]", prompt=prompt, rule=rule)
        self.query_one("#prompt", Static).update(content)
        line.value = value
        line.cursor_position = len(value)
        for each in self.query(LineInput):
            each.display = each is line
        self.query_one("#line").display = True
        self._place_cell_input()
        self.call_after_refresh(self._place_cell_input)  # The prompt may scroll the rows.
        self.set_focus(line)

    def _place_cell_input(self) -> None:
        if self._editing is None or (grid := self._grid) is None:
            return
        row, column = self._editing
        if isinstance(row, NewRow):
            index = next((at for at, new in enumerate(grid.draft.new) if new.number == row.number), None)
        else:
            index = grid.row_of(row.key)
        shown_row = self.rows.cursor_row if index is None else index
        cell = self.rows.cell_region(shown_row, grid.position(column.name) or 0)
        self.query_one(CellInput).place(cell, self.size)

    def action_close_line(self) -> None:
        self._editing = None
        self.query_one("#line").display = self.query_one(CellInput).display = False
        self.set_focus(self.rows)

    def action_filter(self) -> None:
        if self._grid is not None:
            self._editing = None
            line = self.query_one("#filter", LineInput)
            self._open_line(line, "filter", self._grid.query.text(), FILTERS)

    @work(group="open", exclusive=True)
    async def _filter(self, grid: RemoteGrid, line: str) -> None:
        """Show the rows that match a filter. The input stays open with the error of an invalid one."""
        try:
            await self._show(grid.table, grid.filtered(line))
        except SvcError as error:
            text = "[$text-error]$message[/]  [dim]$hint[/]"
            content = Content.from_markup(text, message=error.message, hint=error.hint)
            self.query_one("#prompt", Static).update(content)
        else:
            self.action_close_line()

    def action_drop_filter(self, index: int) -> None:
        grid = self._current_grid()
        self._open(grid.table, grid.query.without(index))

    def action_drop_last_filter(self) -> None:
        if self._grid is not None and (chips := self._grid.query.chips()):
            self.action_drop_filter(len(chips) - 1)

    def action_sort(self, append: bool) -> None:
        if self._grid is not None and (column := self._current_column()) is not None:
            self._open(self._grid.table, self._grid.query.sorted_by(column.name, append=append))

    # Changes by others

    def _poll(self) -> None:
        if self._grid is None or self.client.state != "live" or self.app.screen is not self:
            return
        if not is_working(self, "refresh"):  # The engine says only once that the rows are stale.
            self._refresh_if_stale(self._grid)

    @work(group="refresh", exclusive=True)
    async def _refresh_if_stale(self, grid: RemoteGrid) -> None:
        try:
            stale = (await self.client.call("GET", f"/grid/{grid.id}"))["stale"]
        except SvcError as error:
            self._on_grid_error(grid, error)
        else:
            if stale and grid is self._grid:
                await self._refresh(grid)

    @work(group="refresh", exclusive=True)
    async def action_refresh(self) -> None:
        if (grid := self._grid) is None or self.banner:
            self.engine_connected()
            return
        grid.changed.clear()
        await self._refresh(grid)

    async def _refresh(self, grid: RemoteGrid, *, mark_changes: bool = True) -> None:
        """Show the current rows; `mark_changes` marks concurrent changes. The cursor stays on its row."""
        top, signs = self.rows.scroll_offset.y, grid.changed
        visible, current = grid.cached_rows(top, top + self.size.height), self._current_row()
        rows = [*visible, *([current] if isinstance(current, TableRow) and current not in visible else [])]
        body = {"rows": [{"key": list(row.key), "version": row.version} for row in rows]}
        try:
            answer = await self.client.call("POST", f"/grid/{grid.id}/refresh", body)
        except SvcError as error:
            self._on_grid_error(grid, error)
            return
        if grid is not self._grid:
            return
        grid.total = answer["count"]
        known_rows: dict[int, TableRow] = {}  # Rows for the next key, until the list has fetched them again.
        for row, state in zip(rows, answer["rows"], strict=True):
            if mark_changes and state["state"] == "changed":
                signs[row.key] = "changed"
            if (position := state["position"]) is None:
                continue
            index = position + len(grid.draft.new)
            if row is current:
                self.rows.cursor_row = index
            if state["state"] == "unchanged" and (row is current or grid.at(index) is row):
                known_rows[position] = row
        grid.set_cache(known_rows)
        self._redraw()

    def _on_grid_error(self, grid: RemoteGrid, error: SvcError) -> None:
        """Open the grid again if it was closed or its table altered. Staged edits stay."""
        if grid is not self._grid or error.code == "unreachable":
            return
        if error.code in ("not-found", "changed"):
            self._open(grid.table, grid.query)
        else:
            self.banner = error.text
