"""Dialog that resolves conflicts: staged edits of rows that others have changed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType

from screens.dialog import ChoiceDialog
from screens.tables.cells import piece
from screens.tables.draft import Key
from screens.widgets.columns import PlacedColumn, fit_cell, sanitize
from screens.widgets.row_source import Line

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
        Binding("r", "choose('rest')", "Apply the rest", id="conflicts.rest"),
        Binding("m", "choose('mine')", "Keep mine", id="conflicts.mine"),
        Binding("t", "choose('theirs')", "Take theirs", id="conflicts.theirs"),
        Binding("escape", "choose('')", "Apply nothing", id="conflicts.back"),
    ]
    CHOICES = (
        ("r", "rest", "apply the rest"),
        ("m", "mine", "take mine"),
        ("t", "theirs", "take theirs"),
        ("esc", "", "apply nothing"),
    )

    def __init__(self, table: str, rows: Sequence[ConflictRow]) -> None:
        super().__init__()
        self._table, self._rows = table, rows

    def lines(self, room: int) -> Iterator[Line]:
        """Yield the three versions of each row."""
        count = len(self._rows)
        rows = "This row" if count == 1 else f"{count} rows"
        yield [(f"{rows} of {self._table} changed in the meantime", "bold")]
        yield []
        for row in self._rows:
            for line in row_lines(*row, room):
                yield fit_cell(tuple(line), PlacedColumn(0, room, right=False))


def row_lines(
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
