"""The Tables tab: one table of the Project at a time, in a grid in which it is changed.

Owns the keys, and how what waits is applied. What is shown is `shown.py`'s, what is edited `editing.py`'s.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from screens.console_screen import Command, Tab
from screens.project_client import ProjectClient
from screens.tables.conflicts import Conflicts
from screens.tables.draft import Key
from screens.tables.export_form import ExportForm
from screens.tables.grid import Grid
from screens.tables.history import History, HistoryStore
from screens.tables.import_form import ImportForm
from screens.tables.pasting import PastedTable
from screens.tables.query import Query
from screens.tables.schema_forms import AlterForm, CreateForm
from screens.tables.sql_screen import SqlScreen
from svc_tui.client import SvcError

_OF_ROWS = frozenset(
    {"edit", "add", "delete", "filter", "sort", "less", "apply", "edit_outside", "column", "columns"}
)


class TablesScreen(PastedTable):
    """The tables."""

    TAB: ClassVar[Tab] = "tables"
    GROUP: ClassVar[str] = "Tables"
    HELP: ClassVar[str] = (
        "A table as a grid. Edits are staged and highlighted; ctrl+s applies them in one transaction.\n"
        "Rows that others have changed are conflicts. Filters: name~an age>=30 mood=null, any text."
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
        & CellInput { height: 1; border: none; padding: 0; background: $surface; }
        & CellInput:focus { border: none; }
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
        Binding("E", "edit_outside", "Edit in $EDITOR", show=False, id="tables.edit-outside"),
        Binding("c", "column", "Go to a column", show=False, id="tables.column"),
        Binding("C", "columns", "Columns", show=False, id="tables.columns"),
        Binding("Q", "sql", "SQL", id="tables.sql"),
        Binding("T", "create", "Make a table", show=False, id="tables.create"),
        Binding("A", "alter", "Change the table", show=False, id="tables.alter"),
        Binding("i", "import", "Import", show=False, id="tables.import"),
        Binding("x", "export", "Export", show=False, id="tables.export"),
        Binding("ctrl+r,f5", "refresh", "Refresh", show=False, id="tables.refresh"),
        Binding("ctrl+n", "null", "Null", show=False, id="tables.cell-null"),
        Binding("y", "copy", "Copy", show=False, id="tables.copy"),
    ]

    def __init__(self, link: ProjectClient, kept: HistoryStore | None = None) -> None:
        """`kept` is where statements of SQL stay."""
        super().__init__(link)
        self._history = History(kept)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what is done with rows where there is a table."""
        if action in _OF_ROWS and self._grid is None:
            return False
        return super().check_action(action, parameters)

    def commands(self) -> Sequence[Command]:
        """Return the commands of Tables."""
        return [
            Command("table NAME", "Open a table", self.navigate),
            Command("sql [STATEMENT]", "Run SQL", lambda words: self.action_sql(" ".join(words))),
        ]

    def navigate(self, words: Sequence[str]) -> None:
        """Open the table that is named, and filter it by the other words."""
        self._wanted = words[0]
        self._open(words[0], Query(), shlex.join(words[1:]))

    # Tables as such

    def action_create(self) -> None:
        """Make a table, and show it."""
        self.app.push_screen(
            CreateForm(self.client), lambda name: self._open(name, Query()) if name else None
        )

    def action_alter(self) -> None:
        """Change the table that is shown."""
        if (grid := self._grid) is None:
            return

        def altered(name: str | None) -> None:
            if name is None:
                return
            if name != grid.table:
                waits = self._drafts.pop(grid.table)
                if name:
                    self._drafts[name] = waits
            self._open(name, grid.query if name == grid.table else Query())

        self.app.push_screen(AlterForm(self.client, grid.table), altered)

    def action_sql(self, text: str = "") -> None:
        """Open the box for SQL."""

        def left(wrote: bool | None) -> None:
            if wrote:
                self.engine_connected()

        self.app.push_screen(SqlScreen(self.client, self._history, text), left)

    # Files

    def action_import(self) -> None:
        """Ask for a file, and show the table that has its rows."""
        shown = self._grid.table if self._grid is not None else ""

        def imported(table: str | None) -> None:
            if table is not None:
                self._open(table or shown, Query())

        self.app.push_screen(ImportForm(self.client, shown), imported)

    def action_export(self) -> None:
        """Ask where to write the table, or what is shown of it."""
        if self._grid is not None:
            self.app.push_screen(ExportForm(self.client, self._grid))

    # Applying

    def action_apply(self) -> None:
        """Apply what waits, with the cell that is being edited: all of it or nothing."""
        if self._take_line() and self._grid is not None and len(self._grid.draft):
            self._start_work("apply", self._apply, self._grid, "refuse")

    async def _apply(self, grid: Grid, conflicts: str) -> None:
        waits = grid.draft.changes()
        body = {"table": grid.table, "changes": [change for _, change in waits], "conflicts": conflicts}
        try:
            done = await self.client.call("POST", "/rows", body)
        except SvcError as error:
            self.show_error(error)
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
        place = new.index(which) if isinstance(which, int) else grid.row_of(which)
        if place is not None:
            self.rows.cursor_row = place
        if column and (number := grid.number(column)) is not None:
            self.rows.cursor_column = number

    def _settle(self, grid: Grid, waits: Sequence[tuple[Key | int, Any]], conflicts: Sequence[Any]) -> None:
        """Ask how to resolve rows with concurrent changes."""
        told: list[tuple[Key, Mapping[str, Any], Any]] = []
        for each in conflicts:
            which, change = waits[each["index"]]
            if not isinstance(which, int):
                told.append((which, change, each["current"]))

        def chosen(choice: str | None) -> None:
            now = {key: row for key, _, row in told}
            if choice == "rest":
                self._start_work("apply", self._apply, grid, "skip")
            elif choice in ("mine", "theirs"):
                grid.draft.settle(now, mine=choice == "mine")
                self._redraw()
                if choice == "mine":
                    self._start_work("apply", self._apply, grid, "refuse")

        self.app.push_screen(Conflicts(grid.table, [column.name for column in grid.columns], told), chosen)
