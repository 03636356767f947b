"""Footer with the keys of a screen on one line."""

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from screens.terminal_app import TerminalApp

LAST_KEYS = 2
"""Number of keys at the end that are always shown: help and quit, or back."""
WIDE_CELLS = 70
"""Minimum width for two cells between the keys."""


class KeyFooter(Footer):
    """The keys of a screen. Keys that do not fit are omitted; the help has all of them."""

    DEFAULT_CSS = """
    KeyFooter.-compact { padding: 0 1; }
    KeyFooter.-compact FooterKey { margin-right: 2; }
    KeyFooter.-compact.-narrow FooterKey { margin-right: 1; }
    """

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._room = 0

    def compose(self) -> ComposeResult:
        """Compose the keys that fit."""
        keys = [key for key in super().compose() if _is_offered(key)]
        self._room = self.size.width
        narrow = self._room < WIDE_CELLS
        self.set_class(narrow, "-narrow")
        gap = 1 if narrow else 2
        while len(keys) > LAST_KEYS and sum(_cells(key) + gap for key in keys) - gap > self._room:
            del keys[-LAST_KEYS - 1]
        yield from keys

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Show the keys that work now, also while the terminal or the web page does not have the focus."""
        self._bindings_ready = True
        if self.is_attached and screen is self.screen:
            self.call_after_refresh(self.recompose)

    def on_resize(self) -> None:
        """Show the keys that fit now."""
        if self.size.width != self._room:
            self.call_after_refresh(self.recompose)


def _is_offered(key: Widget) -> bool:
    return (
        not isinstance(key, FooterKey)
        or not isinstance(key.app, TerminalApp)
        or key.app.is_offered(key.action)
    )


def _cells(key: Widget) -> int:
    """Return the width of a key and its description."""
    assert isinstance(key, FooterKey)
    return cell_len(f"{key.key_display} {key.description}")
