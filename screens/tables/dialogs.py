"""Dialogs of tables: columns, conflicts, pasted rows, texts, statistics, choices by name, history of rows."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from rich.cells import cell_len, set_cell_size
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from screens.console_screen import StopWorkersFirst
from screens.dialog import ChoiceDialog, Dialog, key_hints
from screens.files import preview_lines
from screens.project_client import ProjectClient
from screens.tables.cells import piece, read, typed_piece
from screens.tables.draft import Key
from screens.tables.grid import ColumnLayout, Condition, LayoutColumn, TableColumn
from screens.tables.sql_text import quoted_name
from screens.widgets.rows import ItemRows, Line, ListColumn, Row, Tone, fit_cell, sanitize, wrap_lines
from screens.widgets.virtual_list import VirtualRows
from svc_tui.client import SvcError
from svc_tui.tables_syntax import TypeInfo, changed_cells, history_begin, wrote
from svc_tui.terminal.units import local_time, plural


class ColumnsScreen(Dialog[None]):
    """Edits a column layout, and calls `on_change` after each change."""

    GROUP: ClassVar[str] = "Columns"
    AUTO_FOCUS = "VirtualRows"
    DEFAULT_CSS = """
    ColumnsScreen { align: right top; background: $background 40%; }
    ColumnsScreen > Vertical { width: 58; height: 24; margin: 1 1; padding: 0 1; }
    ColumnsScreen VirtualRows { height: 1fr; background: $surface; }
    ColumnsScreen .keys { height: auto; color: $foreground-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("K,shift+up", "move(-1)", "Move left", id="columns.before"),
        Binding("J,shift+down", "move(1)", "Move right", id="columns.after"),
        Binding("plus", "widen(1)", "Wider", id="columns.wider"),
        Binding("minus", "widen(-1)", "Narrower", id="columns.narrower"),
        Binding("escape", "dismiss(None)", "Back", id="columns.back"),
    ]

    def __init__(
        self,
        layout: ColumnLayout,
        columns: Mapping[str, tuple[str, int]],
        on_change: Callable[[ColumnLayout], None],
    ) -> None:
        """Create the dialog. `columns` has type and displayed width of each column."""
        super().__init__()
        self._layout, self._columns, self._on_change = layout, columns, on_change
        self._rows = ItemRows(self._row_of, layout.columns)

    def compose(self) -> ComposeResult:
        titles = (
            ListColumn("", 1), ListColumn("column", 20, grow=True), ListColumn("type", 10),
            ListColumn("width", 5),
        )  # fmt: skip
        with Vertical():
            yield VirtualRows(self._rows, titles)
            yield Static(Content("enter show or hide · J K move · + - width · esc back"), classes="keys")

    def _row_of(self, _: int, column: LayoutColumn) -> Row:
        return Row(
            column.name,
            (
                (("·" if column.hidden else "✓", "dim" if column.hidden else "good"),),
                ((column.name, "dim" if column.hidden else ""),),
                ((self._columns[column.name][0], "dim"),),
                ((str(column.width) if column.width else "auto", "dim"),),
            ),
        )

    @property
    def _row(self) -> int:
        return self.query_one(VirtualRows).cursor_row

    def on_virtual_rows_opened(self) -> None:
        self._set(self._layout.toggled(self._row))

    def action_move(self, by: int) -> None:
        row = self._row
        self._set(self._layout.moved(row, by))
        self.query_one(VirtualRows).cursor_row = row + by

    def action_widen(self, by: int) -> None:
        name = self._layout.columns[self._row].name
        self._set(self._layout.widened(self._row, by, self._columns[name][1]))

    def _set(self, layout: ColumnLayout) -> None:
        self._layout, self._rows.items = layout, layout.columns
        self.query_one(VirtualRows).reload()
        self._on_change(layout)


ConflictRow = tuple[Key, Mapping[str, Any], Mapping[str, Any] | None]
"""The key of a row, its staged change, and its current cells, or None if it was deleted."""
_LABELS = ("    was     ", "    theirs  ", "    mine    ")


