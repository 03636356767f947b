"""Base class of the Console's screens: top line, banner, key footer, error display, and opening of URLs."""

import asyncio
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from rich.cells import cell_len
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.messages import Prune
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Static
from textual.widgets._footer import FooterKey
from textual.worker import Worker, WorkerError

from screens.project_client import LinkState, ProjectClient
from screens.terminal_app import TerminalApp
from screens.widgets.virtual_list import VirtualRows
from svc_tui.client import SvcError

LAST_KEYS = 2
"""Number of keys at the end that are always shown: help and quit, or back."""
SHORT_CELLS = 70
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
        app, self._room = self.app, self.size.width
        keys = [
            key
            for key in super().compose()
            if isinstance(key, FooterKey) and (not isinstance(app, TerminalApp) or app.is_offered(key.action))
        ]
        narrow = self._room < SHORT_CELLS
        self.set_class(narrow, "-narrow")
        gap = 1 if narrow else 2
        cells = [cell_len(f"{key.key_display} {key.description}") + gap for key in keys]
        while len(keys) > LAST_KEYS and sum(cells) - gap > self._room:
            del keys[-LAST_KEYS - 1], cells[-LAST_KEYS - 1]
        yield from keys

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Show the keys that work now, also while the terminal or the web page does not have the focus."""
        self._bindings_ready = True
        if self.is_attached and screen is self.screen:
            self.call_after_refresh(self.recompose)

    def on_resize(self) -> None:
        if self.size.width != self._room:
            self.call_after_refresh(self.recompose)


async def open_in_browser(app: App[Any], address: str) -> None:
    """Open a URL; a terminal browser suspends the Console. Raises `SvcError` if there is no browser."""
    if app.is_web:
        app.open_url(address)
        return
    try:
        browser = await asyncio.to_thread(webbrowser.get)
        takes_terminal = isinstance(browser, webbrowser.GenericBrowser) and not isinstance(
            browser, webbrowser.BackgroundBrowser
        )
        if not takes_terminal:
            await asyncio.to_thread(browser.open, address)
            return
        with app.suspend():
            browser.open(address)
    except (webbrowser.Error, SuspendNotSupported) as error:
        raise SvcError(f"cannot open {address}: no browser found", "Press y to copy the address.") from error


Tab = Literal["board", "tables", "logs", "jobs", "files"]
TABS: dict[Tab, str] = {tab: tab.capitalize() for tab in get_args(Tab)}
_STATES: dict[LinkState, tuple[str, str]] = {
    "starting": ("◌ starting", "$text-warning"),
    "live": ("● live", "$text-success"),
    "lost": ("○ lost, reconnecting", "$text-error"),
}
_CHIP = "[b $background on $primary]"
"""The style of the current tab."""
WIDE_CELLS = 116
"""Minimum screen width for showing the palette's key in the top line."""


@dataclass(frozen=True, slots=True)
class ConsoleCommand:
    """A command of the command line.

    `usage` is its name and arguments, as in `logs [FILTER…]`. `run` receives the arguments and raises
    `SvcError` if they are invalid.
    """

    usage: str
    summary: str
    run: Callable[[Sequence[str]], None]
    values: Sequence[str] = ()
    """Possible values of the first argument, for completion."""

    @property
    def word(self) -> str:
        return self.usage.split()[0]


def is_working(widget: Widget, group: str) -> bool:
    """Return whether a worker of a group of this widget is not finished."""
    workers = (each for each in widget.workers if each.node is widget and each.group == group)
    return not all(each.is_finished for each in workers)


class StopWorkersFirst(Widget):
    """A screen that ends its workers before its widgets are removed, and starts none after that.

    Textual removes the widgets first. A worker that is still running would query widgets that no longer
    exist.
    """

    _is_ending = False

    def run_worker(self, *work: Any, **options: Any) -> Worker[Any]:
        """Start a worker, which is canceled at once while the screen ends."""
        worker = super().run_worker(*work, **options)
        if self._is_ending:
            worker.cancel()
        return worker

    async def on_prune(self, event: Prune) -> None:
        """End the workers. Textual runs the handler of the base class after this one.

        A worker may continue for a few steps: `wait_for` of Python 3.11 loses a cancellation when its work is
        done.
        """
        self._is_ending = True
        for worker in self.workers.cancel_node(self):
            with suppress(WorkerError):
                await worker.wait()


