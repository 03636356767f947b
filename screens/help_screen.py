"""Which keys work now and what they do, over the screen that asks. The keys are the bindings' own."""

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

Keys = dict[str, list[tuple[str, str]]]
"""By group, in the order in which they are looked up: keys as they are written, and what they do."""


FormatKey = Callable[[Binding], str]
"""How a binding's key is written."""


def binding_group(node: object) -> str:
    """Return the name of what a binding belongs to; empty for what is the toolkit's own."""
    return str(getattr(node, "GROUP", ""))


class HelpScreen(ModalScreen[None]):
    """Shows what a screen is for and the keys that work in it now."""

    DEFAULT_CSS = """
    KeysHelp { align: center middle; background: $background 60%; }
    KeysHelp > VerticalScroll {
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
        """Place the text and the table of keys."""
        width = max((len(key) for rows in self._keys.values() for key, _ in rows), default=0)
        parts = [Content(self._about)] if self._about else []
        for group, rows in self._keys.items():
            lines = [
                Content.from_markup("  [b $primary]$key[/]  $does", key=key.ljust(width), does=does)
                for key, does in rows
            ]
            parts.append(Content("\n").join([Content.from_markup("[dim]$group[/]", group=group), *lines]))
        with VerticalScroll():
            yield Static(Content("\n\n").join(parts))

    async def action_dismiss(self, result: None = None) -> None:
        """Go back."""
        self.dismiss()


def visible_keys(active: Iterable[ActiveBinding], display: FormatKey) -> Keys:
    """Return the keys of bindings that say what they do; several keys of one action are one row."""
    found: dict[str, dict[str, list[str]]] = {}
    for node, binding, *_ in active:
        if binding.id and binding.description and (group := binding_group(node)):
            found.setdefault(group, {}).setdefault(binding.description, []).append(display(binding))
    return {
        group: [(" ".join(dict.fromkeys(keys)), does) for does, keys in rows.items()]
        for group, rows in found.items()
    }
