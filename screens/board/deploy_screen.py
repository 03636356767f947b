"""A deploy from the Board: its plan on the screen, then, by another key, its steps to the end.

Owns the phases and the keys. What a deploy is, its `Deployer` knows; how it reads, `course.py`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Input, Static

from screens.board.deploy_log import Course
from screens.board.deploy_protocol import Deployer, Live, Progress
from screens.board.details_panel import Answer, Sheet
from screens.console_screen import ConsoleScreen, Tab
from screens.project_client import ProjectClient
from screens.widgets.content import to_content
from svc_tui.client import SvcError


class DeployScreen(ConsoleScreen):
    """Builds and plans at once; nothing is asked of the service but what would change."""

    TAB: ClassVar[Tab] = "board"
    GROUP: ClassVar[str] = "Deploy"
    HELP: ClassVar[str] = (
        "A deploy builds every Resource and shows what would change; enter has all of it go live at once.\n"
        "Until the service is at it, esc breaks it off."
    )
    DEFAULT_CSS = """
    DeployScreen VerticalScroll { height: 1fr; padding: 1 2; scrollbar-size-vertical: 1; }
    DeployScreen #course { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go_live", "Deploy", id="deploy.go"),
        Binding("m", "message", "Message", id="deploy.message"),
        Binding("A", "allow", "Allow new capabilities", id="deploy.allow"),
        Binding("r", "plan", "Plan again", id="deploy.plan"),
        Binding("ctrl+l", "log_in", "Log in", id="deploy.log-in"),
        Binding("escape", "back", "Back", id="deploy.back"),
        Binding("pagedown,ctrl+f,j,down", "page(1)", "Scroll down", show=False, id="deploy.page-down"),
        Binding("pageup,ctrl+b,k,up", "page(-1)", "Scroll up", show=False, id="deploy.page-up"),
    ]

    class Told(Message):
        """The deploy goes on."""

        def __init__(self, progress: Progress) -> None:
            super().__init__()
            self.progress = progress

    class LogIn(Message):
        """Somebody has to log in to a service first; `again` is what is to be done then."""

        def __init__(self, again: Callable[[], None]) -> None:
            super().__init__()
            self.again = again

    def __init__(self, link: ProjectClient, deployer: Deployer, unwritten: int = 0) -> None:
        """`unwritten` is how many edits of svc.toml will not be deployed, since they are not in the file."""
        super().__init__(link)
        self._deployer = deployer
        self._course = Course(unwritten=unwritten)

    def body(self) -> ComposeResult:
        """Place the course of the deploy, and the line for its message."""
        with VerticalScroll():
            yield Static(id="course")
        yield Sheet()

    def on_mount(self) -> None:
        """Build and plan."""
        self.action_plan()

    @property
    def course(self) -> Course:
        """How the deploy is."""
        return self._course

    def _turn(self, course: Course) -> None:
        self._course = course
        self.pending = int(course.phase == "running")
        self.query_one("#course", Static).update(to_content(course.lines()))
        self.refresh_bindings()

    def _tell(self, progress: Progress) -> None:
        self.post_message(self.Told(progress))

    def on_deploy_screen_told(self, event: Told) -> None:
        """Show what was told of the deploy."""
        self._turn(self._course.hear(event.progress))
        if self._course.phase == "running":
            self.query_one(VerticalScroll).scroll_end(animate=False)

    def action_plan(self) -> None:
        """Build, and show what would change."""
        self._turn(Course(message=self._course.message, unwritten=self._course.unwritten))
        self._plan()

    @work(group="deploy")
    async def _plan(self) -> None:
        try:
            plan = await asyncio.to_thread(self._deployer.plan, self._tell)
        except SvcError as error:
            self._turn(replace(self._course, phase="failed", error=error))
        else:
            self._turn(replace(self._course, phase="planned", plan=plan))

    def action_log_in(self) -> None:
        """Log in to a service, and plan again."""
        self.post_message(self.LogIn(self.action_plan))

    def action_allow(self) -> None:
        """Let components import what they did not so far."""
        self._turn(replace(self._course, allowed=True))

    def action_message(self) -> None:
        """Ask what the deploy is for."""
        self.query_one(Sheet).ask("What this deploy is for", self._course.message)
        self.refresh_bindings()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the message."""
        self.query_one(Sheet).close()
        self._turn(replace(self._course, message=event.value.strip()))

    def action_go_live(self) -> None:
        """Have it go live."""
        self._turn(replace(self._course, phase="running"))
        self._run()

    @work(group="deploy")
    async def _run(self) -> None:
        course = self._course
        try:
            live: Live = await asyncio.to_thread(
                self._deployer.run, self._tell, allow=course.allowed, message=course.message
            )
        except SvcError as error:
            self._turn(replace(self._course, phase="failed", error=error))
        else:
            self._turn(replace(self._course, phase="live", live=live))

    def action_page(self, pages: int) -> None:
        """Scroll."""
        text = self.query_one(VerticalScroll)
        text.scroll_to(y=text.scroll_y + pages * max(text.size.height // 2, 1), animate=False)

    def action_back(self) -> None:
        """Leave the line, break off what goes on, or go back to the Board."""
        sheet = self.query_one(Sheet)
        if sheet.asking:
            sheet.close()
            self.refresh_bindings()
        elif self._course.phase == "running":
            if not self._deployer.cancel():
                self.notify("the service is at it: it goes live or not at all", timeout=4)
        else:
            self._deployer.cancel()
            self.workers.cancel_node(self)  # what comes of it finds nothing here any more
            self.dismiss()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out the keys that do nothing now."""
        course, asking = self._course, bool(self.query(Answer)) and self.query_one(Sheet).asking
        plan = course.plan
        return {
            "go_live": course.ready and not asking and plan is not None and not plan.needless,
            "message": course.phase == "planned" and not asking,
            "allow": course.phase == "planned" and plan is not None and plan.grave and not course.allowed,
            "log_in": course.error is not None and course.error.code == "unauthenticated",
            "plan": course.phase in ("planned", "failed") and not asking,
        }.get(action, True)
