"""Statistics of a column: counts, extremes and the most frequent values, of all rows of the table."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from screens.console_screen import StopWorkersFirst
from screens.dialog import key_hints
from screens.project_client import ProjectClient
from screens.tables.cells import typed_piece
from screens.tables.grid import TableColumn
from screens.tables.query import Condition
from screens.tables.sql_text import quoted_name
from screens.widgets.columns import ListColumn, sanitize
from screens.widgets.row_source import Row
from screens.widgets.virtual_list import VirtualRows
from svc_tui.client import SvcError
from svc_tui.terminal.units import plural

MAX_VALUES = 200
"""Maximum number of frequent values."""
MAX_VALUE_CHARS = 200
"""Maximum characters of a value in the list; longer texts are grouped by their beginning."""
_BAR = 20
_NUMBERS = frozenset({"int", "float"})


class _Frequencies:
    """The rows of the list, one per value."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], total: int, column: TableColumn) -> None:
        self.values = [row["value"] for row in rows]
        self._counts = [int(row["count"]) for row in rows]
        self._total, self._column = max(total, 1), column

    def count(self) -> int:
        return len(self.values)

    def window(self, start: int, n: int) -> Sequence[Row]:
        highest = max(self._counts, default=1)
        rows = []
        for at in range(start, min(start + n, len(self.values))):
            count = self._counts[at]
            text, tone = typed_piece(self.values[at], self._column.type)
            share = f"{count / self._total:.1%}"
            bar = "━" * max(round(_BAR * count / highest), 1)
            rows.append(
                Row(
                    at,
                    (((sanitize(text), tone),), ((f"{count:,}", ""),), ((share, "dim"),), ((bar, "notice"),)),
                )
            )
        return rows


class ColumnStats(StopWorkersFirst, ModalScreen[Condition | None]):
    """Shows the statistics of a column. Returns the filter for the chosen value, or None."""

    GROUP: ClassVar[str] = "Column statistics"
    AUTO_FOCUS = "VirtualRows"
    DEFAULT_CSS = """
    ColumnStats { align: center middle; background: $background 60%; }
    ColumnStats > Vertical {
        width: 84; max-width: 96%; height: 80%; padding: 1 2; background: $surface;
        border-left: outer $primary;
    }
    ColumnStats #summary { height: auto; margin-bottom: 1; }
    ColumnStats VirtualRows { height: 1fr; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,F", "back", "Back", id="stats.back"),
    ]

    def __init__(self, client: ProjectClient, table: str, column: TableColumn) -> None:
        super().__init__()
        self._client, self._table, self._column = client, table, column
        self._frequencies = _Frequencies((), 0, column)
        self._title = f"{table}.{column.name}  {column.type.name}"

    def compose(self) -> ComposeResult:
        """Compose the summary, the list of values and the keys."""
        titles = (
            ListColumn("value", 24, grow=True),
            ListColumn("rows", 10, right=True),
            ListColumn("share", 7, right=True),
            ListColumn("", _BAR),
        )
        with Vertical():
            yield Static(id="summary")
            yield VirtualRows(self._frequencies, titles, empty="…")
            yield key_hints(("enter", "choose", "filter by the value"), ("esc", "back", "back"))

    def on_mount(self) -> None:
        """Compute the statistics."""
        self._show([self._title])
        self.run_worker(self._fetch())

    async def _fetch(self) -> None:
        try:
            (summary,) = await self._query(self._summary_sql())
            values = await self._query(self._frequency_sql())
        except SvcError as error:
            self._show([error.message, error.hint])
            return
        total, nulls = int(summary["total"]), int(summary["total"]) - int(summary["filled"])
        counts = f"{plural(total, 'row')}   {summary['values']:,} distinct   {nulls:,} null"
        extremes = [
            f"{name} {typed_piece(summary[name], self._column.type)[0]}"
            for name in ("min", "max", "avg")
            if summary.get(name) is not None
        ]
        self._show([self._title, counts, "   ".join(extremes)])
        self._frequencies = _Frequencies(values, total, self._column)
        self.query_one(VirtualRows).empty = "no rows"
        self.query_one(VirtualRows).set_source(self._frequencies)

    def _show(self, lines: Sequence[str]) -> None:
        first, *rest = (sanitize(line) for line in lines if line)
        content = Content.assemble((first, "b"), *(f"\n{line}" for line in rest))
        self.query_one("#summary", Static).update(content)

    async def _query(self, sql: str) -> Sequence[Mapping[str, Any]]:
        rows: Sequence[Mapping[str, Any]] = (
            await self._client.call("POST", "/sql", {"sql": sql, "write": False})
        )["rows"]
        return rows

    def _summary_sql(self) -> str:
        column, table = quoted_name(self._column.name), quoted_name(self._table)
        average = f", avg({column}) as avg" if self._column.type.form in _NUMBERS else ""
        extremes = (
            ""
            if self._column.type.form in ("bytes", "document")
            else (f", min({self._value_sql}) as min, max({self._value_sql}) as max")
        )
        return (
            f"select count(*) as total, count({column}) as filled, count(distinct {column}) as 'values'"
            f"{extremes}{average} from {table}"
        )

    def _frequency_sql(self) -> str:
        return (
            f"select {self._value_sql} as value, count(*) as count from {quoted_name(self._table)}"
            f" group by 1 order by 2 desc, 1 limit {MAX_VALUES}"
        )

    @property
    def _value_sql(self) -> str:
        """The column as an SQL expression: numbers as they are, the beginning of other values."""
        column = quoted_name(self._column.name)
        if self._column.type.form in _NUMBERS or self._column.type.form == "bool":
            return column
        return f"substr({column}, 1, {MAX_VALUE_CHARS})"

    def on_virtual_rows_opened(self) -> None:
        """Return the filter for the value at the cursor."""
        self.action_choose()

    def action_choose(self) -> None:
        """Return the filter for the value at the cursor. Blobs have none."""
        at = self.query_one(VirtualRows).cursor_row
        if at >= self._frequencies.count():
            return
        value, form = self._frequencies.values[at], self._column.type.form
        if form == "bytes" or (isinstance(value, dict | list)):
            self.app.bell()
            return
        text = None if value is None else typed_piece(value, self._column.type)[0]
        op = "starts" if isinstance(value, str) and len(value) >= MAX_VALUE_CHARS else "="
        self.dismiss(Condition(self._column.name, op, text))

    def action_back(self) -> None:
        """Close without a filter."""
        self.dismiss(None)
