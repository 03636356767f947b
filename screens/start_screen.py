"""Screens before a project is open: the start screen and the login form."""

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, Protocol

from rich.table import Table
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from screens.console_screen import KeyFooter, StopWorkersFirst
from screens.dialog import Field, Form, require_filled
from svc_tui.client import SvcError

CODE_WANTED = "the service has no owner yet; `svc serve` printed a claim code when it started"
Claimed = Callable[[str], bool]
"""Returns whether the service at a URL has an owner; raises `SvcError`."""
Enter = Callable[[str, str, str, str | None], str]
"""Logs in with URL, user, password and claim code, and returns the service key; raises `SvcError`."""


class LoginScreen(Form[str]):
    """Asks for URL, user and password; returns the key of the service."""

    TITLE_TEXT: ClassVar[str] = "Log in to a service"
    DONE: ClassVar[str] = "log in"

    def __init__(self, is_claimed: Claimed, log_in: Enter, url: str = "") -> None:
        super().__init__()
        self._is_claimed, self._log_in = is_claimed, log_in
        self._url = url

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
        is_claimed = await asyncio.to_thread(self._is_claimed, url)
        code = self.query_one("#code", Input)
        assert code.parent is not None
        if not is_claimed and not code.value:
            code.parent.display = True
            code.focus()
            require_filled([(f"claim code ({CODE_WANTED})", "")])
        claim = None if is_claimed else code.value.strip()
        return await asyncio.to_thread(self._log_in, url, user, password, claim)


class Choice(NamedTuple):
    """A project: one that was `created` in a folder of its name, or a deployed one."""

    project: str
    created: bool


class StartChoices(Protocol):
    """Actions of the start screen. Methods may block and raise `SvcError`."""

    def templates(self) -> Sequence[tuple[str, str]]: ...

    def create(self, name: str, template: str) -> None:
        """Create a project in the subfolder `name`."""

    def deployed_projects(self) -> tuple[str, Sequence[str]]:
        """Return the key of the current service and its projects; both empty without a session."""
        ...


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
    CreateScreen OptionList { height: auto; max-height: 12; border: none; background: $surface; padding: 0; }
    CreateScreen OptionList:focus { border: none; }
    CreateScreen OptionList { margin-bottom: 1; }
    """

    def __init__(self, choices: StartChoices) -> None:
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
    """The start screen; calls `on_choice` with the result."""

    GROUP: ClassVar[str] = "Start"
    DEFAULT_CSS = """
    StartScreen { align: center middle; }
    StartScreen > Vertical { width: 64; max-width: 96%; height: auto; }
    StartScreen .name { text-style: bold; color: $primary; }
    StartScreen .about { color: $foreground-muted; margin-bottom: 1; }
    StartScreen OptionList {
        height: auto; max-height: 14; border: none; background: $background; padding: 0;
        &:focus { border: none; }
    }
    StartScreen > Vertical > Input { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "create", "Create a project", id="start.new"),
        Binding("l", "login", "Log in", id="start.login"),
        Binding("slash", "search", "Search", id="start.search"),
        Binding("q,escape", "leave", "Quit", id="start.quit"),
    ]

    def __init__(
        self,
        folder: str,
        choices: StartChoices,
        login: Callable[[], Form[str]],
        on_choice: Callable[[Choice], None],
    ) -> None:
        """Create the screen. `folder` is shown to the user; `login` creates the login dialog."""
        super().__init__()
        self._folder, self._choices, self._login, self._on_choice = folder, choices, login, on_choice
        self._service, self._projects = "", list[str]()

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("svc", classes="name")
            yield Static(
                Content(f"Host small web applications from a terminal.\n{self._folder} is not in a project."),
                classes="about",
            )
            yield OptionList(Option("n  create a project here", id="create"), Option(_LOG_IN, id="login"))
            yield Input(placeholder="part of a project's name", compact=True)
        yield KeyFooter()

    def on_mount(self) -> None:
        self._load_deployed()

    def _load_deployed(self) -> None:
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
            self._on_choice(Choice(option_id.removeprefix("open "), created=False))

    def action_create(self) -> None:
        form = CreateScreen(self._choices)
        self.app.push_screen(form, lambda created: created and self._on_choice(created))

    def action_login(self) -> None:
        self.app.push_screen(self._login(), lambda key: self._load_deployed() if key else None)
