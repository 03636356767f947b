"""The rows of a grid: staged new rows first, then the rows of the table with staged edits. Pure.

A layout has the order and visibility of columns. Windows of rows are read on a worker thread. A query has
sort order and filters. Terms are `name~an` (contains), `name^an` (starts with), `age>=30`, `mood=null` and
`mood!=null`. `mood="null"` is the text. Other words are a text to find in any column.
"""

import re
import shlex
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, fields, replace
from typing import Any
from weakref import WeakValueDictionary

from screens.project_client import ProjectClient
from screens.tables.cells import (
    DEFAULT_MAX_WIDTH,
    MEASURED_ROWS,
    is_cut,
    measure_columns,
    piece,
    read,
    typed_piece,
)
from screens.tables.draft import CellEdit, Draft, Key, NewRow
from screens.widgets.rows import Cell, ListColumn, Piece, Row, RowsUnavailable
from svc_tui.client import SvcError
from svc_tui.tables_syntax import ColumnTypes, TypeInfo

_OPS = {"~": "contains", "^": "starts", "=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SIGNS = {op: sign for sign, op in _OPS.items()}
_WORD = re.compile(r"(.+?)(!=|<=|>=|[~^=<>])(.*)", re.DOTALL)
_NULL = re.compile('("*)null\\1')
"""A text that gets one more pair of quotes in a term: a bare `null` means NULL."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on a column. `value` is the typed text, or None for null."""

    column: str
    op: str
    value: str | None

    def __str__(self) -> str:
        """Return the condition as a term."""
        value = "null" if self.value is None else self.value
        if self.value is not None and self.op in ("=", "!=") and _NULL.fullmatch(value):
            value = f'"{value}"'
        return f"{self.column}{_SIGNS[self.op]}{value}"


@dataclass(frozen=True, slots=True)
class RowQuery:
    """Filters and sort order. All conditions must hold. `sorts` are columns, and whether each descends."""

    conditions: tuple[Condition, ...] = ()
    search: str = ""
    sorts: tuple[tuple[str, bool], ...] = ()
    at: Mapping[str, Any] | None = None
    """A moment before now, as `POST /grid` takes it."""

    def filtered(self, line: str, columns: Collection[str]) -> "RowQuery":
        """Return the query with the filters of a line instead. Raises `SvcError`."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            hint = "Close the quote, or put a backslash before it."
            raise SvcError(f"unclosed quote in: {line}", hint) from error
        conditions: list[Condition] = []
        search: list[str] = []
        for word in words:
            match = _WORD.fullmatch(word)
            if match is None:
                search.append(word)
            elif match[1] not in columns:
                raise SvcError(f"unknown column: {match[1]}", f"Available: {', '.join(columns)}.")
            else:
                value: str | None = match[3]
                if match[2] in ("=", "!=") and _NULL.fullmatch(match[3]):
                    value = match[3][1:-1] if match[3] != "null" else None
                conditions.append(Condition(match[1], _OPS[match[2]], value))
        return replace(self, conditions=tuple(conditions), search=" ".join(search))

    def text(self) -> str:
        """Return the filters as a line."""
        terms = [*map(str, self.conditions), *([self.search] if self.search else [])]
        return " ".join(shlex.quote(term) if re.search(r"[\s'\"\\]", term) else term for term in terms)

    def chips(self) -> list[str]:
        return [*map(str, self.conditions), *([f'"{self.search}"'] if self.search else [])]

    def without(self, index: int) -> "RowQuery":
        """Return the query without one of its filters."""
        if index < len(self.conditions):
            return replace(self, conditions=self.conditions[:index] + self.conditions[index + 1 :])
        return replace(self, search="")

    def sorted_by(self, column: str, *, append: bool) -> "RowQuery":
        """Toggle the sort by a column: ascending, descending, unsorted. `append` retains the other sorts."""
        descends = dict(self.sorts).get(column)
        others = tuple(sort for sort in self.sorts if sort[0] != column) if append else ()
        if descends is None:
            return replace(self, sorts=(*others, (column, False)))
        return replace(self, sorts=others if descends else (*others, (column, True)))

    def document(self, table: str) -> dict[str, Any]:
        """Return the body of `POST /grid`."""
        return {
            "table": table,
            "sort": [{"column": column, "descending": descends} for column, descends in self.sorts],
            "filter": [asdict(condition) for condition in self.conditions],
            "search": self.search,
            "at": self.at,
        }


def describe_sort(sorts: Sequence[tuple[str, bool]]) -> str:
    """Return the sort order as text: `sorted by at ↓, name ↑`."""
    columns = [f"{column} {'↓' if descends else '↑'}" for column, descends in sorts]
    return f"sorted by {', '.join(columns)}" if columns else ""


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


WINDOW = 500
"""Maximum rows per request."""
_EXACT = {"int": "a whole number", "float": "a number", "bool": "true or false"}
"""Types whose values a filter checks, in words."""
DELETED_KEY = ("deleted",)
"""The key of a row that others have deleted."""
_MARKS: dict[str, Piece] = {
    "edited": ("•", "warn"), "new": ("+", "good"), "deleted": ("−", "bad"),
    "changed": ("⟳", "notice"), "conflict": ("⟳", "warn"),
}  # fmt: skip


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


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TableRow:
    """An existing row: its key, its cells in the order of the columns, and its version."""

    key: Key
    cells: tuple[Any, ...]
    version: str


class RemoteGrid:
    """An open grid of the control API: a table with sort order and filters. A `RowSource`."""

    def __init__(
        self,
        client: ProjectClient,
        types: ColumnTypes,
        query: RowQuery,
        draft: Draft,
        document: Mapping[str, Any],
    ) -> None:
        """Create a grid. `document` is the response of `POST /grid`."""
        self.query, self.draft = query, draft
        self.moment: Mapping[str, Any] | None = document["at"]
        """The last write of a moment before now."""
        if self.moment is not None:
            self.query = replace(query, at={"entry": self.moment["entry"]})
        self.table: str = document["table"]
        self.id: str = document["grid"]
        names = [field.name for field in fields(TableColumn)]
        self.columns = tuple(
            TableColumn(**{name: column[name] for name in names} | {"type": types[column["type"]]})
            for column in document["columns"]
        )
        self.column_index = {column.name: index for index, column in enumerate(self.columns)}
        self.read_only_reason: str = document["reason"]
        self.editable: bool = document["editable"]
        self.total: int = document["count"]
        self.layout = ColumnLayout().for_columns([column.name for column in self.columns])
        self.measured = self._measured(())
        self.changed: dict[Key, str] = {}
        """Rows that others have changed while they were visible."""
        self._client = client
        self._cache: WeakValueDictionary[int, TableRow] = WeakValueDictionary()
        """The rows that the list holds, by their index in the grid."""
        self._lock = threading.Lock()

    def filtered(self, line: str) -> RowQuery:
        """Return the query with the filters of a line. Raises `SvcError`.

        Values that are compared with a number or a boolean must be of that type.
        """
        query = self.query.filtered(line, self.column_index)
        for condition in query.conditions:
            type = self.columns[self.column_index[condition.column]].type
            if condition.value is None or condition.op in ("contains", "starts") or type.form not in _EXACT:
                continue
            try:
                read(condition.value, type)
            except ValueError as error:
                column, form = condition.column, _EXACT[type.form]
                hint = f"Compare with {form}, or use {column}~{condition.value} for text."
                raise SvcError(f"{column} is {form}, and {condition.value!r} is not", hint) from error
        return query

    def visible_columns(self) -> list[TableColumn]:
        return [self.columns[self.column_index[column.name]] for column in self.layout.visible()]

    def position(self, name: str) -> int | None:
        """Return the position of a column in the list, from 1; None if it is hidden."""
        names = [column.name for column in self.visible_columns()]
        return names.index(name) + 1 if name in names else None

    def list_columns(self) -> tuple[ListColumn, ...]:
        """Return the columns of the list, signs first.

        Among the columns of long types without a width of the user, the one with the longest values grows.
        """
        columns = [ListColumn("", 1)]
        growing: list[tuple[int, int]] = []
        for at, shown in enumerate(visible := self.layout.visible(), 1):
            index, width = self.column_index[shown.name], shown.width
            column = self.measured[index]
            if width is not None:
                column = replace(column, width=width, preferred=width, comfortable=width)
            is_wide = column.preferred > DEFAULT_MAX_WIDTH or at == len(visible)
            if width is None and self.columns[index].type.is_long and is_wide:
                growing.append((column.preferred, at))
            columns.append(column)
        if growing:
            _, widest = max(growing)
            columns[widest] = replace(columns[widest], grow=True)
        return tuple(columns)

    def measure(self, previous: "RemoteGrid | None" = None) -> None:
        """Measure the columns, unless the `previous` grid showed the same table. Raises `SvcError`."""
        same = previous is not None and (previous.table, previous.columns) == (self.table, self.columns)
        if previous is not None and same and previous.total:
            self.measured = previous.measured
            return
        rows = self.rows_at(len(self.draft.new), MEASURED_ROWS)
        self.measured = self._measured([row.cells for row in rows if isinstance(row, TableRow)])

    def widen(self, first: int, end: int) -> bool:
        """Extend the preferred widths to the longest loaded values. Return whether one has changed."""
        before, measured = self.measured, self._measured([row.cells for row in self.cached_rows(first, end)])
        self.measured = tuple(
            replace(
                column,
                preferred=max(column.preferred, new.preferred),
                comfortable=max(column.comfortable, new.comfortable),
            )
            for column, new in zip(before, measured, strict=True)
        )
        return before != self.measured

    def _measured(self, rows: Sequence[Sequence[Any]]) -> tuple[ListColumn, ...]:
        titles = [column_title(column) for column in self.columns]
        texts = ([piece(row[at])[0] for row in rows] for at in range(len(titles)))
        return measure_columns(titles, [column.type for column in self.columns], texts)

    def count(self) -> int:
        """Return the number of rows, including staged new rows."""
        return len(self.draft.new) + self.total

    def at(self, index: int) -> NewRow | TableRow | None:
        """Return the row at an index, or None if it is not loaded."""
        new = self.draft.new
        if index < len(new):
            return new[index]
        with self._lock:
            return self._cache.get(index - len(new))

    def row_of(self, key: Key) -> int | None:
        """Return the index of the row with a key, or None if it is not loaded."""
        with self._lock:
            index = next((index for index, row in self._cache.items() if row.key == key), None)
        return None if index is None else index + len(self.draft.new)

    def window(self, start: int, n: int) -> Sequence[Row]:
        try:
            rows = self.rows_at(start, n)
        except SvcError as error:
            raise RowsUnavailable(error.message) from error
        return [self._new_row(row) if isinstance(row, NewRow) else self._row(row) for row in rows]

    def _read(self, start: int, n: int) -> list[TableRow | None]:
        document = self._client.call_sync("GET", f"/grid/{self.id}/rows", params={"start": start, "n": n})
        found = zip(document["keys"], document["rows"], document["versions"], strict=True)
        rows = [
            TableRow(tuple(key), tuple(cells), version) if key is not None else None
            for key, cells, version in found
        ]
        with self._lock:
            for index, row in enumerate(rows, start):
                if row is not None:
                    self._cache[index] = row
        return rows

    def rows_at(self, start: int, n: int) -> list[NewRow | TableRow | None]:
        """Read rows; a deleted row is None. Raises `SvcError`."""
        new = self.draft.new
        rows: list[NewRow | TableRow | None] = list(new[start : start + n])
        at, end = max(start - len(new), 0), min(max(start + n - len(new), 0), self.total)
        for first in range(at, end, WINDOW):
            rows += self._read(first, min(WINDOW, end - first))
        return rows

    def cached_rows(self, first: int, end: int) -> list[TableRow]:
        """Return the loaded rows between two indexes."""
        indexes = range(max(first - len(self.draft.new), 0), max(end - len(self.draft.new), 0))
        with self._lock:
            return [self._cache[index] for index in indexes if index in self._cache]

    def has_conflict(self, row: TableRow, column: TableColumn) -> bool:
        """Return whether others have changed a cell that has a staged edit."""
        edit = self.draft.edit(row.key)
        if edit is None or column.name not in edit.was:
            return False
        was, now = edit.was[column.name], row.cells[self.column_index[column.name]]
        if is_cut(now) and isinstance(was, str):
            return bool(now["size"] != len(was.encode()) or not was.startswith(now.get("text", "")))
        return bool(was != now)

    def set_cache(self, rows: Mapping[int, TableRow]) -> None:
        """Discard the cached rows except these, by their indexes without the staged new rows."""
        with self._lock:
            self._cache.clear()
            self._cache.update(rows)

    # Rows of the list

    def _row(self, row: TableRow | None) -> Row:
        if row is None:
            return Row(DELETED_KEY, (((("−", "dim"),)), ((("deleted by others", "dim"),))))
        edit = self.draft.edit(row.key)
        places = ((column, self.column_index[column.name]) for column in self.visible_columns())
        cells = [self._cell(column, row.cells[at], edit) for column, at in places]
        return Row(row.key, ((self._sign(row, edit),), *cells), row)

    def _sign(self, row: TableRow, edit: CellEdit | None) -> Piece:
        if edit is None:
            return _MARKS["changed"] if row.key in self.changed else ("", "")
        if any(self.has_conflict(row, column) for column in self.columns):
            return _MARKS["conflict"]
        return _MARKS["deleted" if edit.deleted else "edited"]

    def _cell(self, column: TableColumn, value: Any, edit: CellEdit | None) -> Cell:
        if edit is not None and edit.deleted:
            return ((piece(value)[0], "dim"),)
        if edit is not None and column.name in edit.now:
            return ((piece(edit.now[column.name])[0], "warn"),)
        return (typed_piece(value, column.type),)

    def _new_row(self, row: NewRow) -> Row:
        cells: list[Cell] = []
        for column in self.visible_columns():
            staged = column.name in row.cells
            text = piece(row.cells[column.name])[0] if staged else default_text(column)
            cells.append(((text, "good" if staged else "dim"),))
        return Row(("new", row.number), ((_MARKS["new"],), *cells))


def column_title(column: TableColumn) -> str:
    return f"{column.name} key" if column.primary_key else column.name


def default_text(column: TableColumn) -> str:
    """Return the text of an empty cell of a new row: its default, `null`, or `required`."""
    if column.default is not None:
        switch = {"0": "false", "1": "true"} if column.type.form == "bool" else {}
        return switch.get(column.default, column.default)
    if column.primary_key and column.type.form == "int":
        return "next"
    return "null" if column.nullable else "required"


MAX_ROWS = 10_000
"""Maximum rows of a pasted range, which is held in memory."""


def targets(
    pasted: Mapping[str, Any], columns: Sequence[TableColumn], first: int
) -> list[TableColumn | None]:
    """Return the target of each pasted column, or None to skip it.

    `pasted` is a response of `POST /import/preview?format=tsv`. A header with names of columns selects them
    by name. Otherwise the columns from index `first` follow.
    """
    names = [column["name"] for column in pasted["columns"]]
    if pasted["header"]:
        by_name = {column.name.lower(): column for column in columns}
        matches = [by_name.get(name.lower()) for name in names]
        if any(matches):
            return [column if column and not column.generated else None for column in matches]
    free = [column for column in columns[first:] if not column.generated]
    return [*free, *[None] * len(names)][: len(names)]


def cells(pasted: Mapping[str, Any], to: Sequence[TableColumn | None]) -> list[dict[str, Any]]:
    """Return the pasted rows as values by column name.

    An empty cell is null in a nullable column, and omitted in others. Raises `SvcError` for too many rows and
    for the first invalid value.
    """
    if pasted["count"] > MAX_ROWS:
        hint = "Save them as a file and press i to import it."
        raise SvcError(f"{pasted['count']:,} rows were pasted; the limit is {MAX_ROWS:,}", hint)
    rows = []
    for number, row in enumerate(pasted["rows"], 1):
        values: dict[str, Any] = {}
        for text, column in zip(row, to, strict=False):
            if column is None or (text is None and not column.nullable):
                continue
            try:
                values[column.name] = None if text is None else read(text, column.type)
            except ValueError as error:
                hint = f"The cell has: {str(text)[:60]}"
                raise SvcError(f"row {number}, {column.name}: {error}", hint) from error
        rows.append(values)
    return rows
