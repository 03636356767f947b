"""Base class of the Console's applications: themes, text, drivers, order of keys, exit on signals.

In themes, structure is dim, changes and errors are bright. `primary` is for the selection and keys, `accent`
for Doors, `secondary` for names. The driver of browsers exits with the web server, and redraws for a page
that takes over.
"""

import asyncio
import contextlib
import locale
import os
import re
import signal
import termios
import threading
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any, ClassVar, TypeVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual._xterm_parser import XTermParser
from textual.actions import ActionParseResult, parse
from textual.app import App, ScreenStackError
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers import linux_driver, web_driver
from textual.drivers.linux_driver import LinuxDriver
from textual.drivers.web_driver import WebDriver
from textual.events import Event, Key, Paste
from textual.filter import LineFilter
from textual.keys import format_key
from textual.message import Message
from textual.messages import ExitApp
from textual.theme import Theme
from textual.widgets import Input, TextArea

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
        with suppress(OSError):
            return self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
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
    "upload": ("this Console cannot read files of your machine", "Run `svc files put FILE` there."),
}
"""Actions that use this machine, and are refused for users of another."""
EVERYWHERE = "Everywhere"
"""The group of the application's keys."""
_SPELLED_KEYS = frozenset({"enter", "backspace", "tab", "space", "home", "end"})
"""Keys that are shown by their names."""


class TerminalApp(App[Result]):
    """A Textual application that adapts to the terminal."""

    TITLE = "svc"
    GROUP: ClassVar[str] = EVERYWHERE
    DEFAULT_CSS = """
    TerminalApp {
        & Toast { width: auto; max-width: 50%; padding: 0 1; margin-top: 0; }
        & .-covered FooterKey { visibility: hidden; }
        & Input, & OptionList, & TextArea { border: none !important; }
        &.-colors-256 VirtualList > .rows--cursor { background: $panel; }
        &.-colors-256 VirtualList > .rows--cell { background: #005f87; }
        &.-colors-256.-light-mode VirtualList > .rows--cell { background: #afd7ff; }
        &.-colors-standard Canvas > .canvas--dimmed { color: $foreground 35%; }
    }
    """
    SUSPENDED_SCREEN_CLASS = "-covered"
    """The class of screens below another one, whose keys do nothing."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+z", "suspend_process", "Suspend until fg", show=False, priority=True, id="console.stop")
    ]

    def __init__(self, keymap: dict[str, str] | None = None, downloads: Path | None = None) -> None:
        """Create the application. `keymap` overrides keys by binding id.

        With `downloads`, it runs for a user of another machine. Then exports are written to this folder for
        the user's browser. No other file and no program is used.
        """
        super().__init__()
        self.set_keymap(keymap or {})
        self.downloads = downloads
        for driver in (linux_driver, web_driver):
            setattr(driver, XTermParser.__name__, PasteParser)
        self._keys = KeySequencer(self)
        self._text_filters = [TextFilter(without_controls)]
        if not supports_unicode():
            self._text_filters.append(TextFilter(to_ascii))
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
        return [*super().get_line_filters(), *self._text_filters]

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
        if isinstance(event, Paste) and isinstance(focused := self.focused, Input | TextArea):
            most = MAX_LINE_PASTE if isinstance(focused, Input) else MAX_TEXT_PASTE
            if len(event.text) > most:
                size = f"pasted {len(event.text):,} characters; the limit is {most:,}"
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


_LOCALE_VARIABLES = ("LC_ALL", "LC_CTYPE", "LANG")
_ASCII_LOCALES = ("C", "POSIX")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200f\u202a-\u202e\u2066-\u2069]")
"""C0, C1 and DEL; marks, embeddings, overrides and isolates (Unicode TR 9). They take no cells."""
_SIGNS = {
    **dict.fromkeys("─╌┄╴╶–—−▔▀", "-"),
    **dict.fromkeys("│┆╵╷▌▎▏▍▕▐❚", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯", "+"),
    **dict.fromkeys("━┃╸╺╹╻┏┓┗┛┣┫┳┻╋◆", "#"),
    **dict.fromkeys("●•⬤■▪", "*"),
    **dict.fromkeys("○◇□", "o"),
    **dict(zip("┊┈◌▲▁▂▃▄▅▆▇█", ":.~!_.-:=+*#", strict=True)),
    **dict.fromkeys("→▶▸›⏵", ">"),
    **dict.fromkeys("←◀◂‹⏴", "<"),
    **dict.fromkeys("↑△⇧⏶", "^"),
    **dict.fromkeys("↓▼▾⏷", "v"),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”„", '"'),
    **dict(zip("…·×≠✓✗⏎↵␣⟳⚷⚠\u00a0", "~.x#+x>>_@$! ", strict=True)),
}


class TextFilter(LineFilter):
    """Replaces the text of segments."""

    def __init__(self, replaced: Callable[[str], str]) -> None:
        """Create the filter. `replaced` returns a text itself if it stays as it is."""
        super().__init__()
        self._replaced = replaced

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments with their texts replaced, except those of control codes."""
        texts = [segment.text if segment.control else self._replaced(segment.text) for segment in segments]
        return [
            segment if text is segment.text else Segment(text, segment.style)
            for segment, text in zip(segments, texts, strict=True)
        ]