class Conflicts(ChoiceDialog):
    """Returns `rest`, `mine` or `theirs`, or "" to apply nothing now."""

    GROUP: ClassVar[str] = "Conflicts"
    DEFAULT_CSS = """
    Conflicts > VerticalScroll { border-left: outer $warning; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "dismiss('rest')", "Apply the rest", id="conflicts.rest"),
        Binding("m", "dismiss('mine')", "Take mine", id="conflicts.mine"),
        Binding("t", "dismiss('theirs')", "Take theirs", id="conflicts.theirs"),
        Binding("escape", "dismiss('')", "Apply nothing", id="conflicts.back"),
    ]


def conflict_lines(table: str, rows: Sequence[ConflictRow], room: int) -> Iterator[Line]:
    """Yield the three versions of each row."""
    count = "This row" if len(rows) == 1 else f"{len(rows)} rows"
    yield [(f"{count} of {table} changed in the meantime", "bold")]
    yield []
    for row in rows:
        for line in _row_lines(*row, room):
            yield fit_cell(tuple(line), ListColumn("", room))


def _row_lines(
    key: Key, change: Mapping[str, Any], now: Mapping[str, Any] | None, room: int
) -> Iterator[Line]:
    """Yield the lines of one row: the earlier, the current and the staged value of each cell."""
    yield [(f"row {', '.join(str(part) for part in key)}", "accent")]
    edit = change.get("update") or change["delete"]
    if now is None:
        yield [("  the row was deleted", "bad")]
        for column, staged in edit.get("set", {}).items():
            yield [(f"  {sanitize(column)}  ", "dim"), (f"mine {_text(staged)}", "warn")]
        return
    for column, was in edit["expected"].items():
        current, staged = now.get(column), edit.get("set", {}).get(column)
        if current == was and "set" not in edit:
            continue
        values = [_text(was), _text(current), *([_text(staged)] if "set" in edit else [])]
        values = [*excerpts(values, room - len(_LABELS[0])), "deleted"]
        tones: Line = [("", "dim"), ("", "notice" if current != was else "dim"), ("", "warn")]
        yield [(f"  {sanitize(column)}", "bold")]
        for label, value, (_, tone) in zip(_LABELS, values, tones, strict=False):
            yield [(label, "dim"), (value, tone)]


def excerpts(texts: Sequence[str], room: int) -> list[str]:
    """Return texts without their common beginning if they need it to show a difference in `room` cells.

    A text may still be too long at its end.
    """
    pairs = enumerate(zip(*texts, strict=False))
    common = next((at for at, each in pairs if len(set(each)) > 1), min(map(len, texts)))
    to_difference = common - len(_tail(texts[0][:common], room // 3))
    to_end = max(len(text) - len(_tail(text, room - 1)) for text in texts)
    start = min(to_difference, to_end)
    if start <= 1 or all(cell_len(text) <= room for text in texts):
        return list(texts)
    return [f"…{text[start:]}" for text in texts]


def _tail(text: str, room: int) -> str:
    """Return the end of a text that fits `room` cells."""
    text = text[max(len(text) - room, 0) :]
    while cell_len(text) > room:
        text = text[1:]
    return text


def _text(value: Any) -> str:
    return sanitize(piece(value)[0])


class PasteScreen(ChoiceDialog):
    """Returns `new` or `over`, or "" to paste nothing."""

    GROUP: ClassVar[str] = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "dismiss('new')", "As new rows", id="tables.paste-new"),
        Binding("o", "dismiss('over')", "Over the cells from the cursor", id="tables.paste-over"),
        Binding("escape", "dismiss('')", "Back", id="tables.paste-back"),
    ]


def paste_lines(
    table: str, preview: Mapping[str, Any], columns: Sequence[TableColumn | None], room: int
) -> Iterator[Line]:
    """Yield the preview of a pasted range, and the columns that it is for, None to skip one."""
    yield from preview_lines(f"pasted for {table}", preview, room)
    names = ", ".join(column.name if column else "(skipped)" for column in columns)
    yield [("into ", "dim"), (names, "")]


class TextScreen(Dialog[str | None]):
    """Edits a text. Returns it, or None if it is unchanged."""

    GROUP: ClassVar[str] = "Tables"
    DEFAULT_CSS = """
    TextScreen > Vertical { width: 96%; max-width: 100; height: 90%; padding: 0 1; }
    TextScreen Static { height: auto; max-height: 3; link-style: none; }
    TextScreen TextArea { height: 1fr; padding: 0; background: $surface; }
    TextScreen #wrong { color: $text-error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "accept", "Accept", priority=True, id="tables.text-take"),
        Binding("escape", "dismiss(None)", "Back", priority=True, id="tables.text-back"),
    ]

    def __init__(self, title: str, text: str, type: TypeInfo, *, changed: bool = False) -> None:
        """Create the field. `changed` is True if the text differs from the cell already."""
        super().__init__()
        self._title, self._text, self._type, self._changed = title, text, type, changed

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content.from_markup("[b]$title[/]", title=self._title))
            yield TextArea(self._text, tab_behavior="indent")
            yield Static(id="wrong")
            yield key_hints(("ctrl+s", "accept", "accept"), ("esc", "dismiss(None)", "back"))

    def on_mount(self) -> None:
        field = self.query_one(TextArea)
        field.move_cursor(field.document.end)

    def action_accept(self) -> None:
        text = self.query_one(TextArea).text
        try:
            read(text, self._type)
        except ValueError as error:
            self.query_one("#wrong", Static).update(Content(str(error)))
        else:
            self.dismiss(text if self._changed or text != self._text else None)


