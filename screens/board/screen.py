"""The Board: the Project as a picture in which mounts are drawn.

Owns the keys and what is going on: drawing an edge, asking for its pattern, edits that wait to be written.
What there is to see is `view.py`'s, the picture `canvas.py`'s, edits are `draft.py`'s.
"""

from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.widgets import Input

from screens.board import details
from screens.board.canvas import Canvas
from screens.board.cards import Line
from screens.board.deploy_protocol import Deployer
from screens.board.diagram import door_of, edge_key
from screens.board.draft import Draft
from screens.board.edits import Edit, applied, default_pattern, targets
from screens.board.project import Mount
from screens.board.render import Hit
from screens.board.view import BoardView
from screens.project_client import ProjectClient
from svc_tui.client import SvcError


class BoardScreen(BoardView):
    """Resources, mounts and Doors, and edits of the mounts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "connect", "Connect", id="board.connect"),
        Binding("enter", "join", "Draw", id="board.join"),
        Binding("enter", "open", "Open", id="board.open"),
        Binding("e", "pattern", "Edit", id="board.pattern"),
        Binding("d", "remove", "Remove", id="board.remove"),
        Binding("ctrl+s", "write", "Write svc.toml", id="board.write"),
        Binding("u", "undo", "Undo", id="board.undo"),
        Binding("escape", "back", "Back", id="board.back"),
        Binding("D", "deploy", "Deploy", id="board.deploy"),
        Binding("H", "history", "History", show=False, id="board.history"),
        Binding("o", "browse", "Browser", show=False, id="board.browse"),
        Binding("y", "copy", "Copy address", show=False, id="board.copy"),
        Binding("L", "logs", "Logs", show=False, id="board.logs"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="board.page-down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="board.page-up"),
    ]

    def __init__(
        self, link: ProjectClient, deployer: Deployer | None = None, *, unicode: bool | None = None
    ) -> None:
        super().__init__(link, deployer, unicode=unicode)
        self._draft = Draft(link)
        self._connecting: str | None = None
        self._reasons: dict[str, str] = {}
        self._asking: tuple[Mount | None, Mount] | None = None

    @property
    def _edits(self) -> tuple[Edit, ...]:
        return self._draft.edits

    async def _changed(self) -> None:
        if self._connecting is not None:
            self._leave_connecting()
        await self._draft.again()
        self._show_draft()

    def _foot(self) -> Line:
        if self._asking is not None:
            return (("a pattern is /prefix/* for all below it, or an exact /path", "dim"),)
        if self._connecting is not None:
            return self._connecting_foot(self._connecting)
        return super()._foot()

    # Drawing an edge

    def _mounts(self) -> list[Mount]:
        """Return the mounts as they will be."""
        return applied(self._manifest.mounts if self._manifest else (), self._draft.edits)

    def action_connect(self) -> None:
        """Draw an edge from the Resource that is selected."""
        if (name := self._resource) is not None:
            self._connect(name, dragged=False)

    def on_canvas_dragged(self, event: Canvas.Dragged) -> None:
        """Draw an edge from where the mouse was pressed."""
        self._connect(event.source, dragged=True)

    def _connect(self, source: str, *, dragged: bool) -> None:
        manifest = self._manifest
        if manifest is None or self._asking or not manifest.editable or source not in manifest.resources:
            return
        self._close_details()
        mounts = self._mounts()
        self._reasons = targets(manifest, mounts, source)
        valid = [name for name, reason in self._reasons.items() if not reason]
        held = {mount.target for mount in mounts if mount.source == source}
        likely = next((name for name in valid if name not in held), next(iter(valid), None))
        self._connecting = source
        self.canvas.begin(source, frozenset(valid), None if dragged else likely)
        self._tell_foot()
        self.refresh_bindings()

    def on_canvas_aimed(self) -> None:
        """Say where the line leads, or why it may not."""
        self._tell_foot()

    def _connecting_foot(self, source: str) -> Line:
        target = self.canvas.aim
        if target is None:
            return ((source, "bold"), (" → ", "dim"), ("…", "dim"))
        name = door_of(target) or target
        reason = self._reason(target)
        said: Line = ((source, "bold"), (" → ", "dim"), (name, "bold"), ("   ", ""))
        return (*said, (reason, "warn")) if reason else said

    def _reason(self, target: str) -> str:
        if door_of(target) is not None:
            return "a Door is reached by its address in the environment, not by a mount"
        return self._reasons.get(target, "")

    def action_join(self) -> None:
        """End the line here."""
        self._join(self.canvas.aim)

    def on_canvas_joined(self, event: Canvas.Joined) -> None:
        """End the line where the mouse was let go."""
        if event.target is None or self._reason(event.target):
            self._leave_connecting()
        else:
            self._join(event.target)

    def _join(self, target: str | None) -> None:
        source = self._connecting
        if source is None or target is None or self._reason(target):
            self.app.bell()
            return
        self._leave_connecting()
        pattern = default_pattern(self._mounts(), source, target)
        self._ask(None, Mount(source, pattern, target))

    def _leave_connecting(self) -> None:
        self._connecting = None
        self.canvas.end()
        self._tell_foot()
        self.refresh_bindings()

    # The pattern

    def action_pattern(self) -> None:
        """Ask for another pattern of the mount that is selected."""
        if (edge := self._edge) is not None and edge.mark != "removed":
            self._ask(edge.mount, edge.mount)

    def _ask(self, before: Mount | None, after: Mount) -> None:
        self._close_details()
        self._asking = before, after
        self.canvas.can_focus = False
        self._tell_foot()
        self.sheet.ask(f"{after.target} answers the requests to {after.source} at", after.pattern)
        self.refresh_bindings()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what svc.toml becomes by what is written, or what is wrong with it."""
        self._try(event.value)

    def _edit(self, pattern: str) -> list[Edit]:
        if self._asking is None:
            return []
        before, after = self._asking
        wanted = Mount(after.source, pattern.strip(), after.target)
        return [] if wanted == before else [Edit(before, wanted)]

    @work(group="try", exclusive=True)
    async def _try(self, pattern: str) -> None:
        if self._asking is None:
            return
        try:
            plan = await self._draft.planned(*self._edit(pattern))
        except SvcError as error:
            self.sheet.say(details.problem(error.message, error.hint))
        else:
            self.sheet.say(details.difference(plan.diff))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the edit, unless something is wrong with it."""
        self._keep(self._edit(event.value))

    def action_remove(self) -> None:
        """Remove the mount that is selected."""
        if (edge := self._edge) is not None and edge.mark != "removed":
            self._close_details()
            self._keep([Edit(edge.mount, None)])

    @work(group="edit")
    async def _keep(self, edits: Sequence[Edit]) -> None:
        if self._manifest is None:
            return
        try:
            await self._draft.add(self._manifest.mounts, *edits)
        except SvcError as error:
            if self._asking is None:
                self.show_error(error)
            else:
                self.sheet.say(details.problem(error.message, error.hint))
            return
        self._answered()
        await self._draw()
        if edits and (made := edits[-1].after) is not None:
            self.canvas.select(Hit("edge", edge_key(made)))

    def _answered(self) -> None:
        """Have keys be about the picture again."""
        self._asking = None
        self.sheet.answered()
        self.canvas.can_focus = True
        self.canvas.focus()
        self._show_draft()
        self._tell_foot()

    # What is not written yet

    def _show_draft(self) -> None:
        """Show the difference that the edits make, or take it away."""
        self.pending = len(self._draft.edits)
        if self._asking is None:
            if not self._draft.edits:
                self.sheet.close()
            elif (problem := self._draft.problem) is not None:
                self.sheet.tell(
                    "svc.toml was changed meanwhile", details.problem(problem.message, problem.hint)
                )
            elif (plan := self._draft.plan) is not None:
                count = "1 edit" if self.pending == 1 else f"{self.pending} edits"
                self.sheet.tell(f"svc.toml  {count}, not written yet", details.difference(plan.diff))
        self.refresh_bindings()

    @work(group="edit")
    async def action_write(self) -> None:
        """Write the edits into svc.toml."""
        try:
            if await self._draft.write():
                self.notify("svc.toml is written and applies now; u undoes it", timeout=4)
        except SvcError as error:
            self.show_error(error)
            if error.code == "conflict":
                await self._draft.again()
        self._show_draft()
        await self._see()

    @work(group="edit")
    async def action_undo(self) -> None:
        """Drop the last edit, or undo what was written last."""
        if self._manifest is None:
            return
        try:
            await self._draft.take_back(self._manifest.mounts)
        except SvcError as error:
            self.show_error(error)
        self._show_draft()
        await self._draw()

    # The way back

    def action_back(self) -> None:
        """Leave what is going on: a question, a line, details, or else the last edit."""
        if self._asking is not None:
            self._answered()
        elif self._connecting is not None:
            self._leave_connecting()
        elif self._details:
            self._close_details()
        elif self._draft.edits:
            self.action_undo()
        self.refresh_bindings()

    def _close_details(self) -> None:
        if self._details:
            self._details = False
            self._show_draft()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out the keys that do nothing now."""
        walking = self._connecting is None and self._asking is None
        editable = self._manifest is not None and self._manifest.editable
        there = (edge := self._edge) is not None and edge.mark != "removed"
        return {
            "connect": walking and editable and self._resource is not None,
            "join": self._connecting is not None,
            "open": walking and not self._details,
            "pattern": walking and editable and there,
            "remove": walking and editable and there,
            "write": walking and bool(self._draft.edits),
            "undo": walking and self._draft.can_undo,
            "back": not walking or self._details or bool(self._draft.edits),
            "deploy": walking and self._deployer is not None and self._deployer.has_files,
            "history": walking and self._deployer is not None,
            "browse": walking,
            "copy": walking,
            "logs": walking and self._resource is not None,
        }.get(action, True)
