"""The rows of a grid: staged new rows first, then the rows of the table with staged edits. Pure.

Windows of rows are read on another thread than the one that draws.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

from screens.project_client import ProjectClient
from screens.tables.cells import is_cut, piece
from screens.tables.column_layout import ColumnLayout
from screens.tables.draft import CellEdit, Draft, Key, New
from screens.tables.query import RowQuery
from screens.tables.widths import DEFAULT_MAX_WIDTH, MEASURED_ROWS, Width, measure_widths
from screens.widgets.columns import ListColumn
from screens.widgets.row_source import Cell, Piece, Row, RowsUnavailable
from svc_tui.client import SvcError
from svc_tui.column_types import ColumnTypes, TypeInfo

WINDOW = 500
"""Rows that are asked for at once."""
_SIGNS: dict[str, Piece] = {
    "edited": ("•", "warn"),
    "new": ("+", "good"),
    "deleted": ("−", "bad"),
    "changed": ("⟳", "notice"),
    "conflict": ("⟳", "warn"),
}


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a grid."""

    name: str
    type: TypeInfo
    _: KW_ONLY
    nullable: bool
    default: str | None
    primary_key: bool
    note: str
    generated: bool

    @classmethod
    def from_document(cls, column: Mapping[str, Any], types: ColumnTypes) -> "TableColumn":
        """Return the column of an API document."""
        names = ("nullable", "default", "primary_key", "note", "generated")
        return cls(column["name"], types[column["type"]], **{name: column[name] for name in names})


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TableRow:
    """A row that is there: its key, its cells in the order of the columns, its version."""

    key: Key
    cells: tuple[Any, ...]
    version: str


