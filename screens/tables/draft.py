"""Changes of rows that wait until they are applied, with undo and redo. Pure.

A row is known by its key, as in the grids of the control API. A change stores the cell's earlier value, so
that applying it does not overwrite a concurrent change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from screens.tables.cells import is_cut, sent

Key = tuple[Any, ...]
MAX_STEPS = 1000
"""How many steps can be undone."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A staged change of an existing row: `now` has new cells by column, or it is deleted.

    `was` has the cells as they were seen.
    """

    was: Mapping[str, Any]
    now: Mapping[str, Any] = field(default_factory=dict)
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class New:
    """A staged new row, identified by `number`."""

    number: int
    cells: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _State:
    edits: Mapping[Key, Edit] = field(default_factory=dict)
    new: tuple[New, ...] = ()


class Draft:
    """All that waits, of one table."""

    def __init__(self) -> None:
        self._state = _State()
        self._before: list[_State] = []
        self._after: list[_State] = []
        self._numbers = 0

    def __len__(self) -> int:
        """Return how many rows would change."""
        return len(self._state.edits) + len(self._state.new)

    @property
    def new(self) -> tuple[New, ...]:
        """The rows that would be added, those of the latest step first."""
        return self._state.new

    def edit(self, key: Key) -> Edit | None:
        """Return what becomes of a row."""
        return self._state.edits.get(key)

    def set(self, key: Key, column: str, was: Any, now: Any) -> None:
        """Give a cell another value; its own one takes the change back."""
        self.write({key: {column: (was, now)}})

    def write(
        self,
        cells: Mapping[Key, Mapping[str, tuple[Any, Any]]],
        new: Mapping[int, Mapping[str, Any]] | None = None,
        rows: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Write many cells in one step: of rows, as they were and as they become; of `new` ones by number.

        `rows` are added.
        """
        edits = dict(self._state.edits)
        for key, columns in cells.items():
            edit = edits.pop(key, Edit({}))
            for column, (was, now) in columns.items():
                edit = _with(edit, column, was, now)
            if edit.now:
                edits[key] = edit
        written = tuple(
            replace(row, cells={**row.cells, **new[row.number]}) if new and row.number in new else row
            for row in self._state.new
        )
        self._step(_State(edits, (*self._numbered(rows), *written)))

    def delete(self, rows: Mapping[Key, Mapping[str, Any]]) -> None:
        """Delete rows, given with their cells as they are shown; those that are deleted already come back."""
        edits = dict(self._state.edits)
        back = all(key in edits and edits[key].deleted for key in rows)
        for key, was in rows.items():
            if back:
                del edits[key]
            else:
                edits[key] = Edit(dict(was), deleted=True)
        self._step(replace(self._state, edits=edits))

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows, given by the cells that are not left to their defaults."""
        self.write({}, rows=rows)

    def set_new(self, number: int, column: str, now: Any) -> None:
        """Give a cell of a row that is not there yet a value."""
        self.write({}, {number: {column: now}})

    def clear_new(self, number: int, column: str) -> None:
        """Leave a cell of a row that is not there yet to its default."""
        self._replace_new(
            number, lambda row: replace(row, cells={k: v for k, v in row.cells.items() if k != column})
        )

    def drop_new(self, numbers: Sequence[int]) -> None:
        """Do not add rows after all."""
        self._step(
            replace(self._state, new=tuple(row for row in self._state.new if row.number not in numbers))
        )

    def undo(self) -> bool:
        """Undo the last step. Return whether there was one."""
        return self._move(self._before, self._after)

    def redo(self) -> bool:
        """Redo the last undone step. Return whether there was one."""
        return self._move(self._after, self._before)

    def clear(self) -> None:
        """Forget all, and every step."""
        self._state, self._before, self._after = _State(), [], []

    def changes(self) -> list[tuple[Key | int, dict[str, Any]]]:
        """Return the changes as the control API takes them, each with its row's key or number."""
        found: list[tuple[Key | int, dict[str, Any]]] = []
        for key, edit in self._state.edits.items():
            if edit.deleted:
                found.append((key, {"delete": {"key": list(key), "expected": _whole(edit.was)}}))
            else:
                change = {"key": list(key), "expected": _whole(edit.was), "set": _sent(edit.now)}
                found.append((key, {"update": change}))
        new = sorted(self._state.new, key=lambda row: row.number)
        found += [(row.number, {"insert": _sent(row.cells)}) for row in new]
        return found

    def settle(self, theirs: Mapping[Key, Mapping[str, Any] | None], *, mine: bool) -> None:
        """Update rows after concurrent changes: with `mine` the pending changes stay, over theirs.

        A row that is gone takes its changes with it.
        """
        edits = dict(self._state.edits)
        for key, now in theirs.items():
            edit = edits.pop(key, None)
            if mine and edit is not None and now is not None:
                edits[key] = replace(edit, was={name: now.get(name, cell) for name, cell in edit.was.items()})
        self._step(replace(self._state, edits=edits))

    def applied(self, left: Sequence[Key | int]) -> None:
        """Forget what was applied: all but what is `left`, and every step."""
        edits = {key: edit for key, edit in self._state.edits.items() if key in left}
        new = tuple(row for row in self._state.new if row.number in left)
        self.clear()
        self._state = _State(edits, new)

    def _numbered(self, rows: Sequence[Mapping[str, Any]]) -> list[New]:
        first = self._numbers + 1
        self._numbers += len(rows)
        return [New(number, dict(cells)) for number, cells in enumerate(rows, first)]

    def _replace_new(self, number: int, change: Any) -> None:
        rows = tuple(change(row) if row.number == number else row for row in self._state.new)
        self._step(replace(self._state, new=rows))

    def _step(self, state: _State) -> None:
        self._before = [*self._before, self._state][-MAX_STEPS:]
        self._state, self._after = state, []

    def _move(self, back: list[_State], forth: list[_State]) -> bool:
        if not back:
            return False
        forth.append(self._state)
        self._state = back.pop()
        return True


def _with(edit: Edit, column: str, was: Any, now: Any) -> Edit:
    """Return what becomes of a row with another cell, which its own value takes back."""
    first = edit.was.get(column, was)
    cells = {name: cell for name, cell in edit.now.items() if name != column}
    seen = {name: cell for name, cell in edit.was.items() if name != column}
    if now != first or type(now) is not type(first):
        cells[column], seen[column] = now, first
    return Edit(seen, cells)


def _whole(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells that were seen whole: of the others nothing can be said."""
    return _sent({name: cell for name, cell in cells.items() if not is_cut(cell)})


def _sent(cells: Mapping[str, Any]) -> dict[str, Any]:
    return {name: sent(cell) for name, cell in cells.items()}
