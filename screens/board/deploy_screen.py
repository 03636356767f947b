"""Deploy screen: shows the plan of a deploy, then runs it."""

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

from screens.board.deploy_log import DeployLog
from screens.board.deploy_protocol import BoardDeployer, DeployProgress, LiveDeployment
from screens.board.details_panel import DetailsPanel, PanelInput
from screens.browser import open_in_browser
from screens.console_screen import ConsoleScreen, Tab
from screens.project_client import ProjectClient
from screens.widgets.component_styles import to_content
from svc_tui.client import SvcError


def with_login_key(error: SvcError) -> SvcError:
    """Return an error whose hint names the key to log in instead of the command."""
    if "`svc login" not in error.hint:
        return error
    return SvcError(error.message, "Press ctrl+l to log in.", code=error.code)


class DeployScreen(ConsoleScreen):
    """Builds and plans a deploy when it opens; `enter` starts the deploy."""

    TAB: ClassVar[Tab] = "board"
    GROUP: ClassVar[str] = "Deploy"
    HELP: ClassVar[str] = (
        "Deploying builds every resource and shows what would change; enter makes the new version live. "
        "Until the service commits it, esc cancels the deploy."
    )
    DEFAULT_CSS = """
    DeployScreen VerticalScroll { height: 1fr; padding: 1 2; scrollbar-size-vertical: 1; }
    DeployScreen #log { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go_live", "Deploy", id="deploy.go"),
        Binding("m", "message", "Message", id="deploy.message"),
        Binding("A", "allow", "Allow lines with !", id="deploy.allow"),
        Binding("r", "plan", "Plan again", id="deploy.plan"),
        Binding("ctrl+l", "log_in", "Log in", id="deploy.log-in"),
        Binding("o", "browse", "Open in browser", id="deploy.browse"),
        Binding("escape", "back", "Back", id="deploy.back"),
        Binding("pagedown,ctrl+f,j,down", "page(1)", "Scroll down", show=False, id="deploy.page-down"),
        Binding("pageup,ctrl+b,k,up", "page(-1)", "Scroll up", show=False, id="deploy.page-up"),
    ]

    class Progressed(Message):
        """The deploy has made progress."""

        def __init__(self, progress: DeployProgress) -> None:
            super().__init__()
            self.progress = progress

    class LoginRequested(Message):
        """A request to log in to a service; `retry` is called after the login."""

        def __init__(self, retry: Callable[[], None]) -> None:
            super().__init__()
            self.retry = retry

    def __init__(self, client: ProjectClient, deployer: BoardDeployer, unsaved_edits: int = 0) -> None:
        """Create the screen. `unsaved_edits` is the number of edits not yet written to svc.toml."""
        super().__init__(client)
        self._deployer = deployer
        self.deploy_log = DeployLog(unsaved_edits=unsaved_edits)

    def body(self) -> ComposeResult:
        """Compose the log and the panel for the message."""
        with VerticalScroll():
            yield Static(id="log")
        yield DetailsPanel()

    def on_mount(self) -> None:
        """Build and plan."""
        self.action_plan()

    def _set_log(self, log: DeployLog) -> None:
        self.deploy_log = log
        self.pending = int(log.phase == "running")
        self.query_one("#log", Static).update(to_content(log.lines()))
        self.refresh_bindings()

    def _on_progress(self, progress: DeployProgress) -> None:
        self.post_message(self.Progressed(progress))

    def on_deploy_screen_progressed(self, event: Progressed) -> None:
        """Add a progress event to the log."""
        self._set_log(self.deploy_log.add(event.progress))
        if self.deploy_log.phase == "running":
            self.query_one(VerticalScroll).scroll_end(animate=False)

    def action_plan(self) -> None:
        """Build and show what would change."""
        self._set_log(DeployLog(message=self.deploy_log.message, unsaved_edits=self.deploy_log.unsaved_edits))
        self._plan()

    @work(group="deploy")
    async def _plan(self) -> None:
        try:
            plan = await asyncio.to_thread(self._deployer.plan, self._on_progress)
        except SvcError as error:
            self._set_log(replace(self.deploy_log, phase="failed", error=with_login_key(error)))
        else:
            self._set_log(replace(self.deploy_log, phase="planned", plan=plan))

    def action_log_in(self) -> None:
        """Log in to a service, then plan again."""
        self.post_message(self.LoginRequested(self.action_plan))

    def action_allow(self) -> None:
        """Allow new capabilities, and to undo mounts that were drawn in the Console."""
        self._set_log(replace(self.deploy_log, allowed=True))

    def action_message(self) -> None:
        """Ask for the message of the deployment."""
        self.query_one(DetailsPanel).prompt("Message of this deployment", self.deploy_log.message)
        self.refresh_bindings()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Store the message."""
        self.query_one(DetailsPanel).close()
        self._set_log(replace(self.deploy_log, message=event.value.strip()))

    def action_go_live(self) -> None:
        """Start the deploy."""
        self._set_log(replace(self.deploy_log, phase="running"))
        self._run()

    @work(group="deploy")
    async def _run(self) -> None:
        log = self.deploy_log
        try:
            live: LiveDeployment = await asyncio.to_thread(
                self._deployer.run, self._on_progress, allow=log.allowed, message=log.message
            )
        except SvcError as error:
            self.client.activity.add(f"the deploy failed: {error.message}", "bad")
            self._set_log(replace(self.deploy_log, phase="failed", error=with_login_key(error)))
        else:
            self.client.activity.add(f"deployed: {live.deployment} is live", "good")
            self._set_log(replace(self.deploy_log, phase="live", live=live))

    def action_page(self, pages: int) -> None:
        """Scroll by half pages."""
        text = self.query_one(VerticalScroll)
        text.scroll_to(y=text.scroll_y + pages * max(text.size.height // 2, 1), animate=False)

    @work(group="browse")
    async def action_browse(self) -> None:
        """Open the first public address of the live deployment."""
        if address := self._address:
            with self.shown_errors():
                await open_in_browser(self.app, address)

    @property
    def _address(self) -> str:
        live = self.deploy_log.live
        locations = [address.location for address in live.addresses] if live is not None else []
        return next((location for location in locations if location.startswith("http")), "")

    def action_back(self) -> None:
        """Close the input, cancel the deploy, or return to the Board."""
        panel = self.query_one(DetailsPanel)
        if panel.prompting:
            panel.close()
            self.refresh_bindings()
        elif self.deploy_log.phase == "running":
            if not self._deployer.cancel():
                self.notify("the deploy is committing and can no longer be canceled", timeout=4)
        else:
            self._deployer.cancel()
            self.workers.cancel_node(self)  # The screen is closed: nothing can show the result.
            self.dismiss()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable actions that are not available now."""
        log, prompting = (
            self.deploy_log,
            bool(self.query(PanelInput)) and self.query_one(DetailsPanel).prompting,
        )
        plan = log.plan
        return {
            "go_live": log.ready and not prompting and plan is not None and not plan.up_to_date,
            "message": log.phase == "planned" and not prompting,
            "allow": log.phase == "planned" and plan is not None and plan.needs_approval and not log.allowed,
            "log_in": log.error is not None and log.error.code == "unauthenticated",
            "plan": log.phase in ("planned", "failed") and not prompting,
            "browse": bool(self._address),
        }.get(action, True)
