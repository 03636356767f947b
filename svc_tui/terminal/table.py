"""Rows in columns: aligned by the width that a terminal gives characters, and cut to what fits on it.

Where the columns do not fit beside each other, each row is shown as lines of its own.
"""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from svc_tui.terminal.stdout import Styled
from svc_tui.terminal.style import CONTROL_CHARS

Cell = tuple[str, str]
"""A text and its style."""
_GAP = "  "
_LEAST = 8
"""Cells that a column keeps where there is little room."""
_MOST = 60
"""Cells of a column where there is another beside it."""
_SHOWN = {**CONTROL_CHARS, 10: "↵", 13: "", 9: "⇥"}
_LOOKED_AT = 10_000
"""Characters of a text that are looked at: more do not fit on a line."""


def one_line(text: str) -> str:
    """Return a text on one line, with what stands for line ends and tabs, and nothing that commands."""
    if len(text) > _LOOKED_AT:
        text = text[:_LOOKED_AT] + "…"
    return text if text.isprintable() else text.translate(_SHOWN)


def format_table(
    heads: Sequence[str], rows: Sequence[Sequence[Cell]], width: int, right: frozenset[int]
) -> list[Styled]:
    """Return the lines of a table for a terminal of that width; columns in `right` are set to the right."""
    names = [one_line(head) for head in heads]
    cells = [[(one_line(text), style) for text, style in row] for row in rows]
    widths = [
        max([cell_len(name), *(cell_len(row[index][0]) for row in cells)]) for index, name in enumerate(names)
    ]
    fitting = _fit(widths, width)
    if fitting is None:
        return _records(names, cells, width)
    lines = [_line([(name, "bold") for name in names], fitting, right)]
    lines += [_line(row, fitting, right) for row in cells]
    return lines


def _fit(widths: list[int], width: int) -> list[int] | None:
    """Return narrower columns that fit on a line, the widest cut first; None where they can not."""
    room = width - len(_GAP) * (len(widths) - 1)
    if len(widths) > 1:
        widths = [min(each, _MOST) for each in widths] if sum(widths) > room else widths
    if sum(min(each, _LEAST) for each in widths) > room:
        return None
    widths = list(widths)
    while sum(widths) > room:
        widest = max(widths)
        next_widest = max([each for each in widths if each < widest], default=0)
        count = widths.count(widest)
        excess = sum(widths) - room
        cut = max(1, min(widest - max(next_widest, 1), -(-excess // count)))
        widths = [each - cut if each == widest else each for each in widths]
    return widths


def _line(cells: Sequence[Cell], widths: Sequence[int], right: frozenset[int]) -> Styled:
    pieces: Styled = []
    for index, ((text, style), width) in enumerate(zip(cells, widths, strict=True)):
        cut = _cut(text, width)
        blank = " " * (width - cell_len(cut))
        last = index == len(widths) - 1
        if index:
            pieces.append((_GAP, ""))
        pieces += (
            [(blank, ""), (cut, style)] if index in right else [(cut, style), ("" if last else blank, "")]
        )
    return [piece for piece in pieces if piece[0]]


def _cut(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 1 else set_cell_size(text, width)


def _records(names: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> list[Styled]:
    name_width = min(max((cell_len(name) for name in names), default=0), 30, max(width // 3, 1))
    room = max(width - name_width - len(_GAP), _LEAST)
    lines: list[Styled] = []
    for number, row in enumerate(rows, 1):
        lines.append([(f"── {number} ──", "dim")])
        for name, (text, style) in zip(names, row, strict=True):
            blank = " " * (name_width - cell_len(_cut(name, name_width)))
            lines.append([(_cut(name, name_width), "bold"), (blank + _GAP, ""), (_cut(text, room), style)])
    return lines
