"""The Console: the Textual application with tabs, global keys, command line and palette.

Also the screens before a project is open: the start screen and the login form.
"""

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any, ClassVar, NamedTuple

from rich.table import Table
from rich.text import Text
from textual import work
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.errors import SvcError
from engine.manifest.problems import did_you_mean
from screens import overlays
from screens.board.deployment import BoardDeployer
from screens.board.screen import BoardScreen
from screens.console_screen import TABS, ConsoleCommand, ConsoleScreen, KeyFooter, StopWorkersFirst, Tab
from screens.dialog import ConfirmDialog, Field, Form, require_filled
from screens.logs.request_view import RequestView
from screens.logs.screen import LogsScreen
from screens.project_client import ProjectClient
from screens.tables.screen import APPLYING, TablesScreen
from screens.tables.sql_text import TextStore
from screens.terminal_app import BrowserDriver, TerminalApp
from screens.widgets.rows import Tone
from screens.work.screen import FilesScreen, JobsScreen
from svc_tui.console.engine import EngineConnection, Severity
from svc_tui.console.start import SQL_HISTORY_FILE, THEME_FILE, LoginActions, StartActions, UserFile

RECONNECT_SECONDS = 0.5
"""Interval of the attempts to reach an engine that does not answer."""
APPLY_SECONDS = 3.0
"""How long quitting waits for edits that are being applied, before it asks."""
APPLY_CHECK_SECONDS = 0.02
ALERT_SECONDS = 30.0
"""Interval of the requests for alerts of a service."""
ALERT_CHARS = 100
"""Maximum length of the text of an alert in its message; the activity has all of it."""
MAX_HISTORY = 100
"""Maximum number of remembered command lines."""
_TONES: dict[Severity, Tone] = {"information": "", "warning": "warn", "error": "bad"}


