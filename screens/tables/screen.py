"""The Tables tab: one table of the Project at a time, in a grid in which it is changed.

Owns the keys and what is going on; rows are `grid.py`'s, what waits to be applied `draft.py`'s, what is shown
`query.py`'s. Nothing is changed before ctrl+s.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from screens.console_screen import Command, ConsoleScreen, Tab
from screens.link import Link
from screens.tables.cells import NOW, as_text, is_cut, read
from screens.tables.conflicts import Conflicts
from screens.tables.draft import Draft, Key, New
from screens.tables.grid import Grid, Seen, TableColumn, default
from screens.tables.picker import TablePicker
from screens.tables.query import Query, sort_words
from screens.widgets.columns import Column
from screens.widgets.row_source import Row
from screens.widgets.virtual_rows import VirtualRows
from svc_tui.client import SvcError

LOOK_SECONDS = 1.0
"""How often it is asked whether somebody else wrote something."""
NO_TABLES = "there are no tables yet · T makes one; so do tables/*.sql in the Project's folder"
NO_ROWS = "no rows yet · a adds one, i imports a file"
NOTHING = "no row passes the filter · backspace takes it away"


class Nothing:
    """No rows."""

    def count(self) -> int:
        """Return none."""
        return 0

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return none."""
        return ()


class CellLine(Input):
    """The line in which a cell is edited, or a filter is written."""

    GROUP: ClassVar[str] = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.close_line", "Back", id="tables.line-back"),
        Binding("ctrl+n", "screen.null", "Null", id="tables.null"),
        Binding("ctrl+d", "screen.default", "Default", id="tables.default"),
    ]


