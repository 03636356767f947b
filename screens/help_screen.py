"""Help screen: the description of a screen and the keys that work in it, derived from its bindings."""

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from screens.palette import by_use

Keys = dict[str, list[tuple[str, str]]]
"""Pairs of keys and description by group, in the order of the key bindings."""


EVERYWHERE = "Everywhere"
"""The group of the application's keys."""
WIDE_CELLS = 116
"""Minimum screen width for two columns of keys."""
FormatKey = Callable[[Binding], str]
"""Returns how a key is displayed."""


def binding_group(node: object) -> str:
    """Return the heading of a widget's keys; empty for widgets of Textual."""
    return str(getattr(node, "GROUP", ""))


class HelpScreen(ModalScreen[None]):
    """Shows the description of a screen and the keys that work now."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 60%; }
    HelpScreen > VerticalScroll {
        width: 72; max-width: 96%; height: auto; max-height: 90%;
        padding: 1 2; background: $surface; border-left: outer $primary; scrollbar-size-vertical: 1;
    }
    HelpScreen.wide > VerticalScroll { width: 112; }
    HelpScreen .about { margin-bottom: 1; }
    HelpScreen Horizontal { height: auto; }
    HelpScreen .half { width: 1fr; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "dismiss", "Back", id="help.back"),
    ]

    def __init__(self, about: str, keys: Keys) -> None:
        super().__init__()
        self._about, self._keys = about, keys

    @property
    def _wide(self) -> bool:
        """True if there is space for two columns."""
        return self.app.size.width >= WIDE_CELLS

    def on_mount(self) -> None:
        """Widen the dialog for two columns."""
        self.set_class(self._wide, "wide")

    def compose(self) -> ComposeResult:
        """Compose the description and the table of keys."""
        width = max((len(key) for rows in self._keys.values() for key, _ in rows), default=0)
        halves: tuple[list[Content], list[Content]] = ([], [])
        total, filled = sum(map(len, self._keys.values())), 0
        for group, rows in self._keys.items():
            lines = [
                Content.from_markup("  [b $primary]$key[/]  $does", key=key.ljust(width), does=description)
                for key, description in rows
            ]
            heading = Content.from_markup("[dim]$group[/]", group=group)
            half = halves[bool(filled) and self._wide and 2 * filled >= total]
            half.append(Content("\n").join([heading, *lines]))
            filled += len(rows)
        with VerticalScroll():
            if self._about:
                yield Static(Content(self._about), classes="about")
            with Horizontal():
                for half in filter(None, halves):
                    yield Static(Content("\n\n").join(half), classes="half")

    async def action_dismiss(self, result: None = None) -> None:
        """Close the help."""
        self.dismiss()


def visible_keys(active: Iterable[ActiveBinding], display: FormatKey, first: str = "") -> Keys:
    """Return the described bindings by group; keys with the same description share a row.

    The group `first` is the first one, and the group of the application the last one. Movements are last in
    their group.
    """
    groups: dict[str, dict[str, list[str]]] = {}
    for node, binding, *_ in sorted(active, key=by_use):
        if binding.id and binding.description and (group := binding_group(node)):
            groups.setdefault(group, {}).setdefault(binding.description, []).append(display(binding))
    return {
        group: [(" ".join(dict.fromkeys(keys)), description) for description, keys in rows.items()]
        for group, rows in sorted(groups.items(), key=lambda item: (item[0] != first, item[0] == EVERYWHERE))
    }
