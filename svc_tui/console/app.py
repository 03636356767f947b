"""The Console: the full-screen application around its screens; beside them the only module with Textual.

Owns the tabs, the keys that work everywhere, the command line and the palette, and the attachment to an
engine. It is a client of the control API like any other.
"""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, cast

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.message import Message
from textual.screen import Screen

from engine.errors import SvcError
from screens.board.deploy_protocol import Deployer
from screens.board.deploy_screen import DeployScreen
from screens.board.screen import BoardScreen
from screens.command_line import CommandLine
from screens.console_screen import TABS, Command, ConsoleScreen, Tab
from screens.dialog import ConfirmDialog
from screens.help_screen import HelpScreen, binding_group, visible_keys
from screens.login.screen import LoginScreen
from screens.logs.screen import LogsScreen
from screens.project_client import LinkState, ProjectClient
from screens.start.screen import Chosen, Offers, StartScreen
from screens.tables.history import Kept
from screens.tables.screen import TablesScreen
from screens.terminal_app import TerminalApp
from screens.web_driver import BrowserDriver
from svc_tui.console.engine import EngineConnection
from svc_tui.console.preferences import SqlHistory, ThemePreference
from svc_tui.console.start import LoginActions

RECONNECT_SECONDS = 0.5
"""How often an engine that does not answer is looked for."""
MAX_HISTORY = 100
"""Lines of the command line that are remembered."""


