"""Dialogs of the history of rows: what wrote a cell, the rows of an entry, and its revert."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from screens.dialog import ChoiceDialog
from screens.widgets.columns import PlacedColumn, fit_cell, sanitize
from screens.widgets.row_source import Line, Tone
from svc_tui.tables_syntax import changed_cells, wrote
from svc_tui.terminal.units import local_time, plural

_TONES: Mapping[str, Tone] = {"insert": "good", "update": "notice", "delete": "bad"}
_CONFLICTS = {
    "changed": "changed since",
    "deleted": "deleted since",
    "exists": "its key is used again",
    "constraint": "violates a constraint",
}


def history_choices(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the changes of a cell as names and descriptions of a list, in their order."""
    names = [f"{number}  {local_time(row['write']['time_ns'])[:19]}" for number, row in enumerate(rows, 1)]
    return dict(zip(names, (f"{changed_cells(row)}  {wrote(row['write'])}" for row in rows), strict=True))


def change_lines(rows: Sequence[Mapping[str, Any]], room: int) -> Iterator[Line]:
    """Yield changes of rows, with the conflicts of a revert."""
    for row in rows:
        key = ", ".join(str(part) for part in row["key"].values())
        operation = row["operation"]
        conflict = f"  {_CONFLICTS[row['conflict']]}" if row["conflict"] else ""
        if row["current"]:
            now = {name: row["current"].get(name) for name in row["before"] or ()}
            conflict += sanitize(f", now {changed_cells({'before': None, 'after': now})}")
        name = sanitize(f"{row['table']} {key}")
        line: Line = ((f"{operation} ", _TONES[operation]), (name, "accent"), (conflict, "warn"))
        yield fit_cell(tuple(line), PlacedColumn(0, room, right=False))
        cells: Line = [(f"  {sanitize(changed_cells(row))}", "dim")]
        yield fit_cell(tuple(cells), PlacedColumn(0, room, right=False))


class RowsWritten(ChoiceDialog):
    """Shows the rows that a request wrote."""

    GROUP: ClassVar[str] = "Request"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", "Back", id="request.rows-back")]

    def __init__(self, history: Mapping[str, Any]) -> None:
        super().__init__()
        self._history = history

    def lines(self, room: int) -> Iterator[Line]:
        """Yield the rows, and what has no record."""
        rows = self._history["rows"]
        yield [(f"{plural(len(rows), 'row')} written" if rows else "No rows written", "bold")]
        if any(len(row["write"]["requests"]) > 1 for row in rows):
            yield [("Other requests wrote in the same transaction: some rows may be theirs.", "warn")]
        for lacks in self._history["lacks"]:
            yield [(f"without history: {sanitize(lacks)}", "dim")]
        yield []
        yield from change_lines(rows[::-1], room)


class RevertPreview(ChoiceDialog):
    """Shows what a revert of an entry changes. Returns `refuse`, `skip`, `before`, or "" for nothing."""

    GROUP: ClassVar[str] = "Revert"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "dismiss('refuse')", "Revert", id="revert.accept"),
        Binding("less_than_sign", "dismiss('before')", "The table before it", id="revert.before"),
        Binding("escape", "dismiss('')", "Back", id="revert.back"),
    ]

    def __init__(self, write: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        """Create the dialog of an entry. `rows` are what a revert changes."""
        super().__init__()
        self._write, self._rows = write, rows

    def lines(self, room: int) -> Iterator[Line]:
        """Yield what wrote the entry, and the rows."""
        yield [(f"{local_time(self._write['time_ns'])[:19]}  {sanitize(wrote(self._write))}", "bold")]
        count = sum(not row["conflict"] for row in self._rows)
        yield [(f"A revert changes {plural(count, 'row')}:", "")]
        yield []
        yield from change_lines(self._rows, room)


class RevertConflicts(RevertPreview):
    """The same, with rows that have changed since."""

    DEFAULT_CSS = """
    RevertConflicts > VerticalScroll { border-left: outer $warning; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "dismiss('skip')", "Revert the rest", id="revert.rest")
    ]
