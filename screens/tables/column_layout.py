"""Order, visibility and widths of the columns of a grid. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

MIN_WIDTH, MAX_WIDTH, STEP = 4, 200, 4
"""Minimum and maximum width of a column, and the step of a change, in terminal cells."""


@dataclass(frozen=True, slots=True)
class LayoutColumn:
    """One column: its name, whether it is hidden, and its width in terminal cells if the user has set one."""

    name: str
    hidden: bool = False
    width: int | None = None


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """The columns of a grid in their order."""

    columns: tuple[LayoutColumn, ...] = ()

    def for_columns(self, names: Sequence[str]) -> "ColumnLayout":
        """Return the layout for the current columns of a table; new ones are added at the end."""
        existing = [column for column in self.columns if column.name in names]
        known = {column.name for column in existing}
        return ColumnLayout((*existing, *(LayoutColumn(name) for name in names if name not in known)))

    def visible(self) -> list[LayoutColumn]:
        """Return the columns that are not hidden."""
        return [column for column in self.columns if not column.hidden]

    def toggled(self, index: int) -> "ColumnLayout":
        """Return the layout with a column hidden or shown. The last visible column cannot be hidden."""
        column = self.columns[index]
        if not column.hidden and len(self.visible()) == 1:
            return self
        return self._with(index, replace(column, hidden=not column.hidden))

    def moved(self, index: int, by: int) -> "ColumnLayout":
        """Return the layout with a column moved."""
        columns = list(self.columns)
        columns.insert(max(0, min(index + by, len(columns) - 1)), columns.pop(index))
        return ColumnLayout(tuple(columns))

    def widened(self, index: int, by: int, displayed: int) -> "ColumnLayout":
        """Return the layout with a column wider or narrower by steps. `displayed` is its width so far."""
        column = self.columns[index]
        width = max(MIN_WIDTH, min((column.width or displayed) + by * STEP, MAX_WIDTH))
        return self._with(index, replace(column, width=width))

    def _with(self, index: int, column: LayoutColumn) -> "ColumnLayout":
        return ColumnLayout((*self.columns[:index], column, *self.columns[index + 1 :]))