class Console(TerminalApp[None]):
    """The Console, attached to one Project."""

    TITLE = "svc"
    GROUP: ClassVar[str] = "Everywhere"
    DEFAULT_MODE = "board"
    CSS = "CommandPalette SearchIcon { display: none; }"  # a picture of its own colours, two cells wide
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "tab('board')", "Board", show=False, id="console.board"),
        Binding("2", "tab('tables')", "Tables", show=False, id="console.tables"),
        Binding("3", "tab('logs')", "Logs", show=False, id="console.logs"),
        Binding("colon", "command_line", "Command line", show=False, key_display=":", id="console.command"),
        Binding("question_mark,f1", "keys", "Keys", key_display="?", id="console.keys"),
        Binding("ctrl+p", "command_palette", "Palette", show=False, priority=True, id="console.palette"),
        Binding("q", "quit", "Quit", id="console.quit"),
        Binding("ctrl+c,ctrl+q", "quit", "Quit", show=False, priority=True, id="console.quit-now"),
    ]

    class Notified(Message):
        """The engine has something to say."""

        def __init__(self, severity: Literal["error", "warning", "information"], text: str) -> None:
            super().__init__()
            self.severity: Literal["error", "warning", "information"] = severity
            self.text = text

    class LinkStateChanged(Message):
        """The engine went or came back."""

        def __init__(self, link: ProjectClient, state: LinkState) -> None:
            super().__init__()
            self.link, self.state = link, state

    def __init__(
        self,
        attachment: EngineConnection,
        entrance: LoginActions,
        keymap: dict[str, str] | None = None,
        deployer: Deployer | None = None,
        statements: Kept | None = None,
        look: ThemePreference | None = None,
    ) -> None:
        """`keymap` has other keys for bindings, by their ids; `deployer` is for deploys from the Board.

        `statements` is where those of SQL stay, `look` where the name of the theme does.
        """
        super().__init__()
        self._theme_preference = look
        if look is not None and (kept := look.read()) in self.available_themes:
            self.theme = kept
        self._engine = attachment
        self._login = entrance
        self._history: list[str] = []
        self._reconnecting = False
        self._client = ProjectClient(attachment.info, attachment.connect, self._on_link_state)
        self.add_mode("board", partial(BoardScreen, self._client, deployer))
        self.add_mode("tables", partial(TablesScreen, self._client, statements))
        self.add_mode("logs", partial(LogsScreen, self._client))
        self.set_keymap(keymap or {})

    # The engine

    def on_mount(self) -> None:
        """Have the engine begin once there is something to look at, and keep the look that is chosen."""
        if (look := self._theme_preference) is not None:
            self.theme_changed_signal.subscribe(self, lambda theme: look.write(theme.name))
        self.call_after_refresh(self._start_engine)

    def on_unmount(self) -> None:
        """Let go of the engine."""
        self._client.shut_down()

    def _start_engine(self) -> None:
        self._engine.start(self._notify_later)
        self._poll_link()
        self.set_interval(RECONNECT_SECONDS, self._poll_link)

    def _poll_link(self) -> None:
        """Look for the engine unless it answers, on a thread: it may take its time."""
        if self._client.state != "live" and not self._reconnecting:
            self._reconnecting = True
            self.run_worker(self._reconnect(), group="link")

    async def _reconnect(self) -> None:
        try:
            await asyncio.to_thread(self._client.reconnect)
        except SvcError as error:
            self._notify_later("error", error.message, error.hint)
        finally:
            self._reconnecting = False

    def _on_link_state(self, state: LinkState) -> None:
        self.post_message(self.LinkStateChanged(self._client, state))

    def on_console_link_state_changed(self, event: LinkStateChanged) -> None:
        """Have every screen show how the engine is."""
        for stack in self._screen_stacks.values():
            for screen in stack:
                if isinstance(screen, ConsoleScreen) and screen.is_mounted:
                    screen.link_changed()

    def _notify_later(
        self, severity: Literal["error", "warning", "information"], message: str, hint: str
    ) -> None:
        self.post_message(self.Notified(severity, f"{message}\n{hint}" if hint else message))

    def on_console_notified(self, event: Notified) -> None:
        """Show what the engine says."""
        timeout = 10 if event.severity == "error" else 5
        self.notify(event.text, severity=event.severity, timeout=timeout, markup=False)

    def on_console_screen_login_required(self) -> None:
        """Ask to log in to the service once more."""
        if self._engine.info.kind == "service" and not isinstance(self.screen, LoginScreen):
            address = self._engine.info.address
            dialogue = LoginScreen(self._login.is_claimed, self._login.log_in, address)
            self.push_screen(dialogue, lambda key: self._client.reset() if key else None)

    def on_deploy_screen_log_in(self, event: DeployScreen.LogIn) -> None:
        """Ask to log in to a service, for a deploy."""
        dialogue = LoginScreen(self._login.is_claimed, self._login.log_in)
        self.push_screen(dialogue, lambda key: event.again() if key else None)

    # Screens

    def action_tab(self, tab: Tab) -> None:
        """Show a tab."""
        self.switch_mode(tab)

    def on_console_screen_open_tab(self, event: ConsoleScreen.OpenTab) -> None:
        """Go where a screen sends one."""
        self._open_tab(event.tab, event.words)

    def _open_tab(self, tab: Tab, words: Sequence[str]) -> None:
        self.switch_mode(tab)
        if words:
            self.call_after_refresh(self._navigate, words)

    def _navigate(self, words: Sequence[str]) -> None:
        screen = cast(ConsoleScreen, self.screen)
        try:
            screen.navigate(words)
        except SvcError as error:
            screen.show_error(error)

    def action_keys(self) -> None:
        """Show the keys that work now."""
        about = self.screen.HELP if isinstance(self.screen, ConsoleScreen) else ""
        self.push_screen(
            HelpScreen(about, visible_keys(self.screen.active_bindings.values(), self.get_key_display))
        )

    # Words

    def _commands(self) -> list[Command]:
        own = self.screen.commands() if isinstance(self.screen, ConsoleScreen) else ()
        tabs = [
            Command(f"{tab} [WORDS]", f"{name}, and there what the words name", partial(self._open_tab, tab))
            for tab, name in TABS.items()
        ]
        return [
            *own,
            *tabs,
            Command("theme NAME", "Another look", self._theme),
            Command("help", "The keys that work now", lambda words: self.action_keys()),
            Command("quit", "Leave the Console", lambda words: self._quit()),
        ]

    def action_command_line(self) -> None:
        """Ask for a line and do what it says."""
        commands = self._commands()

        def done(line: str | None) -> None:
            if line:
                self._history = [*(each for each in self._history if each != line), line][-MAX_HISTORY:]
                self._run(line, commands)

        self.push_screen(CommandLine(commands, self._history), done)

    def _run(self, line: str, commands: Iterable[Command]) -> None:
        try:
            word, *words = shlex.split(line.removeprefix(":"))
        except ValueError:
            self.notify(f"a quote is open in: {line}", severity="error", markup=False)
            return
        found = next((command for command in commands if command.word == word), None)
        if found is None:
            self.notify(f"there is no command {word}", severity="error", markup=False)
            return
        try:
            found.run(words)
        except SvcError as error:
            self.notify(error.text, severity="error", markup=False)

    def _theme(self, words: Sequence[str]) -> None:
        if len(words) != 1 or words[0] not in self.available_themes:
            raise SvcError("there is no such look", f"There are {', '.join(sorted(self.available_themes))}.")
        self.theme = words[0]

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield what the palette has: what keys do now, what commands do, and the toolkit's own."""
        found: dict[str, tuple[Callable[[], Awaitable[bool]], list[str]]] = {}
        for node, binding, enabled, _ in screen.active_bindings.values():
            group = binding_group(node)
            if enabled and binding.id and group not in ("", "Rows") and binding.description:
                does = partial(self.run_action, binding.action, node)
                _, keys = found.setdefault(f"{group}: {binding.description}", (does, []))
                keys.append(self.get_key_display(binding))
        for title, (run_it, keys) in found.items():
            yield SystemCommand(title, " ".join(dict.fromkeys(keys)), run_it)
        yield from super().get_system_commands(screen)

    # Leaving

    def _pending(self) -> int:
        return sum(
            screen.pending
            for stack in self._screen_stacks.values()
            for screen in stack
            if isinstance(screen, ConsoleScreen)
        )

    def on_console_screen_pending_changed(self) -> None:
        """Have a page know that it should ask before it is left."""
        if isinstance(self._driver, BrowserDriver):
            self._driver.send_pending(self._pending())

    async def action_quit(self) -> None:
        """Quit, after a confirmation if edits would be lost."""
        self._quit()

    def _quit(self) -> None:
        pending = self._pending()
        if not pending:
            self.exit()
            return
        edits = "1 edit is" if pending == 1 else f"{pending} edits are"
        question = ConfirmDialog(
            f"{edits} not applied", "Leaving now drops what is pending.", "leave, and drop it"
        )
        self.push_screen(question, lambda yes: self.exit() if yes else None)


