"""The dialog for order, visibility and widths of columns."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from screens.tables.column_layout import ColumnLayout
from screens.widgets.columns import ListColumn
from screens.widgets.row_source import Row
from screens.widgets.virtual_list import VirtualRows


class _ColumnRows:
    """The rows of the list, one per column."""

    def __init__(self, layout: ColumnLayout, types: Mapping[str, str]) -> None:
        self.layout, self._types = layout, types

    def count(self) -> int:
        return len(self.layout.columns)

    def window(self, start: int, n: int) -> Sequence[Row]:
        return [
            Row(
                column.name,
                (
                    (("·" if column.hidden else "✓", "dim" if column.hidden else "good"),),
                    ((column.name, "dim" if column.hidden else ""),),
                    ((self._types[column.name], "dim"),),
                    ((str(column.width) if column.width else "auto", "dim"),),
                ),
            )
            for column in self.layout.columns[start : start + n]
        ]


class ColumnsScreen(ModalScreen[None]):
    """Edits a column layout, and calls `on_change` after each change."""

    GROUP: ClassVar[str] = "Columns"
    AUTO_FOCUS = "VirtualRows"
    DEFAULT_CSS = """
    ColumnsScreen { align: right top; background: $background 40%; }
    ColumnsScreen > Vertical {
        width: 58; max-width: 96%; height: 24; max-height: 90%; margin: 1 1; padding: 0 1;
        background: $surface; border-left: outer $primary;
    }
    ColumnsScreen VirtualRows { height: 1fr; background: $surface; }
    ColumnsScreen .keys { height: auto; color: $foreground-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("K,shift+up", "move(-1)", "Move left", id="columns.before"),
        Binding("J,shift+down", "move(1)", "Move right", id="columns.after"),
        Binding("plus", "widen(1)", "Wider", id="columns.wider"),
        Binding("minus", "widen(-1)", "Narrower", id="columns.narrower"),
        Binding("escape", "back", "Back", id="columns.back"),
    ]

    def __init__(
        self,
        layout: ColumnLayout,
        columns: Mapping[str, tuple[str, int]],
        on_change: Callable[[ColumnLayout], None],
    ) -> None:
        """Create the dialog. `columns` has type and displayed width of each column."""
        super().__init__()
        self._widths = {name: width for name, (_, width) in columns.items()}
        self._columns = _ColumnRows(layout, {name: type for name, (type, _) in columns.items()})
        self._on_change = on_change

    def compose(self) -> ComposeResult:
        """Compose the list and its keys."""
        titles = (
            ListColumn("", 1),
            ListColumn("column", 20, grow=True),
            ListColumn("type", 10),
            ListColumn("width", 5),
        )
        with Vertical():
            yield VirtualRows(self._columns, titles)
            yield Static(Content("enter show or hide · J K move · + - width · esc back"), classes="keys")

    @property
    def _row(self) -> int:
        return self.query_one(VirtualRows).cursor_row

    def on_virtual_rows_opened(self) -> None:
        """Hide or show the column."""
        self._set(self._columns.layout.toggled(self._row))

    def action_move(self, by: int) -> None:
        """Move the column."""
        row = self._row
        self._set(self._columns.layout.moved(row, by))
        self.query_one(VirtualRows).cursor_row = row + by

    def action_widen(self, by: int) -> None:
        """Make the column wider or narrower."""
        name = self._columns.layout.columns[self._row].name
        self._set(self._columns.layout.widened(self._row, by, self._widths[name]))

    def _set(self, layout: ColumnLayout) -> None:
        self._columns.layout = layout
        self.query_one(VirtualRows).reload()
        self._on_change(layout)

    def action_back(self) -> None:
        """Close the dialog."""
        self.dismiss(None)
