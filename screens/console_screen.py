"""What the screens of the Console have in common: the line at the top, the banner, the keys at the foot.

Owns how a screen tells that something failed, and what the Console may ask of a screen. A screen owns its
body and nothing of the engine: it asks over its `Link`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.messages import Prune
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Static

from screens.project_client import LinkState, ProjectClient
from svc_tui.client import SvcError

Tab = Literal["board", "tables", "logs"]
TABS: dict[Tab, str] = {"board": "Board", "tables": "Tables", "logs": "Logs"}
_STATES: dict[LinkState, tuple[str, str]] = {
    "starting": ("◌ starting", "$text-warning"),
    "live": ("● live", "$text-success"),
    "lost": ("○ lost, trying again", "$text-error"),
}
WIDE_CELLS = 96
"""Cells from which the top line has room for the address and the palette's key."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line, and an entry of the palette where it takes no words.

    `usage` is the word and what follows it (`logs [FILTER…]`); `run` gets the words after the first, and
    raises `SvcError` for those that mean nothing.
    """

    usage: str
    summary: str
    run: Callable[[Sequence[str]], None]

    @property
    def word(self) -> str:
        """The word that calls it."""
        return self.usage.split()[0]


class StopWorkersFirst(Widget):
    """A screen that ends its workers when it is asked to go.

    A screen's parts go before the screen itself does, and a worker that lived until then would look for them.
    """

    async def on_prune(self, event: Prune) -> None:
        """End what is going on here; Textual runs the base's own handler after this one."""
        self.workers.cancel_node(self)


class TopBar(Horizontal):
    """Where one is: the Project, how it runs and whether it answers; and the tabs."""

    DEFAULT_CSS = """
    TopBar { height: 1; background: $panel; }
    TopBar #where { width: 1fr; height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    TopBar #tabs { width: auto; height: 1; link-style: none; link-color: $foreground; }
    """

    def __init__(self, link: ProjectClient, tab: Tab) -> None:
        super().__init__()
        self._client = link
        self._tab = tab

    def compose(self) -> ComposeResult:
        """Place the two halves."""
        yield Static(id="where")
        yield Static(id="tabs")

    def on_mount(self) -> None:
        """Show it all for the first time."""
        self.update_status()

    def on_resize(self) -> None:
        """Leave out what has no room."""
        self.update_status()

    def update_status(self) -> None:
        """Show the state as it is now."""
        wide = self.size.width >= WIDE_CELLS
        place = self._client.info
        text, tone = _STATES[self._client.state]
        address = f" {place.address}" if wide and place.address else ""
        where = f" [b]svc[/b]  [b $primary]$project[/] [dim]─ {place.kind}$address[/] [{tone}]{text}[/]"
        tabs = "  ".join(
            f"[@click=app.tab('{tab}')]{'[b $primary]' if tab == self._tab else '[dim]'}{number} {name}[/][/]"
            for number, (tab, name) in enumerate(TABS.items(), 1)
        )
        key = "    [dim @click=app.command_palette]ctrl+p[/]" if wide else ""
        self.query_one("#where", Static).update(self._content(where, project=place.project, address=address))
        self.query_one("#tabs", Static).update(self._content(f"{tabs}{key} "))

    @staticmethod
    def _content(markup: str, **values: str) -> Content:
        return Content.from_markup(markup, **values)


class ConsoleScreen(StopWorkersFirst, Screen[None]):
    """One tab of the Console. A screen says what is in its `body`, and overrides what it has to say."""

    DEFAULT_CSS = """
    ConsoleScreen { background: $background; }
    ConsoleScreen #banner {
        display: none; height: auto; max-height: 4; padding: 0 1;
        background: $error-muted; color: $text-error;
    }
    """
    TAB: ClassVar[Tab]
    GROUP: ClassVar[str] = ""
    """What the screen's keys are listed under: its name."""
    HELP: ClassVar[str] = ""
    """What the screen is for, in a few lines, above the keys that `?` shows."""

    class OpenTab(Message):
        """Another tab is wanted, at what words of the command line name: `tables`, `users`."""

        def __init__(self, tab: Tab, *words: str) -> None:
            super().__init__()
            self.tab: Tab = tab
            self.words = words

    class LoginRequired(Message):
        """The service knows nobody any more who asks with this session."""

    class PendingChanged(Message):
        """Other edits are pending than before."""

    banner = reactive("", init=False)
    """What is wrong and stays so, above the body; empty when nothing is."""
    pending = reactive(0, init=False)
    """How many edits would be lost by leaving."""

    def __init__(self, link: ProjectClient) -> None:
        super().__init__()
        self.client = link

    def compose(self) -> ComposeResult:
        """Place the top line, the banner, the body and the keys."""
        yield TopBar(self.client, self.TAB)
        yield Static(id="banner")
        yield from self.body()
        yield Footer(compact=True, show_command_palette=False)

    def body(self) -> ComposeResult:
        """Yield what the screen is about."""
        raise NotImplementedError

    def commands(self) -> Sequence[Command]:
        """Return the commands that work here, besides those that work everywhere."""
        return ()

    def navigate(self, words: Sequence[str]) -> None:
        """Go where the words of the command line say: `:tables users`. Raises `SvcError`."""

    def on_mount(self) -> None:
        """Begin, where the engine answers already."""
        if self.client.state == "live":
            self.engine_connected()

    def engine_connected(self) -> None:
        """Begin, or take up again what was interrupted: the engine answers, perhaps another than before."""

    def link_changed(self) -> None:
        """Show how the engine is; the app says so when that changes."""
        self.query_one(TopBar).update_status()
        if self.client.state == "live":
            self.engine_connected()

    def show_error(self, error: SvcError) -> None:
        """Say that something failed, and what to do next."""
        if error.code == "unauthenticated":
            self.post_message(self.LoginRequired())
        self.notify(error.text, severity="error", timeout=10, markup=False)

    def watch_pending(self) -> None:
        """Say so."""
        self.post_message(self.PendingChanged())

    def watch_banner(self, banner: str) -> None:
        """Show the banner, or take it away."""
        line = self.query_one("#banner", Static)
        line.update(Content(banner))
        line.display = bool(banner)