class Console(TerminalApp[None]):
    """The Console of one project."""

    DEFAULT_MODE = "board"
    COMMANDS: ClassVar = {overlays.EntryProvider}
    # The icon is an emoji: two cells wide, with colors of its own.
    CSS = """
    CommandPalette {
        background: $background 60%;
        & SearchIcon { display: none; }
        & > Vertical, &:ansi > Vertical {
            visibility: visible; width: 80; max-width: 96%; height: auto; max-height: 90%;
            margin-top: 3; padding: 1 1; background: $surface; border-left: outer $primary;
        }
        & #--input { height: auto; background: $surface; padding-bottom: 1; }
        & #--results { overlay: none; height: auto; background: $surface; }
        & CommandList { max-height: 20; background: $surface; padding: 0; }
        & LoadingIndicator { display: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"tab('{tab}')", name, show=False, id=f"console.{tab}")
            for number, (tab, name) in enumerate(TABS.items(), 1)
        ),
        Binding("colon", "command_line", "Command line", show=False, id="console.command"),
        Binding("question_mark,f1", "keys", "Keys", id="console.keys"),
        Binding("at", "activity", "Activity", show=False, id="console.activity"),
        Binding("ctrl+p", "command_palette", "Palette", show=False, priority=True, id="console.palette"),
        Binding("q", "quit", "Quit", id="console.quit"),
        Binding("ctrl+c,ctrl+q", "quit", "Quit", show=False, priority=True, id="console.quit-now"),
    ]

    def __init__(
        self,
        engine: EngineConnection,
        login: LoginActions | None,
        *,
        keymap: dict[str, str] | None = None,
        deployer: BoardDeployer | None = None,
        sql_history: TextStore | None = None,
        theme_preference: TextStore | None = None,
        downloads: Path | None = None,
    ) -> None:
        """Create the application. `deployer` enables deploys from the Board.

        `sql_history` and `theme_preference` are stored between sessions. `keymap` and `downloads` are those
        of `TerminalApp`.
        """
        super().__init__(keymap, downloads)
        self._theme_preference = theme_preference
        theme = theme_preference.read().strip() if theme_preference is not None else ""
        if theme in self.available_themes:
            self.theme = theme
        self._engine = engine
        self._login_actions = login
        self._history: list[str] = []
        self._alerted: set[tuple[str, str]] = set()
        """Kind and start of the alerts that were shown."""
        self._quit_question: ConfirmDialog | None = None
        on_state = partial(self.call_later, self._update_link_state)
        self._client = ProjectClient(engine.info, engine.connect, on_state)
        self.add_mode("board", partial(BoardScreen, self._client, deployer))
        self.add_mode("tables", partial(TablesScreen, self._client, sql_history))
        self.add_mode("logs", partial(LogsScreen, self._client))
        self.add_mode("jobs", partial(JobsScreen, self._client))
        self.add_mode("files", partial(FilesScreen, self._client))

    def on_mount(self) -> None:
        if (preference := self._theme_preference) is not None:
            self.theme_changed_signal.subscribe(self, lambda theme: preference.write(theme.name))
        self.call_after_refresh(self._start_engine)

    def on_unmount(self) -> None:
        self._client.shut_down()

    def _start_engine(self) -> None:
        self._engine.start(self._notify_later)
        self._poll_link()
        self.set_interval(RECONNECT_SECONDS, self._poll_link)
        self.set_interval(ALERT_SECONDS, self._poll_alerts)

    def _poll_link(self) -> None:
        """Reconnect in the background unless the engine answers."""
        if self._client.state != "live" and not self._is_working("link"):
            self._reconnect()

    @work(group="link")
    async def _reconnect(self) -> None:
        try:
            await asyncio.to_thread(self._client.reconnect)
        except SvcError as error:
            self._notify_later("error", error.message, error.hint)

    def _update_link_state(self) -> None:
        for screen in self._console_screens():
            if screen.is_mounted:
                screen.link_changed()
        self._poll_alerts()

    @work(group="alerts", exclusive=True)
    async def _poll_alerts(self) -> None:
        if self._client.state != "live" or self._client.info.kind != "service":
            return
        with suppress(SvcError):  # The screens show errors, and the next poll may succeed.
            for alert in await self._client.alerts():
                if (key := (alert["kind"], alert["since"])) not in self._alerted:
                    self._alerted.add(key)
                    text = f"alert: {alert['text']}"
                    self._client.activity.add(text, "warn")
                    short = shorten(text, ALERT_CHARS, placeholder=" …")
                    super().notify(f"{short}\n@ shows all", severity="warning", timeout=10, markup=False)

    def _notify_later(self, severity: Severity, message: str, hint: str) -> None:
        text, timeout = f"{message}\n{hint}" if hint else message, 10 if severity == "error" else 5
        self.call_later(self.notify, text, severity=severity, timeout=timeout, markup=False)

    def on_console_screen_login_required(self, event: ConsoleScreen.LoginRequired) -> None:
        login, info, retry = self._login_actions, self._engine.info, event.retry
        if login is None or isinstance(self.screen, LoginScreen):
            return
        if retry is not None:
            self.push_screen(LoginScreen(login), lambda key: retry() if key else None)
        elif info.kind == "service":
            dialog = LoginScreen(login, info.address)
            self.push_screen(dialog, lambda key: self._client.mark_lost() if key else None)

    def action_tab(self, tab: Tab) -> None:
        """Show a tab; close an open request of it."""
        if tab == self.current_mode and isinstance(self.screen, RequestView):
            self.screen.dismiss()
        self.switch_mode(tab)

    def on_console_screen_open_tab(self, event: ConsoleScreen.OpenTab) -> None:
        self._open_tab(event.tab, event.words)

    def _open_tab(self, tab: Tab, words: Sequence[str]) -> None:
        self.switch_mode(tab)
        if words:
            self.call_after_refresh(self._navigate, words)

    def _navigate(self, words: Sequence[str]) -> None:
        while not isinstance(screen := self.screen, ConsoleScreen):
            self.pop_screen()
        with screen.shown_errors():
            screen.navigate(words)

    def notify(self, message: str, *, severity: Severity = "information", **options: Any) -> None:
        """Show a message, and add it to the activity."""
        self._client.activity.add(message, _TONES[severity])
        super().notify(message, severity=severity, **options)

    def action_activity(self) -> None:
        self.push_screen(overlays.ActivityScreen(self._client.activity))

    def action_keys(self) -> None:
        about = self.screen.HELP if isinstance(self.screen, ConsoleScreen) else ""
        bindings = self.screen.active_bindings.values()
        active = [each for each in bindings if self.is_offered(each.binding.action)]
        keys = overlays.visible_keys(active, self.get_key_display, overlays.binding_group(self.screen))
        self.push_screen(overlays.HelpScreen(about, keys))

    def _commands(self, screen: Screen[Any]) -> list[ConsoleCommand]:
        tabs = [
            ConsoleCommand(
                f"{tab} [WORDS]",
                f"Open {name}; WORDS select what it shows",
                partial(self._open_tab, tab),
                self._client.known_tables if tab == "tables" else (),
            )
            for tab, name in TABS.items()
        ]
        return [
            *(screen.commands() if isinstance(screen, ConsoleScreen) else ()),
            *tabs,
            ConsoleCommand("theme NAME", "Change the theme", self._theme, sorted(self.available_themes)),
            ConsoleCommand("help", "Show the keys that work now", lambda words: self.action_keys()),
            ConsoleCommand("quit", "Quit the Console", lambda words: self._quit()),
        ]

    def action_command_line(self, text: str = "") -> None:
        """Ask for a command, with a text to edit, and run it. A line with an error stays open."""
        commands = self._commands(self.screen)

        def run_line(line: str | None) -> None:
            if line:
                others = [other for other in self._history if other != line]
                self._history = [*others, line][-MAX_HISTORY:]
                self._run(line, commands)

        self.push_screen(overlays.CommandLine(commands, self._history, text), run_line)

    def _run(self, line: str, commands: Sequence[ConsoleCommand]) -> None:
        try:
            word, *words = shlex.split(line.removeprefix(":"))
            _command(word, commands).run(words)
        except (ValueError, SvcError) as error:
            text = error.text if isinstance(error, SvcError) else f"unclosed quote in: {line}"
            self.notify(text, severity="error", markup=False)
            self.action_command_line(line)

    def _theme(self, words: Sequence[str]) -> None:
        if (name := " ".join(words)) not in self.available_themes:
            hint = f"Available: {', '.join(sorted(self.available_themes))}."
            raise SvcError(f'unknown theme "{name}"', hint)
        self.theme = name

    def get_system_commands(self, screen: Screen[Any]) -> Iterator[SystemCommand]:
        """Yield the entries of the palette: actions with their keys, then commands with their values."""
        first = overlays.binding_group(screen)
        active = [
            each
            for each in screen.active_bindings.values()
            if each.enabled and each.binding.id and self.is_offered(each.binding.action)
        ]
        active.sort(key=lambda each: (overlays.binding_group(each.node) != first, overlays.by_use(each)))
        rows: dict[str, tuple[Callable[[], Awaitable[bool]], list[str]]] = {}
        for node, binding, *_ in active:
            hidden = overlays.is_movement(binding) or binding.action == "command_palette"
            if binding.description and not hidden:
                action = partial(self.run_action, binding.action, node)
                rows.setdefault(binding.description, (action, []))[1].append(self.get_key_display(binding))
        for title, (run, keys) in rows.items():
            yield SystemCommand(title, " ".join(dict.fromkeys(keys)), run)
        yield SystemCommand("Theme", "", partial(self.action_command_line, "theme "))
        for command in self._commands(screen):
            for value in command.values if command.word != "theme" else ():
                yield SystemCommand(f"{command.word} {value}", "", partial(command.run, [value]))

    def _console_screens(self) -> Iterator[ConsoleScreen]:
        for stack in self._screen_stacks.values():
            yield from (screen for screen in stack if isinstance(screen, ConsoleScreen))

    def _pending(self) -> int:
        return sum(screen.pending for screen in self._console_screens())

    def on_console_screen_pending_changed(self) -> None:
        if isinstance(self._driver, BrowserDriver):
            self._driver.write_meta({"type": "pending", "edits": self._pending()})

    async def action_quit(self) -> None:
        """Quit, after a confirmation if edits would be lost."""
        self._quit()

    def _quit(self) -> None:
        """Quit, or ask. A second request while the question is open quits."""
        if self._quit_question in self.screen_stack:
            self.exit()
        elif not self._is_working("quit"):
            self._ask_to_quit()

    @work(group="quit")
    async def _ask_to_quit(self) -> None:
        """Quit once edits are applied, or ask if some stay pending until a timeout."""
        end = time.monotonic() + APPLY_SECONDS
        while self._is_working(APPLYING) and time.monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(APPLY_CHECK_SECONDS)
        if not (pending := self._pending()):
            self.exit()
            return
        edits = "1 edit is" if pending == 1 else f"{pending} edits are"
        text = "If you quit now, pending edits are lost."
        question = self._quit_question = ConfirmDialog(f"{edits} not applied", text, "quit and discard")
        self.push_screen(question, lambda yes: self.exit() if yes else None)
        while self.screen is question and self._is_working(APPLYING):  # noqa: ASYNC110
            await asyncio.sleep(APPLY_CHECK_SECONDS)
        if self.screen is question and not self._pending():
            self.exit()

    def _is_working(self, group: str) -> bool:
        return any(worker.group == group and not worker.is_finished for worker in self.workers)


def _command(word: str, commands: Sequence[ConsoleCommand]) -> ConsoleCommand:
    """Return the command of a name or of its unambiguous beginning. Raises `SvcError`."""
    by_word = {command.word: command for command in commands}
    matching = [name for name in by_word if name.startswith(word)]
    if word in by_word or len(matching) == 1:
        return by_word[word if word in by_word else matching[0]]
    if matching:
        raise SvcError(f'ambiguous command "{word}"', f"Available: {', '.join(matching)}.")
    raise SvcError(f'unknown command "{word}"', did_you_mean(word, list(by_word)))


def binding_ids() -> frozenset[str]:
    """Return the ids of all key bindings of the Console, as `keys.toml` names them."""
    ids: set[str] = set()
    classes: list[type[DOMNode]] = [DOMNode]
    while classes:
        node_class = classes.pop()
        classes += node_class.__subclasses__()
        if node_class.__module__.partition(".")[0] in ("screens", "svc_tui"):
            bindings = node_class.__dict__.get("BINDINGS", ())
            ids |= {binding.id for binding in bindings if isinstance(binding, Binding) and binding.id}
    return frozenset(ids)


CODE_WANTED = "the service has no owner yet; `svc serve` printed a claim code when it started"


class LoginScreen(Form[str]):
    """Asks for URL, user and password; returns the key of the service."""

    TITLE_TEXT: ClassVar[str] = "Log in to a service"
    DONE: ClassVar[str] = "log in"

    def __init__(self, login: LoginActions, url: str = "") -> None:
        super().__init__()
        self._login, self._url = login, url

    def fields(self) -> ComposeResult:
        """Yield the fields; the claim code is hidden until it is needed."""
        yield Field("address", "url", self._url, example="https://control.example.com")
        yield Field("user name", "user")
        yield Field("password", "password", secret=True)
        code = Field("claim code", "code")
        code.display = False
        yield code

    def on_mount(self) -> None:
        for field in self.query(Input):
            if not field.value:
                field.focus()
                return

    async def submit(self) -> str:
        """Log in. Show the claim code field if the service has no owner."""
        url, user, password = self.value("url").strip(), self.value("user").strip(), self.value("password")
        require_filled([("address", url), ("user name", user), ("password", password)])
        is_claimed = await asyncio.to_thread(self._login.is_claimed, url)
        code = self.query_one("#code", Input)
        assert code.parent is not None
        if not is_claimed and not code.value:
            code.parent.display = True
            code.focus()
            require_filled([(f"claim code ({CODE_WANTED})", "")])
        claim = None if is_claimed else code.value.strip()
        return await asyncio.to_thread(self._login.log_in, url, user, password, claim)


class Choice(NamedTuple):
    """A project: one that was `created` in a folder of its name, or a deployed one."""

    project: str
    created: bool


def _template_row(name: str, about: str, width: int) -> Table:
    """Return a name and a description, which wraps in a column of its own."""
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(style="bold", width=width, no_wrap=True)
    row.add_column(style="dim")
    row.add_row(Text(name), Text(about))
    return row


class CreateScreen(Form[Choice]):
    """Asks for name and template of a new project."""

    TITLE_TEXT: ClassVar[str] = "Create a project"
    DONE: ClassVar[str] = "create and open"
    DEFAULT_CSS = """
    CreateScreen OptionList { max-height: 12; padding: 0; margin-bottom: 1; }
    """

    def __init__(self, choices: StartActions) -> None:
        super().__init__()
        self._choices = choices

    def fields(self) -> ComposeResult:
        """Yield the name and the templates."""
        yield Field("name", "name", example="shop")
        templates = self._choices.templates()
        width = max(len(name) for name, _ in templates)
        yield OptionList(*(Option(_template_row(name, about, width), id=name) for name, about in templates))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.action_submit()

    async def submit(self) -> Choice:
        """Create the project."""
        options = self.query_one(OptionList)
        name = self.value("name").strip()
        template = str(options.get_option_at_index(options.highlighted or 0).id)
        await asyncio.to_thread(self._choices.create, name, template)
        return Choice(name, created=True)


_LOG_IN = "l  log in to a service"


class StartScreen(StopWorkersFirst, Screen[None]):
    """The start screen; exits the application with the choice."""

    GROUP: ClassVar[str] = "Start"
    DEFAULT_CSS = """
    StartScreen { align: center middle; }
    StartScreen > Vertical { width: 64; max-width: 96%; height: auto; }
    StartScreen .name { text-style: bold; color: $primary; }
    StartScreen .about { color: $foreground-muted; margin-bottom: 1; }
    StartScreen OptionList { max-height: 14; background: $background; padding: 0; }
    StartScreen > Vertical > Input { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "create", "Create a project", id="start.new"),
        Binding("l", "login", "Log in", id="start.login"),
        Binding("slash", "search", "Search", id="start.search"),
        Binding("q,escape", "leave", "Quit", id="start.quit"),
    ]

    def __init__(self, folder: str, choices: StartActions, login: LoginActions) -> None:
        """Create the screen. `folder` is shown to the user."""
        super().__init__()
        self._folder, self._choices, self._login = folder, choices, login
        self._service, self._projects = "", list[str]()

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("svc", classes="name")
            about = f"Host small web applications from a terminal.\n{self._folder} is not in a project."
            yield Static(Content(about), classes="about")
            yield OptionList(Option("n  create a project here", id="create"), Option(_LOG_IN, id="login"))
            yield Input(placeholder="part of a project's name", compact=True)
        yield KeyFooter()

    def on_mount(self) -> None:
        self._fetch_deployed()

    @work(exclusive=True)
    async def _fetch_deployed(self) -> None:
        try:
            service, projects = await asyncio.to_thread(self._choices.deployed_projects)
        except SvcError as error:
            if error.code != "unreachable":
                self.notify(error.message, severity="warning", markup=False)
                return
            about = Content.from_markup(f"{_LOG_IN}  [dim]the last one does not answer[/]")
            self.query_one(OptionList).replace_option_prompt("login", about)
            return
        self._service, self._projects = service, list(projects)
        self._list_projects(self.query_one(Input).value)

    def _list_projects(self, part: str) -> None:
        options, text = self.query_one(OptionList), "   open [b]$project[/]  [dim]$at[/]"
        projects = [
            Option(Content.from_markup(text, project=project, at=self._service), id=f"open {project}")
            for project in self._projects
            if part.lower() in project
        ]
        options.set_options([*options.options[:2], *projects])
        options.highlighted = 2 if part and projects else 0

    def action_search(self) -> None:
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def action_leave(self) -> None:
        field = self.query_one(Input)
        if not field.display:
            self.app.exit()
        field.value, field.display = "", False
        self.query_one(OptionList).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._list_projects(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if (options := self.query_one(OptionList)).highlighted:
            options.action_select()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        option_id = str(event.option.id)
        if option_id == "create":
            self.action_create()
        elif option_id == "login":
            self.action_login()
        else:
            self.app.exit(Choice(option_id.removeprefix("open "), created=False))

    def action_create(self) -> None:
        form = CreateScreen(self._choices)
        self.app.push_screen(form, lambda created: self.app.exit(created) if created else None)

    def action_login(self) -> None:
        self.app.push_screen(LoginScreen(self._login), lambda key: self.on_mount() if key else None)


class StartApp(TerminalApp[Choice]):
    """The start screen, shown outside of any project. Returns the user's choice, or None to quit."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self, folder: str, choices: StartActions, login: LoginActions, keymap: dict[str, str]
    ) -> None:
        super().__init__(keymap)
        self._first = partial(StartScreen, folder, choices, login)

    def get_default_screen(self) -> Screen[None]:
        return self._first()


class LoginApp(TerminalApp[str]):
    """The login dialog, shown before the Console without a session. Returns the service's key, or None."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, login: LoginActions, keymap: dict[str, str]) -> None:
        super().__init__(keymap)
        self._login_actions = login

    def on_mount(self) -> None:
        self.push_screen(LoginScreen(self._login_actions, self._login_actions.last_url()), self.exit)


def run(
    engine: EngineConnection,
    login: LoginActions | None,
    keymap: dict[str, str],
    deployer: BoardDeployer,
    home: Path | None,
    downloads: Path | None = None,
) -> None:
    """Run the Console until the user quits, then stop its engine.

    `home` is the user's svc directory. A Console at a service has neither login nor home, but `downloads`.
    """
    app = Console(
        engine,
        login,
        keymap=keymap,
        deployer=deployer,
        sql_history=UserFile(home / SQL_HISTORY_FILE) if home else None,
        theme_preference=UserFile(home / THEME_FILE) if home else None,
        downloads=downloads,
    )
    try:
        app.run()
    finally:
        engine.stop()