MAX_VALUES = 200
"""Maximum number of frequent values."""
MAX_VALUE_CHARS = 200
"""Maximum characters of a value in the list; longer texts are grouped by their beginning."""
_BAR = 20
_NUMBERS = frozenset({"int", "float"})


class ColumnStats(Dialog[Condition | None], StopWorkersFirst):
    """Shows the statistics of a column. Returns the filter for the chosen value, or None."""

    GROUP: ClassVar[str] = "Column statistics"
    AUTO_FOCUS = "VirtualRows"
    DEFAULT_CSS = """
    ColumnStats > Vertical { width: 84; height: 80%; }
    ColumnStats #summary { height: auto; margin-bottom: 1; }
    ColumnStats VirtualRows { height: 1fr; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,F", "dismiss(None)", "Back", id="stats.back")]

    def __init__(self, client: ProjectClient, table: str, column: TableColumn) -> None:
        super().__init__()
        self._client, self._table, self._column = client, table, column
        self._total = 0
        self._frequencies = ItemRows[Mapping[str, Any]](self._row)
        self._title = f"{table}.{column.name}  {column.type.name}"

    def compose(self) -> ComposeResult:
        titles = (
            ListColumn("value", 24, grow=True), ListColumn("rows", 10, right=True),
            ListColumn("share", 7, right=True), ListColumn("", _BAR),
        )  # fmt: skip
        with Vertical():
            yield Static(id="summary")
            yield VirtualRows(self._frequencies, titles, empty="…")
            yield key_hints(("enter", "choose", "filter by the value"), ("esc", "dismiss(None)", "back"))

    def on_mount(self) -> None:
        self._show([self._title])
        self._fetch()

    @work
    async def _fetch(self) -> None:
        try:
            bodies = [{"sql": sql, "write": False} for sql in self._statements()]
            answers = [await self._client.call("POST", "/sql", body) for body in bodies]
        except SvcError as error:
            self._show([error.message, error.hint])
            return
        (summary,), values = (answer["rows"] for answer in answers)
        total = self._total = int(summary["total"])
        nulls = total - int(summary["filled"])
        counts = f"{plural(total, 'row')}   {summary['values']:,} distinct   {nulls:,} null"
        extremes = [
            f"{name} {typed_piece(summary[name], self._column.type)[0]}"
            for name in ("min", "max", "avg")
            if summary.get(name) is not None
        ]
        self._show([self._title, counts, "   ".join(extremes)])
        self._frequencies.items = values
        self.query_one(VirtualRows).empty = "no rows"
        self.query_one(VirtualRows).set_source(self._frequencies)

    def _show(self, lines: Sequence[str]) -> None:
        first, *rest = (sanitize(line) for line in lines if line)
        content = Content.assemble((first, "b"), *(f"\n{line}" for line in rest))
        self.query_one("#summary", Static).update(content)

    def _row(self, at: int, each: Mapping[str, Any]) -> Row:
        count = int(each["count"])
        text, tone = typed_piece(each["value"], self._column.type)
        bar = "━" * max(round(_BAR * count / int(self._frequencies.items[0]["count"])), 1)
        share = f"{count / self._total:.1%}"
        return Row(
            at, (((sanitize(text), tone),), ((f"{count:,}", ""),), ((share, "dim"),), ((bar, "notice"),))
        )

    def _statements(self) -> tuple[str, str]:
        """Return the SQL of the summary and of the frequent values.

        Numbers are taken as they are, of other values the beginning.
        """
        column, table, form = quoted_name(self._column.name), quoted_name(self._table), self._column.type.form
        value = column if form in (*_NUMBERS, "bool") else f"substr({column}, 1, {MAX_VALUE_CHARS})"
        average = f", avg({column}) as avg" if form in _NUMBERS else ""
        extremes = "" if form in ("bytes", "document") else f", min({value}) as min, max({value}) as max"
        return (
            f"select count(*) as total, count({column}) as filled, count(distinct {column}) as 'values'"
            f"{extremes}{average} from {table}",
            f"select {value} as value, count(*) as count from {table}"
            f" group by 1 order by 2 desc, 1 limit {MAX_VALUES}",
        )

    def on_virtual_rows_opened(self) -> None:
        self.action_choose()

    def action_choose(self) -> None:
        """Return the filter for the value at the cursor. Blobs have none."""
        at = self.query_one(VirtualRows).cursor_row
        if at >= self._frequencies.count():
            return
        value, form = self._frequencies.items[at]["value"], self._column.type.form
        if form == "bytes" or (isinstance(value, dict | list)):
            self.app.bell()
            return
        text = None if value is None else typed_piece(value, self._column.type)[0]
        op = "starts" if isinstance(value, str) and len(value) >= MAX_VALUE_CHARS else "="
        self.dismiss(Condition(self._column.name, op, text))


class Picker(Dialog[str], StopWorkersFirst):
    """A list filtered by the typed text. Returns the chosen name, or "" for none."""

    GROUP: ClassVar[str] = "Tables"
    DEFAULT_CSS = """
    Picker { align: left top; background: $background 40%; }
    Picker > Vertical { width: 60; margin: 1 1; padding: 0 1; }
    Picker Input { height: 1; padding: 0; background: $surface; margin-bottom: 1; }
    Picker OptionList { max-height: 20; padding: 0; background: $surface; }
    Picker #none { display: none; color: $foreground-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss('')", "Back", id="tables.picker-back"),
        Binding("down", "move(1)", "Down", show=False, priority=True, id="tables.picker-down"),
        Binding("up", "move(-1)", "Up", show=False, priority=True, id="tables.picker-up"),
    ]

    def __init__(
        self, placeholder: str, choices: Mapping[str, str] | Callable[[], Awaitable[Mapping[str, str]]]
    ) -> None:
        """Create the list of names with descriptions, or of those that a function fetches.

        `placeholder` is shown in the empty input. The function raises `SvcError`.
        """
        super().__init__()
        self._placeholder, self._source = placeholder, choices
        self._choices: Mapping[str, str] = {}

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Input(placeholder=self._placeholder)
            yield OptionList()
            yield Static(id="none")

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._load()

    @work
    async def _load(self) -> None:
        try:
            self._choices = await self._source() if callable(self._source) else self._source
        except SvcError as error:
            self.notify(error.message, severity="error", markup=False)
            self.dismiss("")
        else:
            self._offer()

    def _offer(self) -> None:
        """Show the choices that contain the typed text; those that start with it come first."""
        choices = self._choices
        typed = self.query_one(Input).value.lower()
        matches = [name for name in choices if typed in name.lower()]
        matches.sort(key=lambda name: not name.lower().startswith(typed))
        names = [sanitize(name) for name in matches]
        width = max(map(cell_len, names), default=0)
        options = self.query_one(OptionList)
        options.clear_options()
        rows = [(set_cell_size(name, width), match) for name, match in zip(names, matches, strict=True)]
        text = partial(Content.from_markup, "[b]$name[/]  [dim]$about[/]")
        options.add_options(Option(text(name=name, about=choices[id]), id=id) for name, id in rows)
        options.highlighted = 0 if matches else None
        no_match = self.query_one("#none", Static)
        no_match.update("no matching name" if choices else "none yet")
        no_match.display = not matches

    def on_input_changed(self) -> None:
        self._offer()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        options = self.query_one(OptionList)
        if options.highlighted is not None:
            self.dismiss(str(options.get_option_at_index(options.highlighted).id))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(str(event.option.id))

    def action_move(self, rows: int) -> None:
        options = self.query_one(OptionList)
        (options.action_cursor_down if rows > 0 else options.action_cursor_up)()


