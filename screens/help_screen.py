"""Help screen: the description of a screen and the keys that work in it, derived from its bindings."""

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

Keys = dict[str, list[tuple[str, str]]]
"""Pairs of keys and description by group, in the order of the key bindings."""


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
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "dismiss", "Back", id="help.back"),
    ]

    def __init__(self, about: str, keys: Keys) -> None:
        super().__init__()
        self._about, self._keys = about, keys

    def compose(self) -> ComposeResult:
        """Compose the description and the table of keys."""
        width = max((len(key) for rows in self._keys.values() for key, _ in rows), default=0)
        sections = [Content(self._about)] if self._about else []
        for group, rows in self._keys.items():
            lines = [
                Content.from_markup("  [b $primary]$key[/]  $does", key=key.ljust(width), does=description)
                for key, description in rows
            ]
            sections.append(Content("\n").join([Content.from_markup("[dim]$group[/]", group=group), *lines]))
        with VerticalScroll():
            yield Static(Content("\n\n").join(sections))

    async def action_dismiss(self, result: None = None) -> None:
        """Close the help."""
        self.dismiss()


def visible_keys(active: Iterable[ActiveBinding], display: FormatKey) -> Keys:
    """Return the described bindings by group; keys with the same description share a row."""
    groups: dict[str, dict[str, list[str]]] = {}
    for node, binding, *_ in active:
        if binding.id and binding.description and (group := binding_group(node)):
            groups.setdefault(group, {}).setdefault(binding.description, []).append(display(binding))
    return {
        group: [(" ".join(dict.fromkeys(keys)), description) for description, keys in rows.items()]
        for group, rows in groups.items()
    }