def without_controls(text: str) -> str:
    """Return a text without control characters. Columns stay aligned, since they take no cells."""
    return text if text.isprintable() else _CONTROL.sub("", text)


def to_ascii(text: str) -> str:
    """Return ASCII text of the same width; characters without a replacement become `?`."""
    return text if text.isascii() else "".join(map(_sign, text))


@lru_cache(4096)
def _sign(character: str) -> str:
    if character.isascii():
        return character
    width = cell_len(character)
    if (sign := _SIGNS.get(character)) is not None and width == 1:
        return sign
    letter = unicodedata.normalize("NFKD", character)[0]
    return letter if width == 1 and letter.isascii() and letter.isprintable() else "?" * width


def supports_unicode() -> bool:
    """Return whether the terminal displays characters outside of ASCII.

    Python replaces the C locale with C.UTF-8 and sets LC_CTYPE to it (PEP 538), which says nothing about the
    terminal. So LANG decides in that case. Without any of the variables, Unicode is assumed.
    """
    values = [value for name in _LOCALE_VARIABLES if (value := os.environ.get(name))]
    if values == ["C.UTF-8", *values[1:]] and len(values) > 1 and values[1] in _ASCII_LOCALES:
        return False
    return locale.getencoding().replace("-", "").lower() == "utf8"


class BrowserDriver(WebDriver):
    """Textual's web driver, which also exits when its input is closed."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._write = partial(_write, self.fileno)

    def run_input_thread(self) -> None:
        """Read input until it is closed, then exit."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(ExitApp())

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        """Handle a control message of the server; `show` attaches another page."""
        if packet_type == "show":
            super().on_meta("resize", payload)
            self._app.call_later(self._restore_screen)
        else:
            super().on_meta(packet_type, payload)

    def _restore_screen(self) -> None:
        """Initialize the terminal of a new page and redraw everything."""
        self.write("\x1b[?1049h\x1b[?25l")
        self._enable_mouse_support()
        self._enable_bracketed_paste()
        self._app.refresh(layout=True)


def _write(number: int, data: bytes) -> int:
    """Write all of `data`; ignore a closed pipe, since the Console is exiting."""
    with contextlib.suppress(BrokenPipeError):
        view = memoryview(data)
        while view:
            view = view[os.write(number, view) :]
    return len(data)


_HUES = ("primary", "secondary", "accent", "success", "warning", "error")


def _palette(colors: str) -> dict[str, Any]:
    """Return the colors of a theme: its hues, then foreground, background, surface and panel."""
    names = (*_HUES, "foreground", "background", "surface", "panel")
    return dict(zip(names, colors.split(), strict=True))


DARK = Theme(
    "svc-dark",
    **_palette("#7aa2f7 #73c9c4 #bb9af7 #9ece6a #e0af68 #f7768e #c8d0e8 #12141c #171a24 #1c202c"),
    dark=True,
    variables={
        "footer-background": "#171a24",
        "footer-key-foreground": "#7aa2f7",
        "footer-description-foreground": "#8a93ad",
        "scrollbar": "#2a3044",
        "scrollbar-background": "#12141c",
        "scrollbar-corner-color": "#12141c",
    },
)
LIGHT = Theme(
    "svc-light",
    **_palette("#2455c3 #0b6f6c #7340b5 #35702b #8a5a00 #b3203f #2a2f3d #fbfbfd #f2f3f7 #e8eaf1"),
    dark=False,
    variables={
        "footer-background": "#f2f3f7",
        "footer-key-foreground": "#2455c3",
        "footer-description-foreground": "#5a6275",
    },
)
THEMES = (DARK, LIGHT)
_STANDARD_DARK = "#55ffff #00aaaa #ff55ff #55ff55 #ffff55 #ff5555 #aaaaaa #000000 #000000 #555555"
_STANDARD_LIGHT = "#0000aa #00aaaa #aa00aa #00aa00 #aa5500 #aa0000 #000000 #ffffff #ffffff #aaaaaa"
"""Colors of a terminal of 16 colors, which would show pastel hues as gray."""


def adapted(theme: Theme, color_system: str | None) -> Theme:
    """Return a theme for a terminal; `color_system` is `truecolor`, `256`, `standard` or None."""
    if color_system == "standard":
        colors = _palette(_STANDARD_DARK if theme.dark else _STANDARD_LIGHT)
        variables = {
            **{f"text-{name}": colors[name] for name in _HUES},
            "footer-background": colors["surface"],
            "footer-key-foreground": colors["primary"],
            "footer-description-foreground": colors["foreground"],
        }
        return replace(theme, **colors, variables=variables)
    if color_system != "256":
        return theme
    # 256 colors would show different surfaces as one.
    grays = ("#121212", "#1c1c1c", "#262626") if theme.dark else ("#ffffff", "#eeeeee", "#e4e4e4")
    background, surface, panel = grays
    variables = {
        **theme.variables,
        "footer-background": surface,
        "scrollbar": "#3a3a3a" if theme.dark else "#bcbcbc",
        "scrollbar-background": background,
        "scrollbar-corner-color": background,
    }
    return replace(theme, background=background, surface=surface, panel=panel, variables=variables)