_OPERATIONS: Mapping[str, Tone] = {"insert": "good", "update": "notice", "delete": "bad"}
_SINCE = {
    "changed": "changed since", "deleted": "deleted since", "exists": "its key is used again",
    "constraint": "violates a constraint",
}  # fmt: skip


def _change_lines(rows: Sequence[Mapping[str, Any]], room: int) -> Iterator[Line]:
    """Yield changes of rows, with the conflicts of a revert."""
    for row in rows:
        key = ", ".join(str(part) for part in row["key"].values())
        operation = row["operation"]
        conflict = f"  {_SINCE[row['conflict']]}" if row["conflict"] else ""
        if row["current"]:
            now = {name: row["current"].get(name) for name in row["before"] or ()}
            conflict += sanitize(f", now {changed_cells({'before': None, 'after': now})}")
        name = sanitize(f"{row['table']} {key}")
        line: Line = ((f"{operation} ", _OPERATIONS[operation]), (name, "accent"), (conflict, "warn"))
        yield from wrap_lines([line], room)
        for part in wrap_lines([[(sanitize(changed_cells(row)), "dim")]], room - 2):
            yield [("  ", ""), *part]


class RowsWritten(ChoiceDialog):
    """Shows the rows that a request wrote."""

    GROUP: ClassVar[str] = "Request"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", "Back", id="request.rows-back")]


