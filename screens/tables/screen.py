"""The Tables tab: its keys, its commands, schema changes and files, and applying staged edits."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.events import Key

from screens.console_screen import ConsoleCommand, Tab
from screens.project_client import ProjectClient
from screens.tables.column_layout import ColumnLayout
from screens.tables.column_stats import ColumnStats
from screens.tables.columns_screen import ColumnsScreen
from screens.tables.conflicts import ConflictRow, Conflicts
from screens.tables.draft import NewRow, StagedChange
from screens.tables.editing import TableEditor
from screens.tables.export_form import TableExportForm
from screens.tables.grid import RemoteGrid
from screens.tables.history import HistoryStore, StatementHistory
from screens.tables.import_form import ImportForm
from screens.tables.picker import Choice, ColumnPicker
from screens.tables.query import Condition
from screens.tables.schema_forms import AlterForm, CreateForm
from screens.tables.sql_screen import SqlScreen
from svc_tui.terminal.units import plural

APPLYING = "apply"
"""The group of the workers that apply staged edits."""
_NEEDS_TABLE = frozenset(
    {
        "edit",
        "add",
        "delete",
        "filter",
        "sort",
        "drop_last_filter",
        "apply",
        "edit_outside",
        "column",
        "columns",
        "stats",
    }
)


class TablesScreen(TableEditor):
    """The tables."""

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
        & LineInput { height: 1; border: none; padding: 0; background: $surface; }
        & LineInput:focus { border: none; }
        & #cell { display: none; layer: above; background: $warning-muted; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "tables", "Table", id="tables.choose"),
        Binding("e", "edit", "Edit", id="tables.edit"),
        Binding("a", "add", "Add", id="tables.add"),
        Binding("d", "delete", "Delete", id="tables.delete"),
        Binding("slash", "filter", "Filter", key_display="/", id="tables.filter"),
        Binding("s", "sort(False)", "Sort", show=False, id="tables.sort"),
        Binding("S", "sort(True)", "Add to sort", show=False, id="tables.sort-more"),
        Binding("backspace", "drop_last_filter", "Drop last filter", show=False, id="tables.less"),
        Binding("u", "undo", "Undo", show=False, id="tables.undo"),
        Binding("U", "redo", "Redo", show=False, id="tables.redo"),
        Binding("ctrl+s", "apply", "Apply", id="tables.apply"),
        Binding("E", "edit_outside", "Edit in $EDITOR", show=False, id="tables.edit-outside"),
        Binding("c", "column", "Go to a column", show=False, id="tables.column"),
        Binding("C", "columns", "Columns", show=False, id="tables.columns"),
        Binding("F", "stats", "Statistics of the column", show=False, id="tables.stats"),
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

    def __init__(self, client: ProjectClient, history: HistoryStore | None = None) -> None:
        """Create the screen. `history` stores the SQL statements."""
        super().__init__(client)
        self._history = StatementHistory(history)
        self._rejection: tuple[str, Sequence[StagedChange]] = ("", [])
        """The error of the last rejected edits, and these edits."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable actions on rows while no table is shown."""
        if action in _NEEDS_TABLE and self._grid is None:
            return False
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
        """Return the commands of Tables."""
        return [
            ConsoleCommand("table NAME", "Open a table", self.navigate, self.client.known_tables),
            ConsoleCommand("sql [STATEMENT]", "Run SQL", lambda words: self.action_sql(" ".join(words))),
        ]

    def navigate(self, words: Sequence[str]) -> None:
        """Open the table of this name, filtered by the other words."""
        self._first_table = words[0]
        self._open(words[0], line=shlex.join(words[1:]))

    def on_key(self, event: Key) -> None:
        """Queue a key that acts on rows until they are loaded."""
        if self.focused is None or self.rows.has_focus:
            self._held_keys.hold(event, loading=self._is_loading())

    # Columns

    def action_columns(self) -> None:
        """Open the dialog for columns."""
        if (grid := self._grid) is not None:
            shown = [column.name for column in grid.visible_columns()]
            displayed = dict(zip(shown, self.rows.column_widths[1:], strict=False))
            about = {
                column.name: (column.type.name, displayed.get(column.name, width.default))
                for column, width in zip(grid.columns, grid.widths, strict=True)
            }
            self.app.push_screen(ColumnsScreen(grid.layout, about, partial(self._apply_column_layout, grid)))

    def action_column(self) -> None:
        """Go to a column by its name. A hidden column is shown again."""
        if (grid := self._grid) is None:
            return
        choices = []
        for layout_column in grid.layout.columns:
            column = grid.columns[grid.column_index[layout_column.name]]
            about = [column.type.name, "hidden" if layout_column.hidden else "", column.note]
            choices.append(Choice(layout_column.name, "  ".join(filter(None, about))))
        self.app.push_screen(ColumnPicker(choices), self._go_to_column)

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
        """Show the statistics of the column at the cursor, and filter by a chosen value."""
        grid, column = self._grid, self._current_column()
        if grid is None or column is None:
            return

        def on_choice(condition: Condition | None) -> None:
            if condition is not None:
                self._open(grid.table, replace(grid.query, conditions=(*grid.query.conditions, condition)))

        self.app.push_screen(ColumnStats(self.client, grid.table, column), on_choice)

    # Schema, SQL and files

    def action_create(self) -> None:
        """Create a table, and show it."""
        self.app.push_screen(CreateForm(self.client), self._open_if_named)

    def action_alter(self) -> None:
        """Alter the table."""
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
        """Open the SQL screen."""
        self.app.push_screen(
            SqlScreen(self.client, self._history, text),
            lambda wrote: self.engine_connected() if wrote else None,
        )

    def action_import(self) -> None:
        """Import a file, and show its table."""
        current = self._grid.table if self._grid is not None else ""
        columns = tuple(self._grid.column_index) if self._grid is not None else ()

        def on_imported(table: str | None) -> None:
            if table is not None:
                self._open(table or current)

        self.app.push_screen(ImportForm(self.client, current, columns), on_imported)

    def action_export(self) -> None:
        """Export the table, or the rows that are shown."""
        if self._grid is not None:
            self.app.push_screen(TableExportForm(self.client, self._grid))

    # Applying

    def action_apply(self) -> None:
        """Apply all staged edits in one transaction, including the cell that is being edited."""
        if self._stage_line() and self._grid is not None and len(self._grid.draft):
            self._apply(self._grid, "refuse")

    @work(group=APPLYING)
    async def _apply(self, grid: RemoteGrid, conflicts: str) -> None:
        """Apply the staged edits. `conflicts` is `refuse` or `skip`."""
        edits = grid.draft.changes()
        body = {"table": grid.table, "changes": [change for _, change in edits], "conflicts": conflicts}
        with self.shown_errors():
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
            if self._grid is not None:  # The table may have been opened again meanwhile, or another one.
                signs = self._grid.changed
                self._grid.changed = {key: sign for key, sign in signs.items() if key in skipped}
                await self._refresh(self._grid, mark_changes=False)

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
        """Hide the error of rejected edits."""
        if self.banner == self._rejection[0]:
            self.banner = ""

    def _update_status(self) -> None:
        """Show the current state; hide the error of edits that have changed since."""
        super()._update_status()
        if self.banner and self._grid is not None and self._grid.draft.changes() != self._rejection[1]:
            self._clear_rejection()

    def _resolve(self, grid: RemoteGrid, edits: Sequence[StagedChange], conflicts: Sequence[Any]) -> None:
        """Ask how to resolve rows with concurrent changes."""
        rows: list[ConflictRow] = []
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

        self.app.push_screen(Conflicts(grid.table, rows), on_choice)
