"""Base class of the Console's applications: themes, terminal filters, large pastes, and exit on signals."""

import asyncio
import os
import signal
import termios
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from textual.actions import ActionParseResult, parse
from textual.app import App
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event, Key, Paste
from textual.filter import LineFilter
from textual.keys import format_key
from textual.widget import Widget
from textual.widgets import Input, TextArea

from screens import paste
from screens.key_sequencer import KeySequencer
from screens.terminal_driver import TerminalDriver
from screens.terminal_text import AsciiFilter, ControlCharFilter, supports_unicode
from screens.theme import DARK, THEMES, adapted
from svc_tui.client import SvcError

Result = TypeVar("Result")
_TERMINAL_ACTIONS = {
    "edit_outside": ("$EDITOR runs in a terminal only", "Press e to edit the cell here."),
    "edit_source": ("$EDITOR runs in a terminal only", "Open the file in your editor."),
    "resend": ("$EDITOR runs in a terminal only", "Press r to send the request as it was."),
    "suspend_process": ("only a Console in a terminal can be suspended", "Close the page to leave it."),
}
"""Actions that need a terminal: why they are refused in a browser, and what to do instead."""
_LOCAL_ACTIONS = _TERMINAL_ACTIONS | {
    "file": ("this Console cannot read files of your machine", "Enter the bytes as base64."),
    "import": ("this Console cannot read files of your machine", "Run `svc tables import FILE` there."),
}
"""Actions that use this machine, and are refused for users of another."""
_SPELLED_KEYS = frozenset({"enter", "backspace", "tab", "space", "home", "end"})
"""Keys that are shown by their names."""


class TerminalApp(App[Result]):
    """A Textual application that adapts to the terminal."""

    DEFAULT_CSS = """
    TerminalApp {
        & Toast { width: auto; max-width: 50%; padding: 0 1; margin-top: 0; }
        & .-covered FooterKey { visibility: hidden; }
        &.-colors-256 VirtualList > .rows--cursor { background: $panel; }
        &.-colors-256 VirtualList > .rows--cell { background: #005f87; }
        &.-colors-256.-light-mode VirtualList > .rows--cell { background: #afd7ff; }
        &.-colors-standard Canvas > .canvas--dimmed { color: $foreground 35%; }
    }
    """
    SUSPENDED_SCREEN_CLASS = "-covered"
    """The class of screens below another one, whose keys do nothing."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+z", "suspend_process", "Suspend until fg", show=False, priority=True, id="console.stop"
        ),
    ]

    def __init__(self, downloads: Path | None = None) -> None:
        """Create the application. With `downloads`, it runs for a user of another machine.

        Then exports are written to this folder for the user's browser. No other file and no program is used.
        """
        super().__init__()
        self.downloads = downloads
        paste.install()
        self._control_chars = ControlCharFilter()
        self._keys = KeySequencer(self)
        self._ascii = AsciiFilter(enabled=not supports_unicode())
        for theme in THEMES:
            self.register_theme(adapted(theme, self.console.color_system))
        self.theme = DARK.name
        self.add_class(f"-colors-{self.console.color_system}")

    def get_driver_class(self) -> type[Driver]:
        """Return the terminal driver."""
        usual = super().get_driver_class()
        return TerminalDriver if usual is LinuxDriver else usual

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters applied to each rendered line."""
        filters = (self._control_chars, self._ascii) if self._ascii.enabled else (self._control_chars,)
        return [*super().get_line_filters(), *filters]

    def on_mount(self) -> None:
        """Exit on SIGTERM and SIGHUP, so that the engine is stopped, too."""
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTERM, self.exit)
            loop.add_signal_handler(signal.SIGHUP, self._on_sighup)

        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))

    def on_app_focus(self) -> None:
        """Set the focus of a screen that was opened while the terminal or the page had no focus."""
        if self.screen.focused is None and (selector := self.screen.AUTO_FOCUS):
            self.screen.focus_next(selector)

    def _on_sighup(self) -> None:
        """Exit. If the terminal is gone, redirect output to /dev/null: writes to it would block."""
        try:
            termios.tcgetattr(0)
        except termios.error:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(nowhere, number)
        self.exit()

    def get_key_display(self, binding: Binding) -> str:
        """Return a key as dialogs and the documentation spell it: `enter`, `ctrl+s`."""
        if binding.key_display:
            return binding.key_display
        modifiers, key = binding.parse_key()
        return "+".join([*modifiers, key if key in _SPELLED_KEYS else format_key(key)])

    def is_offered(self, action: str) -> bool:
        """Return whether an action can be used here."""
        return parse(action)[1] not in _refused(self)

    async def run_action(self, action: "str | ActionParseResult", *arguments: Any, **options: Any) -> bool:
        """Run an action, unless it cannot be used here."""
        name = (parse(action) if isinstance(action, str) else action)[1]
        try:
            require_local(self, name)
        except SvcError as error:
            self.notify(error.text, severity="warning", markup=False)
            return True
        return await super().run_action(action, *arguments, **options)

    async def on_event(self, event: Event) -> None:
        """Handle keys one at a time, and reject pastes that are too large for the focused widget."""
        if isinstance(event, Key | Paste) and not event.is_forwarded and not self._keys.accepts(event):
            return
        if (
            isinstance(event, Paste)
            and (max_paste := _max_paste(self.focused))
            and len(event.text) > max_paste
        ):
            size = f"pasted {len(event.text):,} characters; the limit is {max_paste:,}"
            self.notify(f"{size}. Nothing was inserted.", severity="warning")
            return
        await super().on_event(event)


def downloads_of(app: App[Any]) -> Path | None:
    """Return the folder of downloads of an application for another machine."""
    return app.downloads if isinstance(app, TerminalApp) else None


def require_local(app: App[Any], action: str) -> None:
    """Raise `SvcError` if an action cannot be used here."""
    if refusal := _refused(app).get(action):
        raise SvcError(*refusal)


def _refused(app: App[Any]) -> dict[str, tuple[str, str]]:
    if downloads_of(app) is not None:
        return _LOCAL_ACTIONS
    return _TERMINAL_ACTIONS if app.is_web or app.is_headless else {}


def _max_paste(focused: Widget | None) -> int | None:
    """Return the maximum paste for the focused widget in characters, or None for no limit."""
    if isinstance(focused, Input):
        return paste.MAX_LINE_PASTE
    return paste.MAX_TEXT_PASTE if isinstance(focused, TextArea) else None
