"""Screens of deploys: the plan of one and its run, and the history with rollback."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Input, Static

from screens.board.canvas import DetailsPanel
from screens.board.cards import Line, error_lines
from screens.board.deployment import BoardDeployer, DeployLog, Document, difference_lines, live_addresses
from screens.console_screen import ConsoleScreen, Tab, open_in_browser
from screens.project_client import ProjectClient
from screens.widgets.component_styles import to_content
from screens.widgets.rows import ItemRows, ListColumn, Piece, Row
from screens.widgets.virtual_list import VirtualRows
from svc_tui.client import SvcError
from svc_tui.deploy.format import DeployProgress, differences, local_time, location, rollback_text


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

    def __init__(self, client: ProjectClient, deployer: BoardDeployer, unsaved_edits: int = 0) -> None:
        """Create the screen. `unsaved_edits` is the number of edits not yet written to svc.toml."""
        super().__init__(client)
        self._deployer = deployer
        self.deploy_log = DeployLog(unsaved_edits=unsaved_edits)

    def body(self) -> ComposeResult:
        """Yield the log and the details."""
        with VerticalScroll():
            yield Static(id="log")
        yield DetailsPanel()

    def on_mount(self) -> None:
        self.action_plan()

    def _set_log(self, log: DeployLog) -> None:
        self.deploy_log = log
        self.pending = int(log.phase == "running")
        self.query_one("#log", Static).update(to_content(log.lines()))
        self.refresh_bindings()

    def _on_progress(self, progress: DeployProgress) -> None:
        """Show a progress event, which comes from the thread of the deploy."""

        def show() -> None:
            self._set_log(self.deploy_log.add(progress))
            if self.deploy_log.phase == "running":
                self.query_one(VerticalScroll).scroll_end(animate=False)

        self.call_later(show)

    def action_plan(self) -> None:
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
        self.post_message(self.LoginRequired(self.action_plan))

    def action_allow(self) -> None:
        self._set_log(replace(self.deploy_log, allowed=True))

    def action_message(self) -> None:
        self.query_one(DetailsPanel).prompt("Message of this deployment", self.deploy_log.message)
        self.refresh_bindings()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.query_one(DetailsPanel).close()
        self._set_log(replace(self.deploy_log, message=event.value.strip()))

    def action_go_live(self) -> None:
        self._set_log(replace(self.deploy_log, phase="running"))
        self._run()

    @work(group="deploy")
    async def _run(self) -> None:
        log = self.deploy_log
        try:
            live: Document = await asyncio.to_thread(
                self._deployer.run, self._on_progress, allow=log.allowed, message=log.message
            )
        except SvcError as error:
            self.client.activity.add(f"the deploy failed: {error.message}", "bad")
            self._set_log(replace(self.deploy_log, phase="failed", error=with_login_key(error)))
        else:
            self.client.activity.add(f"deployed: {live['deployment']['id']} is live", "good")
            self._set_log(replace(self.deploy_log, phase="live", live=live))

    def action_page(self, pages: int) -> None:
        text = self.query_one(VerticalScroll)
        text.scroll_to(y=text.scroll_y + pages * max(text.size.height // 2, 1), animate=False)

    @work(group="browse")
    async def action_browse(self) -> None:
        if address := self._address:
            await open_in_browser(self.app, address)

    @property
    def _address(self) -> str:
        live = self.deploy_log.live
        locations = map(location, live_addresses(live) if live is not None else ())
        return next((each for each in locations if each.startswith("http")), "")

    def action_back(self) -> None:
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
        log = self.deploy_log
        planned = log.phase == "planned"
        prompting = any(panel.prompting for panel in self.query(DetailsPanel))
        return {
            "go_live": planned and not (log.needs_approval or prompting or log.up_to_date),
            "message": planned and not prompting,
            "allow": planned and log.needs_approval,
            "log_in": log.error is not None and log.error.code == "unauthenticated",
            "plan": log.phase in ("planned", "failed") and not prompting,
            "browse": bool(self._address),
        }.get(action, True)


COLUMNS = (
    ListColumn("", 1), ListColumn("deployment", 23), ListColumn("when", 19), ListColumn("by", 10),
    ListColumn("commit", 13), ListColumn("message", 12, grow=True),
)  # fmt: skip
NARROW = tuple(column for column in COLUMNS if column.title not in ("when", "commit"))
"""Columns for narrow screens. The id of a deployment contains its time."""
WIDE = 100


class HistoryScreen(ConsoleScreen):
    """Deployments, the newest first. A rollback does not change tables."""

    TAB: ClassVar[Tab] = "board"
    GROUP: ClassVar[str] = "History"
    HELP: ClassVar[str] = (
        "Deployments, the newest first; ● is live. Below are the changes of a rollback to the selected one. "
        "r asks for a reason and enter rolls back. Tables and their rows are not rolled back."
    )
    AUTO_FOCUS = "VirtualRows"
    DEFAULT_CSS = """
    HistoryScreen VirtualRows { height: 1fr; margin: 1 0 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "roll_back", "Roll back", id="history.roll-back"),
        Binding("ctrl+l", "log_in", "Log in", id="history.log-in"),
        Binding("ctrl+r", "reload", "Reload", show=False, id="history.reload"),
        Binding("escape", "back", "Back", id="history.back"),
    ]

    def __init__(self, client: ProjectClient, deployer: BoardDeployer) -> None:
        super().__init__(client)
        self._deployer = deployer
        self._columns: tuple[ListColumn, ...] = COLUMNS
        self._history = ItemRows[Document](self._row)
        self._activations: Sequence[Document] = ()
        self._plan: Document | None = None
        self._login_required = False

    def body(self) -> ComposeResult:
        """Yield the deployments and the details of one."""
        yield VirtualRows(self._history, COLUMNS)
        yield DetailsPanel()

    def on_mount(self) -> None:
        self.action_reload()

    def _row(self, _: int, deployment: Document) -> Row:
        cells: dict[str, Piece] = {
            "": ("●" if deployment["live"] else "", "good"),
            "deployment": (deployment["id"], "bold" if deployment["live"] else ""),
            "when": (local_time(deployment["created"]), "dim"),
            "by": (deployment["by"], ""),
            "commit": (deployment["commit"], "dim"),
            "message": (deployment["message"], ""),
        }
        return Row(deployment["id"], tuple((cells[column.title],) for column in self._columns))

    def on_resize(self) -> None:
        columns = COLUMNS if self.size.width >= WIDE else NARROW
        if columns != self._columns:
            self._columns = columns
            self.rows.set_columns(columns)

    @property
    def _selected(self) -> Document | None:
        at = self.rows.cursor_row
        return self._history.items[at] if at < self._history.count() else None

    @work(group="history", exclusive=True)
    async def action_reload(self) -> None:
        self._login_required = False
        try:
            history = await asyncio.to_thread(self._deployer.call, "GET", "/deployments")
        except SvcError as error:
            self._show_failure("Could not load the deployment history", error)
            return
        selected, rows = self._selected, self.rows
        self._history.items, self._activations = history["deployments"], history["activations"]
        rows.set_source(self._history)
        ids = [each["id"] for each in self._history.items]
        rows.cursor_row = ids.index(selected["id"]) if selected and selected["id"] in ids else 0
        self._compare()

    def _show_failure(self, title: str, error: SvcError) -> None:
        error = with_login_key(error)
        self.query_one(DetailsPanel).show(title, error_lines(error.message, error.hint))
        self._login_required = error.code == "unauthenticated"
        self.refresh_bindings()

    def on_virtual_rows_moved(self) -> None:
        if not self.query_one(DetailsPanel).prompting:
            self._compare()

    @work(group="compare", exclusive=True)
    async def _compare(self) -> None:
        deployment, panel = self._selected, self.query_one(DetailsPanel)
        self._plan = None
        self.refresh_bindings()
        if deployment is None:
            panel.show("No deployments yet", [(("press D on the Board to deploy", "dim"),)])
            return
        id = deployment["id"]
        if deployment["live"]:
            since = rollback_text(self._activations, id) or "since it was deployed"
            panel.show(f"{id} is live", [((since, "dim"),)])
            return
        try:
            plan = await asyncio.to_thread(self._deployer.call, "GET", f"/deployments/{id}/rollback")
        except SvcError as error:
            self._show_failure(id, error)
            return
        if self._selected != deployment:
            return
        self._plan = {**plan, "deployment": id}
        lines: list[Line] = difference_lines(differences(plan["changes"]))
        if not lines:
            lines = [(("no changes: it is the same as the live version", "dim"),)]
        panel.show(f"Roll back from {plan['live']} to {id}", lines)
        self.refresh_bindings()

    def action_log_in(self) -> None:
        self.post_message(self.LoginRequired(self.action_reload))

    def action_roll_back(self) -> None:
        if (plan := self._plan) is not None:
            title = f"Roll back from {plan['live']} to {plan['deployment']}: reason (optional), then enter"
            panel = self.query_one(DetailsPanel)
            panel.prompt(title, "")
            panel.show(title, difference_lines(differences(plan["changes"])))
            self.refresh_bindings()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.query_one(DetailsPanel).hide_input()
        self.rows.focus()
        if (plan := self._plan) is not None:
            self._roll_back(plan, event.value.strip())

    @work(group="back")
    async def _roll_back(self, plan: Document, reason: str) -> None:
        self.pending = 1
        body = {"deployment": plan["deployment"], "revision": plan["revision"], "message": reason}
        try:
            live = await asyncio.to_thread(self._deployer.call, "POST", "/rollback", body)
        except SvcError as error:
            self.show_error(with_login_key(error))
        else:
            self.notify(f"rolled back: {live['deployment']['id']} is live", timeout=5, markup=False)
        finally:
            self.pending = 0
        self.action_reload()

    def action_back(self) -> None:
        panel = self.query_one(DetailsPanel)
        if panel.prompting:
            panel.hide_input()
            self.rows.focus()
            self.on_virtual_rows_moved()
        elif self.pending:
            self.notify("the rollback is in progress", timeout=3)
        else:
            self.workers.cancel_node(self)
            self.dismiss()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "roll_back":
            return self._plan is not None and not self.query_one(DetailsPanel).prompting
        return action != "log_in" or self._login_required
