"""Base class of the Console's applications: themes, driver, large pastes, order of keys, exit on signals."""

import asyncio
import contextlib
import os
import signal
import termios
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, ClassVar, TypeVar

from textual import events
from textual._xterm_parser import XTermParser
from textual.actions import ActionParseResult, parse
from textual.app import App, ScreenStackError
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers import linux_driver, web_driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event, Key, Paste
from textual.filter import LineFilter
from textual.keys import format_key
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, TextArea

from screens.terminal_text import AsciiFilter, ControlCharFilter, supports_unicode
from screens.theme import DARK, THEMES, adapted
from svc_tui.client import SvcError

BEGIN, END = "\x1b[200~", "\x1b[201~"
MAX_LINE_PASTE = 64 * 1024
"""Maximum paste into an input line, in characters."""
MAX_TEXT_PASTE = 1 << 20
"""Maximum paste into a text area, in characters. It takes about a second to insert."""


class PasteParser(XTermParser):
    """Textual's terminal parser with a fast path between the paste marks.

    Textual parses a paste character by character, so 10 MB would block the keyboard for a minute.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasted: list[str] | None = None
        self._before = ""
        """The last characters before a paste: its start mark may be split between two reads."""

    def feed(self, data: str) -> Iterable[Message]:
        """Yield the events of some input; empty input ends the stream."""
        if not data:
            yield from super().feed(data)
        while data:
            if self._pasted is None:
                recent = self._before + data
                at = recent.find(BEGIN)
                if at < 0:
                    self._before = recent[1 - len(BEGIN) :]
                    yield from super().feed(data)
                    return
                end = at + len(BEGIN) - len(self._before)
                yield from super().feed(data[:end])
                self._before, self._pasted, data = "", [], data[end:]
                continue
            tail = self._pasted.pop() if self._pasted else ""
            text, mark, rest = (tail + data).partition(END)
            if not mark:
                self._pasted += [text[: -len(END)], text[-len(END) :]]
                return
            pasted, self._pasted, data = "".join([*self._pasted, text]), None, rest
            # The base parser has received only the marks and reports an empty paste.
            yield from (event for event in super().feed(END) if not isinstance(event, events.Paste))
            yield events.Paste(pasted.replace("\x00", ""))


def _install_paste_parser() -> None:
    """Install this parser in Textual's terminal and browser drivers."""
    for driver in (linux_driver, web_driver):
        setattr(driver, XTermParser.__name__, PasteParser)


DRAIN_TIMEOUT_SECONDS = 0.2
"""Maximum wait for a widget that does not respond, so that it cannot block `ctrl+c`."""


class KeySequencer:
    """Serializes the key and paste events of one application.

    Textual delivers letters to the focused widget at once, but resolves bindings several messages later.
    Keys that arrive together, as over a slow connection, would be reordered: `x`, `backspace`, `y` would
    become `x`. Letters after a key that opens an input would be lost.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._current: Event | None = None
        self._waiting: deque[Event] = deque()
        self._task: asyncio.Task[None] | None = None

    def accepts(self, event: Event) -> bool:
        """Return whether to handle an event now. Other events are queued and posted again later."""
        if self._current is None or self._current is event:
            self._current = event
            self._task = asyncio.create_task(self._follow(self._app.focused or self._app.screen))
            return True
        self._waiting.append(event)
        return False

    async def _follow(self, target: DOMNode) -> None:
        """Wait until an event was handled by the focused widget and its ancestors; then post the next one."""
        for node in (self._app, *target.ancestors_with_self, self._app):
            await _drain(node)
        with suppress(ScreenStackError):  # The key has closed the application.
            await _drain(self._app.screen)  # The key may have opened this screen.
        self._current = self._waiting.popleft() if self._waiting else None
        if self._current is not None:
            self._app.post_message(self._current)


async def _drain(node: DOMNode) -> None:
    """Wait until a widget has processed its message queue."""
    done = asyncio.Event()
    if node.call_later(done.set):
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT_SECONDS):
                await done.wait()


class TerminalDriver(LinuxDriver):
    """Textual's terminal driver, with write errors ignored.

    Without that, Textual's writer thread would end with an error and the application would wait for that
    thread forever.
    """

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        assert self._file is not None
        setattr(self, "_file", _ClosedTerminal(self._file))  # noqa: B010


class _ClosedTerminal:
    """A terminal file that ignores write errors."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            return self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()


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
        _install_paste_parser()
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
        return MAX_LINE_PASTE
    return MAX_TEXT_PASTE if isinstance(focused, TextArea) else None