class TablesScreen(ConsoleScreen):
    """The tables."""

    TAB: ClassVar[Tab] = "tables"
    GROUP: ClassVar[str] = "Tables"
    HELP: ClassVar[str] = (
        "A table as a grid. Changes wait, coloured, until ctrl+s applies all of them at once; what somebody\n"
        "else wrote meanwhile is a conflict that you settle. Filters: name~an age>=30 mood=null, any text."
    )
    AUTO_FOCUS = "VirtualRows"
    DEFAULT_CSS = """
    TablesScreen {
        & #what { height: 1; padding: 0 1; }
        & #table { width: 1fr; height: 1; text-wrap: nowrap; link-style: none; link-color: $foreground; }
        & #waiting { width: auto; height: 1; color: $text-warning; }
        & VirtualRows { height: 1fr; }
        & #line { display: none; height: auto; background: $surface; padding: 0 1; }
        & #line > #asked { height: auto; color: $foreground-muted; }
        & CellLine { height: 1; border: none; padding: 0; background: $surface; }
        & CellLine:focus { border: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "tables", "Table", id="tables.choose"),
        Binding("e", "edit", "Edit", id="tables.edit"),
        Binding("a", "add", "Add", id="tables.add"),
        Binding("d", "delete", "Delete", id="tables.delete"),
        Binding("slash", "filter", "Filter", key_display="/", id="tables.filter"),
        Binding("s", "sort(False)", "Sort", show=False, id="tables.sort"),
        Binding("S", "sort(True)", "Sort by this, too", show=False, id="tables.sort-more"),
        Binding("backspace", "less", "Less filter", show=False, id="tables.less"),
        Binding("u", "undo", "Undo", show=False, id="tables.undo"),
        Binding("U", "redo", "Redo", show=False, id="tables.redo"),
        Binding("ctrl+s", "apply", "Apply", id="tables.apply"),
        Binding("ctrl+r,f5", "refresh", "Refresh", show=False, id="tables.refresh"),
        Binding("ctrl+n", "null", "Null", show=False, id="tables.cell-null"),
        Binding("y", "copy", "Copy", show=False, id="tables.copy"),
    ]

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._drafts: dict[str, Draft] = {}
        self._grid: Grid | None = None
        self._wanted = ""
        self._editing: TableColumn | None = None

    def body(self) -> ComposeResult:
        """Place the name of the table, the grid, and the line for words."""
        with Horizontal(id="what"):
            yield Static(id="table")
            yield Static(id="waiting")
        yield VirtualRows(Nothing(), (), cursor="cell", empty="")
        with Vertical(id="line"):
            yield Static(id="asked")
            yield CellLine(select_on_focus=False)

    def on_mount(self) -> None:
        """Look for what others write."""
        self.set_interval(LOOK_SECONDS, self._look)

    def restored(self) -> None:
        """Open the table again that was open, or the first one; what waits stays."""
        table = self._grid.table if self._grid is not None else self._wanted
        query = self._grid.query if self._grid is not None else Query()
        self._open(table, query)

    @property
    def rows(self) -> VirtualRows:
        """The grid's list."""
        return self.query_one(VirtualRows)

    def commands(self) -> Sequence[Command]:
        """Return what Tables can be told in words."""
        return [Command("table NAME", "Open a table", self.go)]

    def go(self, words: Sequence[str]) -> None:
        """Open the table that is named, and filter it by the other words."""
        self._wanted = words[0]
        self._open(words[0], Query(), " ".join(words[1:]))

    # Which table

    def _open(self, table: str, query: Query, line: str = "") -> None:
        self.run_worker(self._opened(table, query, line), group="open", exclusive=True)

    async def _opened(self, table: str, query: Query, line: str = "") -> None:
        if self.link.state != "live":
            return
        try:
            if not table:
                names = [each["name"] for each in (await self.link.call("GET", "/tables"))["tables"]]
                if not names:
                    self._none()
                    return
                table = names[0]
            draft = self._drafts.setdefault(table, Draft())
            grid = await self._grid_of(table, query, draft)
            if line:
                filtered = query.filtered(line, grid.names)
                await self._let_go(grid)
                grid = await self._grid_of(table, filtered, draft)
        except SvcError as error:
            self.tell(error)
            return
        before, self._grid = self._grid, grid
        self.banner = ""
        self.rows.empty = NOTHING if query.conditions or query.search or line else NO_ROWS
        self.rows.show(grid, grid.titles())
        self.rows.cursor_column = 1
        self._tell()
        self.refresh_bindings()
        if before is not None:
            await self._let_go(before)

    async def _grid_of(self, table: str, query: Query, draft: Draft) -> Grid:
        return Grid(self.link, query, draft, await self.link.call("POST", "/grid", query.body(table)))

    async def _let_go(self, grid: Grid) -> None:
        """Let go of a grid; one that is gone already is as well."""
        try:
            await self.link.call("DELETE", f"/grid/{grid.id}")
        except SvcError:
            return

    def _none(self) -> None:
        self._grid = None
        self.rows.empty = NO_TABLES
        self.rows.show(Nothing(), (Column("", 1),))
        self._tell()

    def action_tables(self) -> None:
        """Choose a table."""
        self.app.push_screen(TablePicker(self.link), lambda name: self._open(name, Query()) if name else None)

    # What is told

    def _tell(self) -> None:
        grid = self._grid
        self.pending = sum(len(draft) for draft in self._drafts.values())
        waiting = len(grid.draft) if grid is not None else 0
        said = f"{waiting} row{'' if waiting == 1 else 's'} changed · ctrl+s applies" if waiting else ""
        self.query_one("#waiting", Static).update(Content(said))
        line = self.query_one("#table", Static)
        if grid is None:
            line.update(Content.from_markup("[dim]no tables[/]"))
            return
        parts = [
            Content.from_markup("[@click=screen.tables][b $primary]$name[/] ▾[/]", name=grid.table),
            Content.from_markup("[dim]$count rows[/]", count=f"{grid.total:,}"),
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

    def _drawn(self) -> None:
        """Draw again what waits."""
        self.rows.reload()
        self._tell()

    def on_windowed_failed(self, event: VirtualRows.Failed) -> None:
        """Tell that rows could not be had; what waits stays to be seen and copied."""
        self.banner = event.reason

    # The cursor

    def _here(self) -> New | Seen | None:
        return self._grid.at(self.rows.cursor_row) if self._grid is not None else None

    def _column(self) -> TableColumn | None:
        number = self.rows.cursor_column - 1
        grid = self._grid
        return grid.columns[number] if grid is not None and 0 <= number < len(grid.columns) else None

    def _value(self, row: New | Seen, column: TableColumn) -> Any:
        assert self._grid is not None
        if isinstance(row, New):
            return row.cells.get(column.name)
        edit = self._grid.draft.edit(row.key)
        if edit is not None and column.name in edit.now:
            return edit.now[column.name]
        return row.cells[self._grid.names[column.name]]

    def _may(self) -> bool:
        """Say whether rows can be changed, and why not."""
        if self._grid is None:
            return False
        if not self._grid.editable:
            self.notify(f"{self._grid.table} {self._grid.reason}", severity="warning", markup=False)
        return self._grid.editable

    # Editing

    def on_virtual_rows_opened(self) -> None:
        """Edit the cell."""
        self.action_edit()

    def action_edit(self) -> None:
        """Edit the cell that the cursor is on; a boolean turns at once."""
        row, column = self._here(), self._column()
        if row is None or column is None or not self._may():
            return
        if column.generated:
            self.notify(f"{column.name} is computed", severity="warning", markup=False)
            return
        if isinstance(row, Seen) and (edit := self._grid_now().draft.edit(row.key)) and edit.deleted:
            self.notify("the row is deleted; d takes that back", severity="warning")
            return
        value = self._value(row, column)
        if column.type == "boolean" and isinstance(value, bool):
            self._set(row, column, not value)
        else:
            self.run_worker(self._begin(row, column, value), group="edit", exclusive=True)

    async def _begin(self, row: New | Seen, column: TableColumn, value: Any) -> None:
        grid = self._grid_now()
        if is_cut(value) and isinstance(row, Seen):
            try:
                value = await asyncio.to_thread(self._whole, grid, row, column)
            except SvcError as error:
                self.tell(error)
                return
        self._editing = column
        self._ask(f"{column.name}  {column.type}", as_text(value), self._rule(column))

    def _whole(self, grid: Grid, row: Seen, column: TableColumn) -> Any:
        """Return a cell that was cut, whole."""
        params = {"key": json.dumps(list(row.key)), "column": column.name}
        return self.link.ask("GET", f"/grid/{grid.id}/cell", params=params)["value"]

    @staticmethod
    def _rule(column: TableColumn) -> str:
        about = ["ctrl+n null"] if column.nullable else []
        if column.type == "timestamp":
            about.insert(0, f"ISO 8601, or {NOW}")
        if column.type == "blob":
            about.insert(0, "base64")
        return " · ".join([*about, *([column.note] if column.note else [])])

    def _ask(self, asked: str, value: str, rule: str) -> None:
        self.query_one("#asked", Static).update(
            Content.from_markup("[b]$asked[/]  [dim]$rule[/]", asked=asked, rule=rule)
        )
        line = self.query_one(CellLine)
        line.value = value
        line.cursor_position = len(value)
        self.query_one("#line").display = True
        line.focus()

    def action_close_line(self) -> None:
        """Leave the line, and what it was for."""
        self._editing = None
        self.query_one("#line").display = False
        self.rows.focus()

    @on(Input.Changed, "CellLine")
    def _typed(self, event: Input.Changed) -> None:
        """Say at once what is wrong with a value."""
        if (column := self._editing) is None:
            return
        wrong = ""
        try:
            read(event.value, column.type)
        except ValueError as error:
            wrong = str(error)
        said = Content.from_markup(
            "[b]$name  $type[/]  [$text-error]$wrong[/][dim]$rule[/]",
            name=column.name,
            type=column.type,
            wrong=wrong,
            rule="" if wrong else self._rule(column),
        )
        self.query_one("#asked", Static).update(said)

    @on(Input.Submitted, "CellLine")
    def _answered(self, event: Input.Submitted) -> None:
        column, row = self._editing, self._here()
        if column is None:
            self._filter(event.value)
            return
        try:
            value = read(event.value, column.type)
        except ValueError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self.action_close_line()
        if row is not None:
            self._set(row, column, value)

    def action_null(self) -> None:
        """Have the cell be null."""
        row, column = self._here(), self._editing or self._column()
        if row is None or column is None or not self._may():
            return
        if not column.nullable:
            self.notify(f"{column.name} needs a value", severity="warning", markup=False)
            return
        self.action_close_line()
        self._set(row, column, None)

    def action_default(self) -> None:
        """Leave the cell of a new row to its default."""
        row, column = self._here(), self._editing
        if isinstance(row, New) and column is not None:
            self.action_close_line()
            self._grid_now().draft.clear_new(row.number, column.name)
            self._drawn()

    def _set(self, row: New | Seen, column: TableColumn, value: Any) -> None:
        grid = self._grid_now()
        if isinstance(row, New):
            grid.draft.set_new(row.number, column.name, value)
        else:
            grid.draft.set(row.key, column.name, row.cells[grid.names[column.name]], value)
        self._drawn()

    def _grid_now(self) -> Grid:
        assert self._grid is not None
        return self._grid

    def action_add(self) -> None:
        """Add a row, at the top, with every cell left to its default."""
        if self._may():
            self._grid_now().draft.add([{}])
            self._drawn()
            self.rows.cursor_row = 0
            needed = [each for each in self._grid_now().columns if default(each) == "needed"]
            first = (
                needed[0]
                if needed
                else next((each for each in self._grid_now().columns if not each.primary_key), None)
            )
            if first is not None:
                self.rows.cursor_column = self._grid_now().names[first.name] + 1

    def action_delete(self) -> None:
        """Delete the marked rows, or that of the cursor; those that are deleted already come back."""
        if not self._may():
            return
        grid, here = self._grid_now(), self._here()
        if isinstance(here, New) and not self.rows.marks:
            grid.draft.drop_new([here.number])
        else:
            rows = [here] if isinstance(here, Seen) and not self.rows.marks else self._marked()
            names = [column.name for column in grid.columns]
            grid.draft.delete({row.key: dict(zip(names, row.cells, strict=True)) for row in rows})
        self.rows.unmark()
        self._drawn()

    def _marked(self) -> list[Seen]:
        grid, marks = self._grid_now(), self.rows.marks
        return [row for row in grid.shown_rows(0, grid.count()) if row.key in marks]

    def action_undo(self) -> None:
        """Take the last change back."""
        self._stepped(self._grid is not None and self._grid.draft.undo(), "nothing to undo")

    def action_redo(self) -> None:
        """Make the change again that was taken back."""
        self._stepped(self._grid is not None and self._grid.draft.redo(), "nothing to redo")

    def _stepped(self, done: bool, otherwise: str) -> None:
        if done:
            self._drawn()
        else:
            self.notify(otherwise, timeout=2)

    def action_copy(self) -> None:
        """Copy the cell."""
        if (row := self._here()) is not None and (column := self._column()) is not None:
            self.app.copy_to_clipboard(as_text(self._value(row, column)))
            self.notify(f"{column.name} is in the clipboard", timeout=2, markup=False)

    # What is shown

    def action_filter(self) -> None:
        """Write a filter."""
        if self._grid is not None:
            self._editing = None
            self._ask("filter", self._grid.query.words(), "name~an  name^A  age>=30  mood=null  any text")

    def _filter(self, line: str) -> None:
        grid = self._grid_now()
        try:
            query = grid.query.filtered(line, grid.names)
        except SvcError as error:
            self.tell(error)
            return
        self.action_close_line()
        self._open(grid.table, query)

    def action_without(self, index: int) -> None:
        """Take one part of the filter away."""
        grid = self._grid_now()
        self._open(grid.table, grid.query.without(index))

    def action_less(self) -> None:
        """Take the last part of the filter away."""
        if self._grid is not None and (chips := self._grid.query.chips()):
            self.action_without(len(chips) - 1)

    def action_sort(self, more: bool) -> None:
        """Sort by the column of the cursor: up, down, not."""
        if self._grid is not None and (column := self._column()) is not None:
            self._open(self._grid.table, self._grid.query.sorted_by(column.name, more=more))

    # What others write

    def _look(self) -> None:
        if self._grid is not None and self.link.state == "live" and self.app.screen is self:
            self.run_worker(self._looked(self._grid), group="look", exclusive=True)

    async def _looked(self, grid: Grid) -> None:
        try:
            if (await self.link.call("GET", f"/grid/{grid.id}"))["stale"] and grid is self._grid:
                await self._refreshed(grid)
        except SvcError as error:
            self._lost(grid, error)

    def action_refresh(self) -> None:
        """Show what there is now."""
        if self._grid is not None:
            grid = self._grid
            grid.changed.clear()
            self.run_worker(self._refresh_now(grid), group="look", exclusive=True)

    async def _refresh_now(self, grid: Grid, *, marked: bool = True) -> None:
        try:
            await self._refreshed(grid, marked=marked)
        except SvcError as error:
            self._lost(grid, error)

    async def _refreshed(self, grid: Grid, *, marked: bool = True) -> None:
        """Show the rows that there are now; those that somebody else changed are `marked`.

        The cursor stays on its row.
        """
        top = self.rows.scroll_offset.y
        seen = grid.shown_rows(top, top + self.size.height)
        here = self._here()
        asked = [*seen, *([here] if isinstance(here, Seen) and here not in seen else [])]
        wish = {"rows": [{"key": list(row.key), "version": row.version} for row in asked]}
        found = await self.link.call("POST", f"/grid/{grid.id}/refresh", wish)
        if grid is not self._grid:
            return
        grid.total = found["count"]
        for row, became in zip(asked, found["rows"], strict=True):
            if marked and became["state"] == "changed":
                grid.changed[row.key] = "changed"
            if row is here and became["at"] is not None:
                self.rows.cursor_row = became["at"] + len(grid.draft.new)
        grid.forget()
        self._drawn()

    def _lost(self, grid: Grid, error: SvcError) -> None:
        """Tell of a table that is not there any more as it was; what waits stays."""
        if grid is not self._grid or error.code == "unreachable":
            return
        if error.code == "not-found":  # nobody asked for it for a while
            self._open(grid.table, grid.query)
        else:
            self.banner = f"{error.message}\n{error.hint}".strip()

    # Applying

    def action_apply(self) -> None:
        """Apply what waits, all of it or nothing."""
        if self._grid is not None and len(self._grid.draft):
            self.run_worker(self._apply(self._grid, "refuse"), group="apply")

    async def _apply(self, grid: Grid, conflicts: str) -> None:
        waits = grid.draft.changes()
        body = {"table": grid.table, "changes": [change for _, change in waits], "conflicts": conflicts}
        try:
            done = await self.link.call("POST", "/rows", body)
        except SvcError as error:
            self.tell(error)
            return
        if done["errors"]:
            self._mistakes(grid, waits, done["errors"])
            return
        left = [waits[each["index"]][0] for each in done["conflicts"]]
        if left and conflicts == "refuse":
            self._settle(grid, waits, done["conflicts"])
            return
        grid.draft.applied(left)
        count = done["applied"]
        self.notify(
            f"{count} row{'' if count == 1 else 's'} changed in {grid.table}", markup=False, timeout=3
        )
        await self._refresh_now(grid, marked=False)

    def _mistakes(self, grid: Grid, waits: Sequence[tuple[Key | int, Any]], errors: Sequence[Any]) -> None:
        first = errors[0]
        more = f"\n… and {len(errors) - 1} more" if len(errors) > 1 else ""
        if first["index"] is None:
            self.banner = f"nothing was changed: {first['message']}{more}"
            return
        which, column = waits[first["index"]][0], first["column"]
        row = "the new row" if isinstance(which, int) else f"row {', '.join(map(str, which))}"
        where = f"{row}, {column}" if column else row
        self.banner = f"nothing was changed: {where}: {first['message']}{more}"
        new = [row.number for row in grid.draft.new]
        place = new.index(which) if isinstance(which, int) else grid.place(which)
        if place is not None:
            self.rows.cursor_row = place
        if column in grid.names:
            self.rows.cursor_column = grid.names[column] + 1

    def _settle(self, grid: Grid, waits: Sequence[tuple[Key | int, Any]], conflicts: Sequence[Any]) -> None:
        """Ask what is to become of rows that somebody else changed."""
        told: list[tuple[Key, Mapping[str, Any], Any]] = []
        for each in conflicts:
            which, change = waits[each["index"]]
            if not isinstance(which, int):
                told.append((which, change, each["now"]))

        def chosen(choice: str | None) -> None:
            now = {key: row for key, _, row in told}
            if choice == "rest":
                self.run_worker(self._apply(grid, "skip"), group="apply")
            elif choice in ("mine", "theirs"):
                grid.draft.settle(now, mine=choice == "mine")
                self._drawn()
                if choice == "mine":
                    self.run_worker(self._apply(grid, "refuse"), group="apply")

        self.app.push_screen(Conflicts(grid.table, [column.name for column in grid.columns], told), chosen)