class ConsoleScreen(StopWorkersFirst, Screen[None]):
    """A tab of the Console, or a screen pushed over one. Subclasses yield their widgets in `body`."""

    DEFAULT_CSS = """
    ConsoleScreen { background: $background; }
    ConsoleScreen #banner {
        display: none; height: auto; max-height: 4; padding: 0 1;
        background: $error-muted; color: $text-error;
    }
    ConsoleScreen #top { height: 1; background: $panel; }
    ConsoleScreen #where { width: 1fr; height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    ConsoleScreen #tabs { width: auto; height: 1; link-style: none; link-color: $foreground; }
    """
    TAB: ClassVar[Tab]
    GROUP: ClassVar[str] = ""
    """The heading of the screen's keys in the help."""
    HELP: ClassVar[str] = ""
    """The description of the screen, shown above the keys in the help."""

    class OpenTab(Message):
        """A request to open a tab, with arguments as in the command line: `tables`, `users`."""

        def __init__(self, tab: Tab, *words: str) -> None:
            super().__init__()
            self.tab: Tab = tab
            self.words = words

    class LoginRequired(Message):
        """The service rejected the session, which has expired or was revoked; or the user wants to log in.

        `retry` is called after the login. Without it, the Console connects again.
        """

        def __init__(self, retry: Callable[[], Any] | None = None) -> None:
            super().__init__()
            self.retry = retry

    class PendingChanged(Message):
        """The number of pending edits changed."""

    banner = reactive("", init=False)
    """A persistent error above the body; "" hides it."""
    pending = reactive(0, init=False)
    """The number of edits that would be lost by quitting."""

    def __init__(self, client: ProjectClient) -> None:
        super().__init__()
        self.client = client

    def compose(self) -> ComposeResult:
        with Horizontal(id="top"):
            yield Static(id="where")
            yield Static(id="tabs")
        yield Static(id="banner")
        yield from self.body()
        yield KeyFooter()

    def body(self) -> ComposeResult:
        raise NotImplementedError

    @property
    def rows(self) -> VirtualRows:
        """The list of the screen, if it has one."""
        return self.query_one(VirtualRows)

    def commands(self) -> Sequence[ConsoleCommand]:
        """Return the commands of this screen, in addition to the global ones."""
        return ()

    def navigate(self, words: Sequence[str]) -> None:
        """Show what the arguments of a command select, as in `:tables users`. Raises `SvcError`."""

    def on_mount(self) -> None:
        self.update_top()
        if self.client.state == "live":
            self.engine_connected()

    def on_resize(self) -> None:
        self.update_top()

    def update_top(self) -> None:
        """Show project, mode, state and tabs; all but the state are shortened to fit."""
        width, info = self.size.width, self.client.info
        text, tone = _STATES[self.client.state]
        key = "   [dim @click=app.command_palette]ctrl+p palette[/]" if width >= WIDE_CELLS else ""
        tabs = Content.from_markup(f"{self._tabs(short=False)}{key} ")
        room = width - cell_len(f" svc   ─ {info.kind} ")
        if cell_len(info.project + text) + tabs.cell_length > room:
            tabs = Content.from_markup(self._tabs(short=True))
        if cell_len(info.project + text) + tabs.cell_length > room:
            text = text.partition(",")[0]
        room -= cell_len(text) + tabs.cell_length
        project = Content(info.project).truncate(max(room, 1), ellipsis=True).plain
        address = f" {info.address}" if info.address else ""
        if cell_len(project + address) > room:
            address = ""
        markup = f" [b]svc[/b]  [b $primary]$project[/] [dim]─ {info.kind}$address[/] [{tone}]{text}[/]"
        content = Content.from_markup(markup, project=project, address=address)
        self.query_one("#where", Static).update(content)
        self.query_one("#tabs", Static).update(tabs)

    def _tabs(self, *, short: bool) -> str:
        """Return the markup of the tabs; `short` omits the names of those that are not shown."""
        return "".join(
            f"{_CHIP} {number} {name} [/]"
            if tab == self.TAB
            else f"[@click=app.tab('{tab}')][dim] {number}{'' if short else f' {name} '}[/][/]"
            for number, (tab, name) in enumerate(TABS.items(), 1)
        )

    def engine_connected(self) -> None:
        """Load or reload the screen. Called when the engine answers, possibly another engine than before."""

    def link_changed(self) -> None:
        """Update to the state of the connection. The application calls this on each change."""
        self.update_top()
        if self.client.state == "live":
            self.engine_connected()

    def show_error(self, error: SvcError) -> None:
        """Show an error and its hint."""
        if error.code == "unauthenticated":
            self.post_message(self.LoginRequired())
        self.notify(error.text, severity="error", timeout=10, markup=False)

    def run_worker(self, work: Any, *arguments: Any, **options: Any) -> Worker[Any]:
        """Start a worker, which shows an error that its work raises."""

        async def run() -> Any:
            with self.shown_errors():
                return await (work() if callable(work) else work)

        return super().run_worker(run, *arguments, **options)

    @contextmanager
    def shown_errors(self) -> Iterator[None]:
        """Show an error that the block raises, and suppress it."""
        try:
            yield
        except SvcError as error:
            self.show_error(error)

    def watch_pending(self) -> None:
        self.post_message(self.PendingChanged())

    def watch_banner(self, banner: str) -> None:
        line = self.query_one("#banner", Static)
        line.update(Content(banner))
        line.display = bool(banner)
