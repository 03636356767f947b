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
from screens.widgets.virtual_rows import VirtualRows


class _Listed:
    """The columns as rows of a list."""

    def __init__(self, arrangement: ColumnLayout, about: Mapping[str, str]) -> None:
        self.arrangement, self._about = arrangement, about

    def count(self) -> int:
        return len(self.arrangement.columns)

    def window(self, start: int, n: int) -> Sequence[Row]:
        return [
            Row(
                each.name,
                (
                    (("·" if each.hidden else "✓", "dim" if each.hidden else "good"),),
                    ((each.name, "dim" if each.hidden else ""),),
                    ((self._about[each.name], "dim"),),
                    ((str(each.width) if each.width else "own", "dim"),),
                ),
            )
            for each in self.arrangement.columns[start : start + n]
        ]


class ColumnsScreen(ModalScreen[None]):
    """Edits a column layout, and calls `heard` after each change."""

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
        Binding("K,shift+up", "move(-1)", "Before", id="columns.before"),
        Binding("J,shift+down", "move(1)", "After", id="columns.after"),
        Binding("plus", "widen(1)", "Wider", id="columns.wider"),
        Binding("minus", "widen(-1)", "Narrower", id="columns.narrower"),
        Binding("escape", "leave", "Back", id="columns.back"),
    ]

    def __init__(
        self,
        arrangement: ColumnLayout,
        about: Mapping[str, tuple[str, int]],
        heard: Callable[[ColumnLayout], None],
    ) -> None:
        """`about` has the type of each column, and its own width."""
        super().__init__()
        self._widths = {name: width for name, (_, width) in about.items()}
        self._listed = _Listed(arrangement, {name: type for name, (type, _) in about.items()})
        self._heard = heard

    def compose(self) -> ComposeResult:
        """Place the list and its keys."""
        titles = (
            ListColumn("", 1),
            ListColumn("column", 20, grow=True),
            ListColumn("type", 10),
            ListColumn("width", 5),
        )
        with Vertical():
            yield VirtualRows(self._listed, titles)
            yield Static(Content("enter show or hide · J K move · + - width · esc back"), classes="keys")

    @property
    def _row(self) -> int:
        return self.query_one(VirtualRows).cursor_row

    def on_virtual_rows_opened(self) -> None:
        """Hide the column, or show it."""
        self._take(self._listed.arrangement.toggled(self._row))

    def action_move(self, by: int) -> None:
        """Move the column."""
        row = self._row
        self._take(self._listed.arrangement.moved(row, by))
        self.query_one(VirtualRows).cursor_row = row + by

    def action_widen(self, by: int) -> None:
        """Make the column wider, or narrower."""
        name = self._listed.arrangement.columns[self._row].name
        self._take(self._listed.arrangement.widened(self._row, by, self._widths[name]))

    def _take(self, arrangement: ColumnLayout) -> None:
        self._listed.arrangement = arrangement
        self.query_one(VirtualRows).reload()
        self._heard(arrangement)

    def action_leave(self) -> None:
        """Go back to the grid."""
        self.dismiss(None)
