"""The history of deploys: what was live when, and the way back to it, after a look at the difference."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from screens.board.cards import Line
from screens.board.deploy_log import differences
from screens.board.deploy_protocol import Deployer, Deployment, Rollback
from screens.board.deploy_screen import DeployScreen
from screens.board.details import problem
from screens.board.details_panel import Sheet
from screens.console_screen import ConsoleScreen, Tab
from screens.project_client import ProjectClient
from screens.widgets.columns import Column
from screens.widgets.row_source import Piece, Row
from screens.widgets.virtual_rows import VirtualRows
from svc_tui.client import SvcError

COLUMNS = (
    Column("", 1),
    Column("deployment", 23),
    Column("when", 19),
    Column("by", 10),
    Column("commit", 13),
    Column("message", 12, grow=True),
)
NARROW = tuple(each for each in COLUMNS if each.title not in ("when", "commit"))
"""For fewer cells than all of them take; a deployment's name says when it was."""
WIDE = 100


class Kept:
    """The deployments that are kept, as rows."""

    def __init__(self) -> None:
        self.deployments: Sequence[Deployment] = ()
        self.columns: tuple[Column, ...] = COLUMNS

    def count(self) -> int:
        """Return how many there are."""
        return len(self.deployments)

    def window(self, start: int, n: int) -> Sequence[Row]:
        """Return some of them."""
        return [self._row(each) for each in self.deployments[start : start + n]]

    def _row(self, each: Deployment) -> Row:
        cells: dict[str, Piece] = {
            "": ("●" if each.live else "", "good"),
            "deployment": (each.id, "bold" if each.live else ""),
            "when": (each.created, "dim"),
            "by": (each.by, ""),
            "commit": (each.commit, "dim"),
            "message": (each.message, ""),
        }
        return Row(each.id, tuple((cells[column.title],) for column in self.columns))


class HistoryScreen(ConsoleScreen):
    """Deployments, the newest first. Tables and their rows are never rolled back."""

    TAB: ClassVar[Tab] = "board"
    GROUP: ClassVar[str] = "History"
    HELP: ClassVar[str] = (
        "What was deployed, the newest first; ● is live. Below is what going back to the selected one would\n"
        "change. r asks why, and enter has it go live again. Tables and their rows stay as they are."
    )
    AUTO_FOCUS = "VirtualRows"
    DEFAULT_CSS = """
    HistoryScreen VirtualRows { height: 1fr; margin: 1 0 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "roll_back", "Roll back to it", id="history.roll-back"),
        Binding("ctrl+l", "log_in", "Log in", id="history.log-in"),
        Binding("ctrl+r", "reload", "Look again", show=False, id="history.reload"),
        Binding("escape", "back", "Back", id="history.back"),
    ]

    def __init__(self, link: ProjectClient, deployer: Deployer) -> None:
        super().__init__(link)
        self._deployer = deployer
        self._kept = Kept()
        self._plan: Rollback | None = None
        self._stranger = False

    def body(self) -> ComposeResult:
        """Place the list, and the sheet with the difference."""
        yield VirtualRows(self._kept, COLUMNS)
        yield Sheet()

    def on_mount(self) -> None:
        """Fetch the history."""
        self.action_reload()

    def on_resize(self) -> None:
        """Have the message fit the screen."""
        columns = COLUMNS if self.size.width >= WIDE else NARROW
        if columns != self._kept.columns:
            self._kept.columns = columns
            self.query_one(VirtualRows).set_columns(columns)

    @property
    def _selected(self) -> Deployment | None:
        at = self.query_one(VirtualRows).cursor_row
        return self._kept.deployments[at] if at < self._kept.count() else None

    def action_reload(self) -> None:
        """Fetch the history again."""
        self._load_again()

    @work(group="history", exclusive=True)
    async def _load_again(self) -> None:
        await self._load()

    async def _load(self) -> None:
        self._stranger = False
        try:
            found = await asyncio.to_thread(self._deployer.history)
        except SvcError as error:
            self.query_one(Sheet).tell("The history can not be had", problem(error.message, error.hint))
            self._stranger = error.code == "unauthenticated"
            self.refresh_bindings()
            return
        was, rows = self._selected, self.query_one(VirtualRows)
        self._kept.deployments = found
        rows.set_source(self._kept)
        rows.cursor_row = next((at for at, each in enumerate(found) if was and each.id == was.id), 0)
        await self._compare()

    def on_virtual_rows_moved(self) -> None:
        """Show what going back to the selected one would change."""
        if not self.query_one(Sheet).asking:
            self._compare_again()

    @work(group="compare", exclusive=True)
    async def _compare_again(self) -> None:
        await self._compare()

    async def _compare(self) -> None:
        each, sheet = self._selected, self.query_one(Sheet)
        self._plan = None
        self.refresh_bindings()
        if each is None:
            sheet.tell("Nothing was deployed yet", [(("D on the Board deploys", "dim"),)])
            return
        if each.live:
            sheet.tell(f"{each.id} is live", [((each.back or "since it was deployed", "dim"),)])
            return
        try:
            plan = await asyncio.to_thread(self._deployer.rollback_plan, each.id)
        except SvcError as error:
            sheet.tell(each.id, problem(error.message, error.hint))
            return
        if self._selected != each:
            return
        self._plan = plan
        lines: list[Line] = [*differences(plan.differences)]
        if not lines:
            lines = [(("it is the same as what is live", "dim"),)]
        sheet.tell(f"Back to {each.id} from {plan.live}", lines)
        self.refresh_bindings()

    def action_log_in(self) -> None:
        """Log in to a service, and look again."""
        self.post_message(DeployScreen.LogIn(self.action_reload))

    def action_roll_back(self) -> None:
        """Ask why."""
        if (plan := self._plan) is not None:
            lines = differences(plan.differences)
            self.query_one(Sheet).ask(f"Why back to {plan.deployment}? enter rolls back", "")
            self.query_one(Sheet).tell(f"Why back to {plan.deployment}? enter rolls back", lines)
            self.refresh_bindings()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Have it live again."""
        self.query_one(Sheet).answered()
        self.query_one(VirtualRows).focus()
        if (plan := self._plan) is not None:
            self._roll_back(plan, event.value.strip())

    @work(group="back")
    async def _roll_back(self, plan: Rollback, reason: str) -> None:
        self.pending = 1
        try:
            live = await asyncio.to_thread(self._deployer.rollback, plan, reason)
        except SvcError as error:
            self.show_error(error)
        else:
            self.notify(f"{live.deployment} is live again", timeout=5, markup=False)
        finally:
            self.pending = 0
        await self._load()

    def action_back(self) -> None:
        """Leave the line, or go back to the Board."""
        sheet = self.query_one(Sheet)
        if sheet.asking:
            sheet.answered()
            self.query_one(VirtualRows).focus()
            self.on_virtual_rows_moved()
        elif self.pending:
            self.notify("the service is at it", timeout=3)
        else:
            self.workers.cancel_node(self)
            self.dismiss()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out the keys that do nothing now."""
        if action == "log_in":
            return self._stranger
        return action != "roll_back" or (self._plan is not None and not self.query_one(Sheet).asking)
