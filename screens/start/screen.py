"""The first screen outside of any Project: what can be made, and what is there to open."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from screens.console_screen import StopWorkersFirst
from screens.form import Field, Form
from svc_tui.client import SvcError


@dataclass(frozen=True, slots=True)
class Made:
    """A Project was made in a folder of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Opened:
    """A Project of a service is to be shown."""

    project: str


Chosen = Made | Opened


class Offers(Protocol):
    """What there is to choose from. Methods may take their time, and raise `SvcError`."""

    def templates(self) -> Sequence[tuple[str, str]]:
        """Return templates by name, and what each is."""
        ...

    def create(self, name: str, template: str) -> None:
        """Make a Project in the folder `name` of this one."""

    def deployed_projects(self) -> tuple[str, Sequence[str]]:
        """Return the service that one is logged in to, and its Projects; empty where one is not."""
        ...


class MakeScreen(Form[Made]):
    """Asks for the name and the template of a Project."""

    TITLE_TEXT: ClassVar[str] = "Make a Project"
    DONE: ClassVar[str] = "make it and open it"
    DEFAULT_CSS = """
    MakeScreen OptionList { height: auto; max-height: 12; border: none; background: $surface; padding: 0; }
    MakeScreen OptionList:focus { border: none; }
    MakeScreen OptionList { margin-bottom: 1; }
    """

    def __init__(self, offers: Offers) -> None:
        super().__init__()
        self._offers = offers

    def fields(self) -> ComposeResult:
        """Yield the name and the templates."""
        yield Field("name", "name", example="shop")
        templates = self._offers.templates()
        width = max(len(name) for name, _ in templates)
        yield OptionList(
            *(
                Option(
                    Content.from_markup("[b]$name[/]  [dim]$about[/]", name=name.ljust(width), about=about),
                    id=name,
                )
                for name, about in templates
            )
        )

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take the template, and make it."""
        self.action_submit()

    async def submit(self) -> Made:
        """Make it."""
        options = self.query_one(OptionList)
        name = self.value("name").strip()
        template = str(options.get_option_at_index(options.highlighted or 0).id)
        await asyncio.to_thread(self._offers.create, name, template)
        return Made(name)


class StartScreen(StopWorkersFirst, Screen[None]):
    """Make a Project, open one of a service, or log in; `chosen` hears which."""

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
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "make", "Make a Project", id="start.new"),
        Binding("l", "login", "Log in", id="start.login"),
        Binding("q,escape", "app.quit", "Quit", id="start.quit"),
    ]

    def __init__(
        self, where: str, offers: Offers, login: Callable[[], Form[str]], chosen: Callable[[Chosen], None]
    ) -> None:
        """`where` is the folder, as the user knows it; `login` makes the dialogue for that."""
        super().__init__()
        self._where, self._offers, self._login, self._chosen = where, offers, login, chosen

    def compose(self) -> ComposeResult:
        """Place the words and the list."""
        with Vertical():
            yield Static("svc", classes="name")
            yield Static(
                Content(
                    f"Host small web applications from a terminal.\nThere is no Project in {self._where}."
                ),
                classes="about",
            )
            yield OptionList(
                Option("n  make a Project here", id="make"), Option("l  log in to a service", id="login")
            )
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """See what a service has."""
        self._look()

    def _look(self) -> None:
        self.run_worker(self._see(), exclusive=True)

    async def _see(self) -> None:
        try:
            service, projects = await asyncio.to_thread(self._offers.deployed_projects)
        except SvcError as error:
            self.notify(error.message, severity="warning", markup=False)
            return
        options = self.query_one(OptionList)
        for project in projects:
            name = f"open {project}"
            if name not in options._id_to_option:
                text = Content.from_markup("   open [b]$project[/]  [dim]$at[/]", project=project, at=service)
                options.add_option(Option(text, id=name))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Do what was chosen."""
        chosen = str(event.option.id)
        if chosen == "make":
            self.action_make()
        elif chosen == "login":
            self.action_login()
        else:
            self._chosen(Opened(chosen.removeprefix("open ")))

    def action_make(self) -> None:
        """Ask what to make."""
        self.app.push_screen(MakeScreen(self._offers), lambda made: made and self._chosen(made))

    def action_login(self) -> None:
        """Ask how to log in, and show what there is then."""
        self.app.push_screen(self._login(), lambda key: self._look() if key else None)
