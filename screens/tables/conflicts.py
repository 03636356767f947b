"""Dialog that resolves conflicts: staged edits of rows that others have changed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from screens.dialog import ChoiceDialog
from screens.tables.cells import piece
from screens.tables.draft import Key
from screens.widgets.columns import sanitize
from screens.widgets.content import to_content
from screens.widgets.row_source import Line

ConflictRow = tuple[Key, Mapping[str, Any], Mapping[str, Any] | None]
"""The key of a row, its staged change, and its current cells, or None if it was deleted."""


class Conflicts(ChoiceDialog):
    """Returns `rest`, `mine` or `theirs`, or "" to apply nothing now."""

    GROUP: ClassVar[str] = "Conflicts"
    DEFAULT_CSS = """
    Conflicts > Vertical { border-left: outer $warning; }
    Conflicts .title { text-style: bold; margin-bottom: 1; }
    Conflicts VerticalScroll { height: auto; max-height: 16; scrollbar-size-vertical: 1; }
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

    def content(self) -> ComposeResult:
        """Yield the three versions of each row."""
        count = len(self._rows)
        rows = "This row" if count == 1 else f"{count} rows"
        yield Static(Content(f"{rows} of {self._table} changed in the meantime"), classes="title")
        with VerticalScroll():
            yield Static(to_content(line for row in self._rows for line in lines(*row)))


def lines(key: Key, change: Mapping[str, Any], now: Mapping[str, Any] | None) -> Iterator[Line]:
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
        yield [(f"  {sanitize(column)}", "bold")]
        yield [("    was     ", "dim"), (_text(was), "dim")]
        yield [("    theirs  ", "dim"), (_text(current), "notice" if current != was else "dim")]
        yield [("    mine    ", "dim"), (_text(staged) if "set" in edit else "deleted", "warn")]


def _text(value: Any) -> str:
    return sanitize(piece(value)[0])[:40]
