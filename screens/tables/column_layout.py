"""Order, visibility and widths of the columns of a grid. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

MIN_WIDTH, MAX_WIDTH, STEP = 4, 200, 4
"""Cells that a column may have, and by how many it changes."""


@dataclass(frozen=True, slots=True)
class LayoutColumn:
    """One column: its name, whether it is hidden, and its width in terminal cells if the user has set one."""

    name: str
    hidden: bool = False
    width: int | None = None


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """All columns in their order."""

    columns: tuple[LayoutColumn, ...] = ()

    def for_columns(self, names: Sequence[str]) -> "ColumnLayout":
        """Return this for columns as they are now: those that are new stand at the end."""
        kept = [each for each in self.columns if each.name in names]
        known = {each.name for each in kept}
        return ColumnLayout((*kept, *(LayoutColumn(name) for name in names if name not in known)))

    def shown(self) -> list[LayoutColumn]:
        """Return the columns that are not hidden."""
        return [each for each in self.columns if not each.hidden]

    def toggled(self, index: int) -> "ColumnLayout":
        """Return this with a column hidden, or shown again; the last one that is shown stays."""
        column = self.columns[index]
        if not column.hidden and len(self.shown()) == 1:
            return self
        return self._with(index, replace(column, hidden=not column.hidden))

    def moved(self, index: int, by: int) -> "ColumnLayout":
        """Return this with a column somewhere else."""
        columns = list(self.columns)
        columns.insert(max(0, min(index + by, len(columns) - 1)), columns.pop(index))
        return ColumnLayout(tuple(columns))

    def widened(self, index: int, by: int, now: int) -> "ColumnLayout":
        """Return this with a column wider or narrower; `now` is its default width."""
        column = self.columns[index]
        width = max(MIN_WIDTH, min((column.width or now) + by * STEP, MAX_WIDTH))
        return self._with(index, replace(column, width=width))

    def _with(self, index: int, column: LayoutColumn) -> "ColumnLayout":
        return ColumnLayout((*self.columns[:index], column, *self.columns[index + 1 :]))