class RemoteGrid:
    """A table that is open, in an order and with filters. A `RowSource`."""

    def __init__(
        self,
        link: ProjectClient,
        types: ColumnTypes,
        query: RowQuery,
        draft: Draft,
        opened: Mapping[str, Any],
    ) -> None:
        """`opened` is the answer to `POST /grid`."""
        self.query, self.draft = query, draft
        self.table: str = opened["table"]
        self.id: str = opened["grid"]
        self.columns = tuple(TableColumn.from_document(each, types) for each in opened["columns"])
        self.names = {column.name: index for index, column in enumerate(self.columns)}
        self.reason: str = opened["reason"]
        self.editable: bool = opened["editable"]
        self.total: int = opened["count"]
        self.layout = ColumnLayout().for_columns([column.name for column in self.columns])
        self.widths = self._measured(())
        self.changed: dict[Key, str] = {}
        """Rows that others have changed while they were shown."""
        self._link = link
        self._held: WeakValueDictionary[int, TableRow] = WeakValueDictionary()
        """The rows that the list holds, by number."""
        self._lock = threading.Lock()

    def shown(self) -> list[TableColumn]:
        """Return the columns that are shown, in their order."""
        return [self.columns[self.names[each.name]] for each in self.layout.shown()]

    def number(self, name: str) -> int | None:
        """Return where a column stands in the list; None where it is hidden."""
        names = [column.name for column in self.shown()]
        return names.index(name) + 1 if name in names else None

    def titles(self) -> tuple[ListColumn, ...]:
        """Return the columns of the list, signs first; that of the longest texts grows, or else the last."""
        wanted = [each.width for each in self.layout.shown()]
        columns = [ListColumn("", 1)]
        long: list[tuple[int, int]] = []
        for at, (column, width) in enumerate(zip(self.shown(), wanted, strict=True), 1):
            own = self.widths[self.names[column.name]]
            wish = own.longest if width is None else width
            columns.append(
                ListColumn(title(column), width or own.default, column.type.align_right, preferred=wish)
            )
            if width is None and column.type.is_long and (wish > DEFAULT_MAX_WIDTH or at == len(wanted)):
                long.append((wish, at))
        if long:
            _, longest = max(long)
            columns[longest] = replace(columns[longest], grow=True)
        return tuple(columns)

    def measure(self, before: "RemoteGrid | None" = None) -> None:
        """Work out how wide columns are, by the first rows. Raises `SvcError`.

        Where the same table was shown `before`, in another order, they stay as they were.
        """
        if (
            before is not None
            and before.table == self.table
            and before.columns == self.columns
            and before.total
        ):
            self.widths = before.widths
            return
        rows = [
            row.cells for row in self.rows_at(len(self.draft.new), MEASURED_ROWS) if isinstance(row, TableRow)
        ]
        self.widths = self._measured(rows)

    def _measured(self, rows: Sequence[Sequence[Any]]) -> tuple[Width, ...]:
        return measure_widths(
            [title(each) for each in self.columns], [each.type for each in self.columns], rows
        )

    def count(self) -> int:
        """Return how many rows there are, with those that are new."""
        return len(self.draft.new) + self.total

    def at(self, index: int) -> New | TableRow | None:
        """Return what is in a row, as far as it was read."""
        new = self.draft.new
        if index < len(new):
            return new[index]
        with self._lock:
            return self._held.get(index - len(new))

    def row_of(self, key: Key) -> int | None:
        """Return the row of a key, among those that are held."""
        with self._lock:
            found = next((index for index, seen in self._held.items() if seen.key == key), None)
        return None if found is None else found + len(self.draft.new)

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return rows."""
        new = self.draft.new
        rows = [self._new_row(each) for each in new[start : start + n]]
        first, left = max(start - len(new), 0), n - len(rows)
        if left and first < self.total:
            rows += [self._row(seen) for seen in self._read(first, left)]
        return rows

    def _read(self, start: int, n: int) -> list[TableRow | None]:
        try:
            found = self._link.call_sync("GET", f"/grid/{self.id}/rows", params={"start": start, "n": n})
        except SvcError as error:
            raise RowsUnavailable(error.message) from error
        rows = [
            TableRow(tuple(key), tuple(cells), version) if key is not None else None
            for key, cells, version in zip(found["keys"], found["rows"], found["versions"], strict=True)
        ]
        with self._lock:
            for offset, seen in enumerate(rows):
                if seen is not None:
                    self._held[start + offset] = seen
        return rows

    def rows_at(self, start: int, n: int) -> list[New | TableRow | None]:
        """Return rows, read where they are not held; None for one that is gone. Raises `SvcError`."""
        new = self.draft.new
        found: list[New | TableRow | None] = list(new[start : start + n])
        at, end = max(start - len(new), 0), min(max(start + n - len(new), 0), self.total)
        while at < end:
            try:
                found += self._read(at, min(WINDOW, end - at))
            except RowsUnavailable as error:
                raise SvcError(str(error)) from error
            at += WINDOW
        return found

    def shown_rows(self, first: int, end: int) -> list[TableRow]:
        """Return the rows between two numbers that are held."""
        numbers = range(max(first - len(self.draft.new), 0), max(end - len(self.draft.new), 0))
        with self._lock:
            return [self._held[number] for number in numbers if number in self._held]

    def has_conflict(self, seen: TableRow, column: TableColumn) -> bool:
        """Return whether others have changed a cell that has a staged edit."""
        edit = self.draft.edit(seen.key)
        if edit is None or column.name not in edit.was or is_cut(edit.was[column.name]):
            return False
        return bool(edit.was[column.name] != seen.cells[self.names[column.name]])

    def clear_cache(self) -> None:
        """Discard the cached rows."""
        with self._lock:
            self._held.clear()

    # Lines

    def _row(self, seen: TableRow | None) -> Row:
        if seen is None:
            return Row(("deleted",), (((("−", "dim"),)), ((("deleted by others", "dim"),))))
        edit = self.draft.edit(seen.key)
        sign = self._sign(seen, edit)
        cells = [self._cell(each, seen.cells[self.names[each.name]], edit) for each in self.shown()]
        return Row(seen.key, ((sign,), *cells), seen)

    def _sign(self, seen: TableRow, edit: CellEdit | None) -> Piece:
        if edit is None:
            return _SIGNS["changed"] if seen.key in self.changed else ("", "")
        if any(self.has_conflict(seen, column) for column in self.columns):
            return _SIGNS["conflict"]
        return _SIGNS["deleted" if edit.deleted else "edited"]

    def _cell(self, column: TableColumn, value: Any, edit: CellEdit | None) -> Cell:
        if edit is not None and edit.deleted:
            return ((piece(value)[0], "dim"),)
        if edit is not None and column.name in edit.now:
            return ((piece(edit.now[column.name])[0], "warn"),)
        return (piece(value),)

    def _new_row(self, row: New) -> Row:
        cells = (self._new_cell(row, each) for each in self.shown())
        return Row(("new", row.number), ((_SIGNS["new"],), *cells))

    @staticmethod
    def _new_cell(row: New, column: TableColumn) -> Cell:
        if column.name in row.cells:
            return ((piece(row.cells[column.name])[0], "good"),)
        return ((default(column), "dim"),)


def title(column: TableColumn) -> str:
    """Return what stands above a column."""
    return f"{column.name} ⚷" if column.primary_key else column.name


def default(column: TableColumn) -> str:
    """Return what a column gets that is left alone, for people."""
    if column.default is not None:
        switch = {"0": "false", "1": "true"} if column.type.form == "bool" else {}
        return switch.get(column.default, column.default)
    if column.primary_key and column.type.form == "int":
        return "next"
    return "null" if column.nullable else "needed"