def binding_ids() -> frozenset[str]:
    """Return the ids of all keys of the Console, by which a user gives them others."""
    found: set[str] = set()
    kinds: list[type[DOMNode]] = [DOMNode]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.partition(".")[0] in ("screens", "svc_tui"):
            bindings = kind.__dict__.get("BINDINGS", ())
            found |= {each.id for each in bindings if isinstance(each, Binding) and each.id}
    return frozenset(found)


class StartApp(TerminalApp[Chosen]):
    """What one sees outside of any Project."""

    TITLE = "svc"
    GROUP: ClassVar[str] = "Everywhere"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, where: str, offers: Offers, entrance: LoginActions, keymap: dict[str, str]) -> None:
        super().__init__()
        self._where, self._offers, self._entrance = where, offers, entrance
        self.set_keymap(keymap)

    def get_default_screen(self) -> Screen[None]:
        """Return the only screen."""
        return StartScreen(self._where, self._offers, self._login, self.exit)

    def _login(self) -> LoginScreen:
        return LoginScreen(self._entrance.is_claimed, self._entrance.log_in)


class LoginApp(TerminalApp[str]):
    """The dialogue in which one logs in, before there is anything to show."""

    TITLE = "svc"
    GROUP: ClassVar[str] = "Everywhere"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, entrance: LoginActions, keymap: dict[str, str]) -> None:
        super().__init__()
        self._entrance = entrance
        self.set_keymap(keymap)

    def on_mount(self) -> None:
        """Ask."""
        dialogue = LoginScreen(self._entrance.is_claimed, self._entrance.log_in, self._entrance.last_url())
        self.push_screen(dialogue, self.exit)


def log_in(entrance: LoginActions, keymap: dict[str, str]) -> str | None:
    """Ask for a session with a service; return the service's key, or `None` when one leaves."""
    return LoginApp(entrance, keymap).run()


def choose_project(
    where: str, offers: Offers, entrance: LoginActions, keymap: dict[str, str]
) -> Chosen | None:
    """Ask what to do outside of any Project; `None` when one leaves."""
    return StartApp(where, offers, entrance, keymap).run()


def run(
    attachment: EngineConnection,
    entrance: LoginActions,
    keymap: dict[str, str],
    deployer: Deployer,
    home: Path,
) -> None:
    """Show the Console until one leaves it, and end what it began; `home` is the user's own folder of svc."""
    app = Console(attachment, entrance, keymap, deployer, SqlHistory(home), ThemePreference(home))
    try:
        app.run()
    finally:
        attachment.stop()
