"""The dialog that resolves conflicts: rows that others have changed while they were edited."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from screens.tables.cells import piece
from screens.tables.draft import Key
from screens.widgets.columns import sanitize
from screens.widgets.content import to_content
from screens.widgets.row_source import Line

Told = Sequence[tuple[Key, Mapping[str, Any], Mapping[str, Any] | None]]
"""For each row: its key, the change that was asked for, and its cells now, None where it is gone."""


class Conflicts(ModalScreen[str]):
    """Gives `rest`, `mine` or `theirs`; empty where nothing is to be applied now."""

    GROUP: ClassVar[str] = "Conflicts"
    DEFAULT_CSS = """
    Conflicts { align: center middle; background: $background 60%; }
    Conflicts > Vertical {
        width: 90; max-width: 96%; height: auto; max-height: 90%;
        padding: 1 2; background: $surface; border-left: outer $warning;
    }
    Conflicts .title { text-style: bold; margin-bottom: 1; }
    Conflicts VerticalScroll { height: auto; max-height: 16; scrollbar-size-vertical: 1; margin-bottom: 1; }
    Conflicts .keys { link-style: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "choose('rest')", "Apply the rest", id="conflicts.rest"),
        Binding("m", "choose('mine')", "Keep mine", id="conflicts.mine"),
        Binding("t", "choose('theirs')", "Take theirs", id="conflicts.theirs"),
        Binding("escape", "choose('')", "Apply nothing", id="conflicts.back"),
    ]

    def __init__(self, table: str, columns: Sequence[str], told: Told) -> None:
        super().__init__()
        self._table, self._columns, self._told = table, columns, told

    def compose(self) -> ComposeResult:
        """Place both sides of every row, and the choices."""
        count = len(self._told)
        rows = "this row" if count == 1 else f"{count} rows"
        title = f"{rows[0].upper()}{rows[1:]} of {self._table} changed in the meantime"
        with Vertical():
            yield Static(Content(title), classes="title")
            with VerticalScroll():
                yield Static(to_content(line for each in self._told for line in lines(*each)))
            yield Static(
                Content.from_markup(
                    "[@click=screen.choose('rest')][b $primary]r[/] apply the rest[/]   "
                    "[@click=screen.choose('mine')][b $primary]m[/] take mine[/]   "
                    "[@click=screen.choose('theirs')][b $primary]t[/] take theirs[/]   "
                    "[@click=screen.choose('')][b $primary]esc[/] apply nothing[/]"
                ),
                classes="keys",
            )

    def action_choose(self, choice: str) -> None:
        """Close with the choice."""
        self.dismiss(choice)


def lines(key: Key, change: Mapping[str, Any], now: Mapping[str, Any] | None) -> Iterator[Line]:
    """Yield what is to be seen of one row: what it was, what it is now, what it was to become."""
    yield [(f"row {', '.join(str(part) for part in key)}", "accent")]
    asked = change.get("update") or change["delete"]
    if now is None:
        yield [("  it is gone", "bad")]
        for column, mine in asked.get("set", {}).items():
            yield [(f"  {sanitize(column)}  ", "dim"), (f"mine {_text(mine)}", "warn")]
        return
    for column, was in asked["expected"].items():
        theirs, mine = now.get(column), asked.get("set", {}).get(column)
        if theirs == was and "set" not in asked:
            continue
        yield [
            (f"  {sanitize(column)}  ", "dim"),
            (f"was {_text(was)}  ", "dim"),
            (f"theirs {_text(theirs)}  ", "notice" if theirs != was else "dim"),
            (f"mine {_text(mine) if 'set' in asked else 'deleted'}", "warn"),
        ]


def _text(value: Any) -> str:
    return sanitize(piece(value)[0])[:40]
