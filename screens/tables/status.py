"""Texts of the status line above a table."""

from collections.abc import Mapping

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from screens.tables.cells import piece
from screens.tables.draft import Draft, NewRow
from screens.tables.grid import RemoteGrid, TableColumn, TableRow
from screens.tables.query import describe_sort
from screens.widgets.columns import sanitize
from screens.widgets.row_source import Line, Piece
from svc_tui.terminal.units import plural

MAX_VALUE_LENGTH = 24
"""Maximum characters of a value that others have written."""


def table_status(grid: RemoteGrid) -> Content:
    """Return name, number of rows, sort order and filters of a table."""
    parts = [
        Content.from_markup("[@click=screen.tables][b $primary]$name[/] ▾[/]", name=grid.table),
        Content.from_markup("[dim]$count[/]", count=plural(grid.total, "row")),
    ]
    if sort_text := describe_sort(grid.query.sorts):
        parts.append(Content.from_markup("[dim]$words[/]", words=sort_text))
    parts += [
        Content.from_markup(
            f"[on $panel] $chip [@click=screen.drop_filter({index})][dim]×[/][/] [/]", chip=chip
        )
        for index, chip in enumerate(grid.query.chips())
    ]
    if not grid.editable:
        parts.append(
            Content.from_markup("[$text-warning]read-only: $reason[/]", reason=grid.read_only_reason)
        )
    return Content("   ").join(parts)


def record_lines(fields: Mapping[str, Piece]) -> list[Line]:
    """Return the fields of a row, one below the other. Long values wrap."""
    width = max((cell_len(sanitize(name)) for name in fields), default=0)
    lines: list[Line] = []
    for field, (text, tone) in fields.items():
        for number, line in enumerate(text.splitlines() or [""]):
            name = "" if number else sanitize(field)
            lines.append(((set_cell_size(name, width), "dim"), ("  ", ""), (sanitize(line), tone)))
    return lines


def staged_status(
    drafts: Mapping[str, Draft],
    grid: RemoteGrid | None,
    row: NewRow | TableRow | None,
    column: TableColumn | None,
) -> str:
    """Return the staged edits, or the value that others have written into the edited cell at the cursor."""
    elsewhere = next((name for name, draft in drafts.items() if len(draft)), "")
    text = f"staged edits in {elsewhere}" if elsewhere else ""
    if grid is not None and len(grid.draft):
        text = f"{plural(len(grid.draft), 'row')} changed · ctrl+s applies"
    if grid is not None and isinstance(row, TableRow) and column and grid.has_conflict(row, column):
        current, _ = piece(row.cells[grid.column_index[column.name]])
        if len(current) > MAX_VALUE_LENGTH:
            current = f"{current[: MAX_VALUE_LENGTH - 1]}…"
        text = f"others wrote {sanitize(current)} here · ctrl+s asks"
    return text
