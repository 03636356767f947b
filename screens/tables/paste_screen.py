"""Dialog for a pasted range: insert new rows, or overwrite cells from the cursor."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from screens.dialog import ChoiceDialog
from screens.tables.grid import TableColumn
from screens.tables.preview import preview_lines
from screens.widgets.row_source import Line


class PasteScreen(ChoiceDialog):
    """Returns `new` or `over`, or "" to paste nothing."""

    GROUP: ClassVar[str] = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "choose('new')", "New rows", id="tables.paste-new"),
        Binding("o", "choose('over')", "Over the cells", id="tables.paste-over"),
        Binding("escape", "choose('')", "Back", id="tables.paste-back"),
    ]
    CHOICES = (
        ("n", "new", "as new rows"),
        ("o", "over", "over the cells from the cursor"),
        ("esc", "", "back"),
    )

    def __init__(self, table: str, preview: Mapping[str, Any], columns: Sequence[TableColumn | None]) -> None:
        """Create the dialog. `preview` describes the range; `columns` are its targets, None to skip one."""
        super().__init__()
        self._table, self._preview, self._columns = table, preview, columns

    def lines(self, room: int) -> Iterator[Line]:
        """Yield the preview and the target columns."""
        yield from preview_lines(f"pasted for {self._table}", self._preview, room)
        names = ", ".join(column.name if column else "(skipped)" for column in self._columns)
        yield [("into ", "dim"), (names, "")]
