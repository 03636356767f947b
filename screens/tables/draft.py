"""Staged edits of one table, with undo and redo. Does not import Textual.

A row is identified by its key, as in the grids of the control API. A change stores the cell's
earlier value, so that applying it does not overwrite a concurrent change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from screens.tables.cells import sent

Key = tuple[Any, ...]
StagedChange = tuple[Key | int, dict[str, Any]]
"""The key of a row, or the number of a new one, and its change as JSON for the control API."""
MAX_STEPS = 1000
"""Maximum steps that can be undone."""


@dataclass(frozen=True, slots=True)
class CellEdit:
    """A staged change of an existing row: `now` has new cells by column, or it is deleted.

    `was` has the cells as they were seen.
    """

    was: Mapping[str, Any]
    now: Mapping[str, Any] = field(default_factory=dict)
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class NewRow:
    """A staged new row, identified by `number`."""

    number: int
    cells: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _State:
    edits: Mapping[Key, CellEdit] = field(default_factory=dict)
    new: tuple[NewRow, ...] = ()


class Draft:
    """The staged edits of one table."""

    def __init__(self) -> None:
        self._state = _State()
        self._before: list[_State] = []
        self._after: list[_State] = []
        self._numbers = 0

    def __len__(self) -> int:
        """Return how many rows would change."""
        return len(self._state.edits) + len(self._state.new)

    @property
    def new(self) -> tuple[NewRow, ...]:
        """The new rows, those of the latest step first."""
        return self._state.new

    def edit(self, key: Key) -> CellEdit | None:
        return self._state.edits.get(key)

    def write(
        self,
        cells: Mapping[Key, Mapping[str, tuple[Any, Any]]] = MappingProxyType({}),
        new: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
        rows: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Set cells and add rows in one step.

        `cells` has the earlier and the new value of each cell; the original value removes its edit. `new` has
        cells of new rows by their number. In added `rows`, a missing cell gets its default.
        """
        edits = dict(self._state.edits)
        for key, columns in cells.items():
            edit = edits.pop(key, CellEdit({}))
            for column, (was, now) in columns.items():
                edit = _with(edit, column, was, now)
            if edit.now:
                edits[key] = edit
        rows_after = tuple(
            replace(row, cells={**row.cells, **new[row.number]}) if row.number in new else row
            for row in self._state.new
        )
        added = [NewRow(number, dict(cells)) for number, cells in enumerate(rows, self._numbers + 1)]
        self._numbers += len(rows)
        self._step(_State(edits, (*added, *rows_after)))

    def delete(self, rows: Mapping[Key, Mapping[str, Any]]) -> None:
        """Delete rows, given with their current cells. Restore them if all are deleted already."""
        edits = dict(self._state.edits)
        restore = all(key in edits and edits[key].deleted for key in rows)
        for key, was in rows.items():
            if restore:
                del edits[key]
            else:
                edits[key] = CellEdit(dict(was), deleted=True)
        self._step(replace(self._state, edits=edits))

    def clear_new(self, number: int, column: str) -> None:
        """Reset a cell of a new row to its default."""
        rows = (
            replace(row, cells={name: cell for name, cell in row.cells.items() if name != column})
            if row.number == number
            else row
            for row in self._state.new
        )
        self._step(replace(self._state, new=tuple(rows)))

    def drop_new(self, numbers: Sequence[int]) -> None:
        """Remove new rows."""
        rows = tuple(row for row in self._state.new if row.number not in numbers)
        self._step(replace(self._state, new=rows))

    def undo(self) -> bool:
        """Undo the last step. Return whether there was one."""
        return self._move(self._before, self._after)

    def redo(self) -> bool:
        """Redo the last undone step. Return whether there was one."""
        return self._move(self._after, self._before)

    def clear(self) -> None:
        self._state, self._before, self._after = _State(), [], []

    def changes(self) -> list[StagedChange]:
        """Return the staged changes."""
        changes: list[StagedChange] = []
        for key, edit in self._state.edits.items():
            if edit.deleted:
                changes.append((key, {"delete": {"key": list(key), "expected": _sent(edit.was)}}))
            else:
                change = {"key": list(key), "expected": _sent(edit.was), "set": _sent(edit.now)}
                changes.append((key, {"update": change}))
        new = sorted(self._state.new, key=lambda row: row.number)
        changes += [(row.number, {"insert": _sent(row.cells)}) for row in new]
        return changes

    def settle(self, theirs: Mapping[Key, Mapping[str, Any] | None], *, mine: bool) -> None:
        """Resolve conflicts with the current rows: retain the edits with `mine`, otherwise drop them.

        The edits of a deleted row are dropped.
        """
        edits = dict(self._state.edits)
        for key, now in theirs.items():
            edit = edits.pop(key, None)
            if mine and edit is not None and now is not None:
                edits[key] = replace(edit, was={name: now.get(name, cell) for name, cell in edit.was.items()})
        self._step(replace(self._state, edits=edits))

    def applied(self, remaining: Sequence[Key | int]) -> None:
        """Remove the applied edits, all except those of the `remaining` rows, and all steps."""
        edits = {key: edit for key, edit in self._state.edits.items() if key in remaining}
        new = tuple(row for row in self._state.new if row.number in remaining)
        self.clear()
        self._state = _State(edits, new)

    def _step(self, state: _State) -> None:
        self._before = [*self._before, self._state][-MAX_STEPS:]
        self._state, self._after = state, []

    def _move(self, source: list[_State], destination: list[_State]) -> bool:
        if not source:
            return False
        destination.append(self._state)
        self._state = source.pop()
        return True


def _with(edit: CellEdit, column: str, was: Any, now: Any) -> CellEdit:
    """Return an edit with one more cell. The original value removes the cell from it."""
    original = edit.was.get(column, was)
    cells = {name: cell for name, cell in edit.now.items() if name != column}
    originals = {name: cell for name, cell in edit.was.items() if name != column}
    if now != original or type(now) is not type(original):
        cells[column], originals[column] = now, original
    return CellEdit(originals, cells)


def _sent(cells: Mapping[str, Any]) -> dict[str, Any]:
    return {name: sent(cell) for name, cell in cells.items()}
