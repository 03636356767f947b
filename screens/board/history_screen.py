"""Deployment history: lists deployments and rolls back to one after showing the difference."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from screens.board.cards import Line
from screens.board.deploy_log import difference_lines
from screens.board.deploy_protocol import BoardDeployer, HistoryEntry, Rollback
from screens.board.deploy_screen import DeployScreen, with_login_key
from screens.board.details import error_lines
from screens.board.details_panel import DetailsPanel
from screens.console_screen import ConsoleScreen, Tab
from screens.project_client import ProjectClient
from screens.widgets.columns import ListColumn
from screens.widgets.row_source import Piece, Row
from screens.widgets.virtual_list import VirtualRows
from svc_tui.client import SvcError

COLUMNS = (
    ListColumn("", 1),
    ListColumn("deployment", 23),
    ListColumn("when", 19),
    ListColumn("by", 10),
    ListColumn("commit", 13),
    ListColumn("message", 12, grow=True),
)
NARROW = tuple(column for column in COLUMNS if column.title not in ("when", "commit"))
"""Columns for narrow screens. The id of a deployment contains its time."""
WIDE = 100


class DeploymentRows:
    """The retained deployments as a row source."""

    def __init__(self) -> None:
        self.deployments: Sequence[HistoryEntry] = ()
        self.columns: tuple[ListColumn, ...] = COLUMNS

    def count(self) -> int:
        """Return the number of deployments."""
        return len(self.deployments)

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return the rows from `start` to `start + n`."""
        return [self._row(deployment) for deployment in self.deployments[start : start + n]]

    def _row(self, deployment: HistoryEntry) -> Row:
        cells: dict[str, Piece] = {
            "": ("●" if deployment.live else "", "good"),
            "deployment": (deployment.id, "bold" if deployment.live else ""),
            "when": (deployment.created, "dim"),
            "by": (deployment.by, ""),
            "commit": (deployment.commit, "dim"),
            "message": (deployment.message, ""),
        }
        return Row(deployment.id, tuple((cells[column.title],) for column in self.columns))


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
        self._rows = DeploymentRows()
        self._plan: Rollback | None = None
        self._login_required = False

    def body(self) -> ComposeResult:
        """Compose the list and the panel."""
        yield VirtualRows(self._rows, COLUMNS)
        yield DetailsPanel()

    def on_mount(self) -> None:
        """Load the history."""
        self.action_reload()

    def on_resize(self) -> None:
        """Choose the columns for the width of the screen."""
        columns = COLUMNS if self.size.width >= WIDE else NARROW
        if columns != self._rows.columns:
            self._rows.columns = columns
            self.query_one(VirtualRows).set_columns(columns)

    @property
    def _selected(self) -> HistoryEntry | None:
        at = self.query_one(VirtualRows).cursor_row
        return self._rows.deployments[at] if at < self._rows.count() else None

    def action_reload(self) -> None:
        """Load the history."""
        self._start_load()

    @work(group="history", exclusive=True)
    async def _start_load(self) -> None:
        await self._load()

    async def _load(self) -> None:
        self._login_required = False
        try:
            deployments = await asyncio.to_thread(self._deployer.history)
        except SvcError as error:
            self._show_failure("Could not load the deployment history", error)
            return
        selected, rows = self._selected, self.query_one(VirtualRows)
        self._rows.deployments = deployments
        rows.set_source(self._rows)
        rows.cursor_row = next(
            (at for at, deployment in enumerate(deployments) if selected and deployment.id == selected.id), 0
        )
        await self._compare()

    def _show_failure(self, title: str, error: SvcError) -> None:
        error = with_login_key(error)
        self.query_one(DetailsPanel).show(title, error_lines(error.message, error.hint))
        self._login_required = error.code == "unauthenticated"
        self.refresh_bindings()

    def on_virtual_rows_moved(self) -> None:
        """Show what a rollback to the selected deployment would change."""
        if not self.query_one(DetailsPanel).prompting:
            self._start_compare()

    @work(group="compare", exclusive=True)
    async def _start_compare(self) -> None:
        await self._compare()

    async def _compare(self) -> None:
        deployment, panel = self._selected, self.query_one(DetailsPanel)
        self._plan = None
        self.refresh_bindings()
        if deployment is None:
            panel.show("No deployments yet", [(("press D on the Board to deploy", "dim"),)])
            return
        if deployment.live:
            panel.show(
                f"{deployment.id} is live", [((deployment.rolled_back or "since it was deployed", "dim"),)]
            )
            return
        try:
            plan = await asyncio.to_thread(self._deployer.rollback_plan, deployment.id)
        except SvcError as error:
            self._show_failure(deployment.id, error)
            return
        if self._selected != deployment:
            return
        self._plan = plan
        lines: list[Line] = [*difference_lines(plan.differences)]
        if not lines:
            lines = [(("no changes: it is the same as the live version", "dim"),)]
        panel.show(f"Roll back from {plan.live} to {deployment.id}", lines)
        self.refresh_bindings()

    def action_log_in(self) -> None:
        """Log in to a service, then reload."""
        self.post_message(DeployScreen.LoginRequested(self.action_reload))

    def action_roll_back(self) -> None:
        """Ask for the reason of the rollback."""
        if (plan := self._plan) is not None:
            lines = difference_lines(plan.differences)
            self.query_one(DetailsPanel).prompt(
                f"Roll back from {plan.live} to {plan.deployment}: reason (optional), then enter", ""
            )
            self.query_one(DetailsPanel).show(
                f"Roll back from {plan.live} to {plan.deployment}: reason (optional), then enter", lines
            )
            self.refresh_bindings()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Roll back."""
        self.query_one(DetailsPanel).hide_input()
        self.query_one(VirtualRows).focus()
        if (plan := self._plan) is not None:
            self._roll_back(plan, event.value.strip())

    @work(group="back")
    async def _roll_back(self, plan: Rollback, reason: str) -> None:
        self.pending = 1
        try:
            live = await asyncio.to_thread(self._deployer.rollback, plan, reason)
        except SvcError as error:
            self.show_error(with_login_key(error))
        else:
            self.notify(f"rolled back: {live.deployment} is live", timeout=5, markup=False)
        finally:
            self.pending = 0
        await self._load()

    def action_back(self) -> None:
        """Close the input, or return to the Board."""
        panel = self.query_one(DetailsPanel)
        if panel.prompting:
            panel.hide_input()
            self.query_one(VirtualRows).focus()
            self.on_virtual_rows_moved()
        elif self.pending:
            self.notify("the rollback is in progress", timeout=3)
        else:
            self.workers.cancel_node(self)
            self.dismiss()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable actions that are not available now."""
        if action == "log_in":
            return self._login_required
        return action != "roll_back" or (
            self._plan is not None and not self.query_one(DetailsPanel).prompting
        )
