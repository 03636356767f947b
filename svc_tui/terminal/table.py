"""Tables for a terminal: columns aligned by cell width and cut to the terminal.

If the columns do not fit side by side, each row is printed as a block of lines.
"""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from svc_tui.terminal.stderr import CONTROL_CHARS
from svc_tui.terminal.stdout import Styled

Cell = tuple[str, str]
"""A text and its style."""
_GAP = "  "
_MIN_COLUMN = 8
"""Minimum cells of a column."""
_MAX_COLUMN = 60
"""Maximum cells of a column that has another beside it."""
_VISIBLE = {**CONTROL_CHARS, 10: "↵", 13: "", 9: "⇥"}
_MAX_CHARS = 10_000
"""Characters of a cell that are formatted: more never fit on a line."""


def one_line(text: str) -> str:
    """Return text on one line: symbols for line ends and tabs, no control characters."""
    if len(text) > _MAX_CHARS:
        text = text[:_MAX_CHARS] + "…"
    return text if text.isprintable() else text.translate(_VISIBLE)


def format_table(
    heads: Sequence[str], rows: Sequence[Sequence[Cell]], width: int, right: frozenset[int]
) -> list[Styled]:
    """Return the lines of a table `width` cells wide; `right` has the right-aligned columns."""
    names = [one_line(head) for head in heads]
    cells = [[(one_line(text), style) for text, style in row] for row in rows]
    widths = [
        max([cell_len(name), *(cell_len(row[index][0]) for row in cells)]) for index, name in enumerate(names)
    ]
    fitted_widths = _fit(widths, width)
    if fitted_widths is None:
        return _records(names, cells, width)
    lines = [_line([(name, "bold") for name in names], fitted_widths, right)]
    lines += [_line(row, fitted_widths, right) for row in cells]
    return lines


def _fit(widths: list[int], width: int) -> list[int] | None:
    """Return column widths that fit on a line, narrowing the widest first; None if impossible."""
    room = width - len(_GAP) * (len(widths) - 1)
    if len(widths) > 1:
        widths = [min(column, _MAX_COLUMN) for column in widths] if sum(widths) > room else widths
    if sum(min(column, _MIN_COLUMN) for column in widths) > room:
        return None
    widths = list(widths)
    while sum(widths) > room:
        widest = max(widths)
        next_widest = max([column for column in widths if column < widest], default=0)
        count = widths.count(widest)
        excess = sum(widths) - room
        reduction = max(1, min(widest - max(next_widest, 1), -(-excess // count)))
        widths = [column - reduction if column == widest else column for column in widths]
    return widths


def _line(cells: Sequence[Cell], widths: Sequence[int], right: frozenset[int]) -> Styled:
    pieces: Styled = []
    for index, ((text, style), width) in enumerate(zip(cells, widths, strict=True)):
        truncated = _cut(text, width)
        blank = " " * (width - cell_len(truncated))
        is_last = index == len(widths) - 1
        if index:
            pieces.append((_GAP, ""))
        pieces += (
            [(blank, ""), (truncated, style)]
            if index in right
            else [(truncated, style), ("" if is_last else blank, "")]
        )
    return [piece for piece in pieces if piece[0]]


def _cut(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 1 else set_cell_size(text, width)


def _records(names: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> list[Styled]:
    name_width = min(max((cell_len(name) for name in names), default=0), 30, max(width // 3, 1))
    room = max(width - name_width - len(_GAP), _MIN_COLUMN)
    lines: list[Styled] = []
    for number, row in enumerate(rows, 1):
        lines.append([(f"── {number} ──", "dim")])
        for name, (text, style) in zip(names, row, strict=True):
            blank = " " * (name_width - cell_len(_cut(name, name_width)))
            lines.append([(_cut(name, name_width), "bold"), (blank + _GAP, ""), (_cut(text, room), style)])
    return lines