def written_lines(history: Mapping[str, Any], began_ns: int, room: int) -> Iterator[Line]:
    """Yield the rows that a request has written, which began at a time, and what has no record."""
    rows, since_ns = history["rows"], history["since_ns"]
    title = f"{plural(len(rows), 'row')} written" if rows else "No rows written"
    if not rows and (since_ns is None or since_ns > began_ns):
        title = f"What it wrote is not known: {history_begin(history)}"
    yield [(title, "bold")]
    if any(len(row["write"]["requests"]) > 1 for row in rows):
        yield [("Other requests wrote in the same transaction: some rows may be theirs.", "warn")]
    for lacks in history["lacks"]:
        yield [(f"without history: {sanitize(lacks)}", "dim")]
    yield []
    yield from _change_lines(rows[::-1], room)


class RevertPreview(ChoiceDialog):
    """Shows what a revert of an entry changes. Returns `refuse`, `skip`, `before`, or "" for nothing."""

    GROUP: ClassVar[str] = "Revert"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "dismiss('refuse')", "Revert", id="revert.accept"),
        Binding("less_than_sign", "dismiss('before')", "Table before it", id="revert.before"),
        Binding("escape", "dismiss('')", "Back", id="revert.back"),
    ]


class RevertConflicts(RevertPreview):
    """The same, with rows that have changed since."""

    DEFAULT_CSS = """
    RevertConflicts > VerticalScroll { border-left: outer $warning; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "dismiss('skip')", "Revert the rest", id="revert.rest")
    ]


def revert_lines(write: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], room: int) -> Iterator[Line]:
    """Yield what wrote an entry, and the rows that a revert changes."""
    yield [(f"{local_time(write['time_ns'])[:19]}  {sanitize(wrote(write))}", "bold")]
    yield [(f"A revert changes {plural(sum(not row['conflict'] for row in rows), 'row')}:", "")]
    yield []

    def place(row: Mapping[str, Any]) -> Any:
        key = row["key"].values()
        return row["table"], [f"{each:>20}" if isinstance(each, int) else str(each) for each in key]

    yield from _change_lines(sorted(rows, key=place), room)
