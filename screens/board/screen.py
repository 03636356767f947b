"""The Board: shows a project as a diagram and edits its mounts.

`BoardModel` has the data, `Canvas` draws the diagram, and `MountDraft` has the unsaved edits.
"""

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from screens.board import details
from screens.board.canvas import Canvas
from screens.board.cards import ASCII_SIGNS, UNICODE_SIGNS, Line
from screens.board.deploy_protocol import Deployer
from screens.board.deploy_screen import DeployScreen
from screens.board.details_panel import DetailsPanel
from screens.board.diagram import build_diagram, door_key, door_of, edge_key
from screens.board.draft import MountDraft
from screens.board.edits import DrawnMount, MountEdit, apply_edits, default_pattern, target_problems
from screens.board.history_screen import HistoryScreen
from screens.board.model import BoardModel
from screens.board.project import Manifest, Mount, ProjectStatus
from screens.board.render import Hit
from screens.browser import open_in_browser
from screens.console_screen import Command, ConsoleScreen, Tab
from screens.project_client import ProjectClient
from screens.terminal_text import supports_unicode
from screens.widgets.content import to_content
from svc_tui.client import SvcError, Unreachable

POLL_SECONDS = 1.0
"""Interval of the requests for manifest and status."""
SCROLLBAR_CELLS = 1
"""Cells left free, so that a scrollbar does not change the layout."""
MAX_HEIGHT_SHARE = 0.5
"""Maximum share of the screen height for spread-out nodes; the panel takes the other half."""


class BoardScreen(ConsoleScreen):
    """Resources, mounts and Doors of a project, with edits of the mounts."""

    TAB: ClassVar[Tab] = "board"
    GROUP: ClassVar[str] = "Board"
    HELP: ClassVar[str] = (
        "Resources, the mounts between them, and Doors. An edge is a line of `mounts` in svc.toml: draw one "
        "with c or the mouse, check the diff, and save it with ctrl+s. It takes effect at once."
    )
    AUTO_FOCUS = "Canvas"
    DEFAULT_CSS = """
    BoardScreen {
        & Canvas { height: 1fr; margin: 1 0 0 1; }
        & #hint { display: none; height: auto; padding: 0 2; color: $foreground 60%; }
        & #status { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "connect", "Connect", id="board.connect"),
        Binding("enter", "join", "Connect to", id="board.join"),
        Binding("enter", "open", "Open", id="board.open"),
        Binding("e", "pattern", "Edit", id="board.pattern"),
        Binding("d", "remove", "Remove", id="board.remove"),
        Binding("ctrl+s", "write", "Save svc.toml", id="board.write"),
        Binding("u", "undo", "Undo", id="board.undo"),
        Binding("escape", "back", "Back", id="board.back"),
        Binding("D", "deploy", "Deploy", id="board.deploy"),
        Binding("H", "history", "History", show=False, id="board.history"),
        Binding("o", "browse", "Open in browser", show=False, id="board.browse"),
        Binding("y", "copy", "Copy address", show=False, id="board.copy"),
        Binding("L", "logs", "Logs", show=False, id="board.logs"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="board.page-down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="board.page-up"),
    ]

    def __init__(
        self, client: ProjectClient, deployer: Deployer | None = None, *, unicode: bool | None = None
    ) -> None:
        """Create the screen. `unicode` None means what the locale supports."""
        super().__init__(client)
        self._deployer = deployer
        self._unicode = supports_unicode() if unicode is None else unicode
        self._signs = UNICODE_SIGNS if self._unicode else ASCII_SIGNS
        self._model = BoardModel()
        self._draft = MountDraft(client)
        self._polling = False
        self._diagram_inputs: tuple[object, ...] = ()
        self._details_open = False
        self._connecting: str | None = None
        self._target_problems: dict[str, str] = {}
        self._prompt: tuple[Mount | None, Mount] | None = None

    def body(self) -> ComposeResult:
        """Compose the canvas, the hint, the panel and the status line."""
        yield Canvas(unicode=self._unicode)
        yield Static(id="hint")
        yield DetailsPanel()
        yield Static(id="status")

    def on_mount(self) -> None:
        """Start polling the project."""
        self._timer = self.set_interval(POLL_SECONDS, self._poll)

    def on_screen_suspend(self) -> None:
        """Pause polling while another screen is shown."""
        self._timer.pause()

    def on_screen_resume(self) -> None:
        """Resume polling."""
        self._timer.resume()
        self._poll()

    def engine_connected(self) -> None:
        """Load the project."""
        self._poll()

    def on_resize(self) -> None:
        """Lay out the diagram for the new size."""
        self._redraw()

    @work(group="draw")
    async def _redraw(self) -> None:
        await self._draw()

    @property
    def canvas(self) -> Canvas:
        """The diagram."""
        return self.query_one(Canvas)

    @property
    def panel(self) -> DetailsPanel:
        """The panel below the diagram."""
        return self.query_one(DetailsPanel)

    def commands(self) -> Sequence[Command]:
        """Return the commands of the Board."""
        return [Command("select NAME", "Select a resource or a Door", self.navigate)]

    def navigate(self, words: Sequence[str]) -> None:
        """Select the resource or Door of this name. Raises `SvcError` for an unknown one."""
        if not words:
            return
        diagram = self._model.diagram
        keys = diagram.layout.boxes if diagram is not None else {}
        key = next((key for key in (words[0], door_key(words[0])) if key in keys), None)
        if key is None:
            raise SvcError(f'the Board has no "{words[0]}"', "Name a resource or a Door.")
        self.canvas.select(Hit("node", key))

    # Polling and drawing

    def _poll(self) -> None:
        if self.client.state == "live" and not self._polling:
            self._polling = True
            self._poll_once()

    @work(group="poll")
    async def _poll_once(self) -> None:
        try:
            await self._load()
        finally:
            self._polling = False

    async def _load(self) -> None:
        """Fetch manifest and status, and draw them."""
        try:
            manifest = Manifest.from_json(await self.client.call("GET", "/manifest"))
            self._model.status = ProjectStatus.from_json(await self.client.call("GET", "/state"))
        except Unreachable:
            return
        except SvcError as error:
            if not self.banner and error.code == "unauthenticated":
                self.show_error(error)
            self.banner = error.text
            return
        if not self.is_attached:
            return  # The Console was closed meanwhile.
        previous, self._model.manifest = self._model.manifest, manifest
        self.banner = manifest.error
        if previous is not None and manifest.digest != previous.digest:
            await self._manifest_changed()
        await self._draw()

    async def _manifest_changed(self) -> None:
        if self._connecting is not None:
            self._stop_connecting()
        await self._draft.replan()
        self._show_draft()

    async def _draw(self) -> None:
        """Lay out the diagram if it has changed, and update all texts."""
        manifest = self._model.manifest
        if manifest is None:
            return
        room = self.canvas.size.width - SCROLLBAR_CELLS
        doors = {name: frozenset(door.users) for name, door in self._model.status.doors.items()}
        rows = int(self.size.height * MAX_HEIGHT_SHARE)
        edits = self._draft.edits
        inputs = (manifest.resources, manifest.mounts, edits, doors, room, rows)
        if inputs != self._diagram_inputs:
            self._diagram_inputs = inputs
            diagram = await asyncio.to_thread(build_diagram, manifest, edits, doors, room, rows)
            if inputs == self._diagram_inputs:
                self._model.diagram = diagram
                self.canvas.set_diagram(diagram)
                self.refresh_bindings()
        self.canvas.set_content(self._model.cards(self._signs), self._model.tones())
        self._update_status()
        hint = self.query_one("#hint", Static)
        text = self._model.hint(edited=bool(self._draft.edits))
        hint.update(text)
        hint.display = bool(text)
        if self._details_open:
            self._show_details()

    # Selection

    @property
    def _mount(self) -> DrawnMount | None:
        """The selected mount."""
        return self._model.mount(self.canvas.selected)

    @property
    def _resource(self) -> str | None:
        """The name of the selected resource."""
        return self._model.resource(self.canvas.selected)

    def on_canvas_selected(self) -> None:
        """Show the selected item in the status line and the panel."""
        self._update_status()
        if self._details_open:
            self._show_details()
        self.refresh_bindings()

    def _update_status(self) -> None:
        self.query_one("#status", Static).update(to_content([self._status_line()]))

    def _status_line(self) -> Line:
        if self._prompt is not None:
            return (("/prefix/* matches all paths below it, /path only this path", "dim"),)
        if self._connecting is not None:
            return self._connecting_line(self._connecting)
        return self._model.summary(self.canvas.selected)

    def action_open(self) -> None:
        """Open the selected item."""
        if self.canvas.selected is not None:
            self._open(self.canvas.selected)

    def on_canvas_opened(self, event: Canvas.Opened) -> None:
        """Open the item that was double-clicked."""
        self._open(event.hit)

    def _open(self, hit: Hit) -> None:
        door = self._model.door_name(hit)
        if door == "tables":
            self.post_message(self.OpenTab("tables"))
        elif door is not None:
            self.post_message(self.OpenTab("logs"))
        else:
            self._details_open = True
            self._show_details()
            self.refresh_bindings()

    def _show_details(self) -> None:
        content = self._model.details(self.canvas.selected, self.panel.line_width)
        if content is None:
            self.panel.close()
        else:
            self.panel.show(*content)

    def _close_details(self) -> None:
        if self._details_open:
            self._details_open = False
            self._show_draft()

    def action_page(self, pages: int) -> None:
        """Scroll the panel, or the diagram if the panel cannot scroll."""
        if not self.panel.page(pages):
            self.canvas.page(pages)

    @work(group="browse")
    async def action_browse(self) -> None:
        """Open the address of the selected item in a browser."""
        if address := self._model.address(self.canvas.selected):
            try:
                await open_in_browser(self.app, address)
            except SvcError as error:
                self.show_error(error)

    def action_copy(self) -> None:
        """Copy the address of the selected item."""
        if address := self._model.address(self.canvas.selected):
            self.app.copy_to_clipboard(address)
            self.notify(f"copied {address}", timeout=3, markup=False)

    def action_logs(self) -> None:
        """Show the logs of the selected resource."""
        if (name := self._resource) is not None:
            self.post_message(self.OpenTab("logs", f"resource:{name}"))

    def action_deploy(self) -> None:
        """Open the deploy screen."""
        if self._deployer is not None:
            self.app.push_screen(DeployScreen(self.client, self._deployer, len(self._draft.edits)))

    def action_history(self) -> None:
        """Open the deployment history."""
        if self._deployer is not None:
            self.app.push_screen(HistoryScreen(self.client, self._deployer))

    # Connecting two nodes

    def _edited_mounts(self) -> list[Mount]:
        """Return the mounts after the unsaved edits."""
        manifest = self._model.manifest
        return apply_edits(manifest.mounts if manifest else (), self._draft.edits)

    def action_connect(self) -> None:
        """Start drawing a mount from the selected resource."""
        if (name := self._resource) is not None:
            self._connect(name, dragged=False)

    def on_canvas_dragged(self, event: Canvas.Dragged) -> None:
        """Start drawing a mount from the pressed node."""
        self._connect(event.source, dragged=True)

    def _connect(self, source: str, *, dragged: bool) -> None:
        manifest = self._model.manifest
        if manifest is None or self._prompt or not manifest.editable or source not in manifest.resources:
            return
        self._close_details()
        mounts = self._edited_mounts()
        self._target_problems = target_problems(manifest, mounts, source)
        valid = [name for name, problem in self._target_problems.items() if not problem]
        mounted = {mount.target for mount in mounts if mount.source == source}
        likely = next((name for name in valid if name not in mounted), next(iter(valid), None))
        self._connecting = source
        self.canvas.start_connecting(source, frozenset(valid), None if dragged else likely)
        self._update_status()
        self.refresh_bindings()

    def on_canvas_aimed(self) -> None:
        """Show the target of the line in the status line."""
        self._update_status()

    def _connecting_line(self, source: str) -> Line:
        target = self.canvas.aim
        if target is None:
            return ((source, "bold"), (" → ", "dim"), ("…", "dim"))
        name = door_of(target) or target
        line: Line = ((source, "bold"), (" → ", "dim"), (name, "bold"), ("   ", ""))
        problem = self._target_problem(target)
        return (*line, (problem, "warn")) if problem else line

    def _target_problem(self, target: str) -> str:
        if door_of(target) is not None:
            return "code reaches a Door at an address in its environment, not through a mount"
        return self._target_problems.get(target, "")

    def action_join(self) -> None:
        """Connect to the current target."""
        self._join(self.canvas.aim)

    def on_canvas_joined(self, event: Canvas.Joined) -> None:
        """Connect to the node where the mouse was released."""
        if event.target is None or self._target_problem(event.target):
            self._stop_connecting()
        else:
            self._join(event.target)

    def _join(self, target: str | None) -> None:
        source = self._connecting
        if source is None or target is None or self._target_problem(target):
            self.app.bell()
            return
        self._stop_connecting()
        pattern = default_pattern(self._edited_mounts(), source, target)
        self._ask_pattern(None, Mount(source, pattern, target))

    def _stop_connecting(self) -> None:
        self._connecting = None
        self.canvas.stop_connecting()
        self._update_status()
        self.refresh_bindings()

    # Editing a pattern

    def action_pattern(self) -> None:
        """Edit the pattern of the selected mount."""
        if (edge := self._mount) is not None and edge.mark != "removed":
            self._ask_pattern(edge.mount, edge.mount)

    def _ask_pattern(self, before: Mount | None, after: Mount) -> None:
        self._close_details()
        self._prompt = before, after
        self.canvas.can_focus = False
        self._update_status()
        self.panel.prompt(f"Mount {after.target} in {after.source} at", after.pattern)
        self.refresh_bindings()

    def _prompt_edits(self, pattern: str) -> list[MountEdit]:
        if self._prompt is None:
            return []
        before, after = self._prompt
        mount = Mount(after.source, pattern.strip(), after.target)
        return [] if mount == before else [MountEdit(before, mount)]

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the diff of svc.toml for the typed pattern, or its error."""
        self._preview(event.value)

    @work(group="preview", exclusive=True)
    async def _preview(self, pattern: str) -> None:
        if self._prompt is None:
            return
        try:
            plan = await self._draft.preview(*self._prompt_edits(pattern))
        except SvcError as error:
            self.panel.set_lines(details.error_lines(error.message, error.hint))
        else:
            self.panel.set_lines(details.diff_lines(plan.diff))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Add the edit to the draft if it is valid."""
        self._add(self._prompt_edits(event.value))

    def action_remove(self) -> None:
        """Remove the selected mount."""
        if (edge := self._mount) is not None and edge.mark != "removed":
            self._close_details()
            self._add([MountEdit(edge.mount, None)])

    @work(group="edit")
    async def _add(self, edits: Sequence[MountEdit]) -> None:
        manifest = self._model.manifest
        if manifest is None:
            return
        try:
            await self._draft.add(manifest.mounts, *edits)
        except SvcError as error:
            if self._prompt is None:
                self.show_error(error)
            else:
                self.panel.set_lines(details.error_lines(error.message, error.hint))
            return
        self._close_prompt()
        await self._draw()
        if edits and (mount := edits[-1].after) is not None:
            self.canvas.select(Hit("edge", edge_key(mount)))

    def _close_prompt(self) -> None:
        """Close the input and focus the canvas."""
        self._prompt = None
        self.panel.hide_input()
        self.canvas.can_focus = True
        self.canvas.focus()
        self._show_draft()
        self._update_status()

    # Unsaved edits

    def _show_draft(self) -> None:
        """Show the diff of the unsaved edits, or close the panel if there are none."""
        self.pending = len(self._draft.edits)
        if self._prompt is None:
            if not self._draft.edits:
                self.panel.close()
            elif (problem := self._draft.problem) is not None:
                lines = details.error_lines(problem.message, problem.hint)
                self.panel.show("svc.toml was changed by another program", lines)
            elif (plan := self._draft.plan) is not None:
                count = "1 unsaved edit" if self.pending == 1 else f"{self.pending} unsaved edits"
                self.panel.show(f"svc.toml: {count}", details.diff_lines(plan.diff))
        self.refresh_bindings()

    @work(group="edit")
    async def action_write(self) -> None:
        """Save the edits to svc.toml."""
        try:
            if await self._draft.write():
                self.notify("saved svc.toml, which is in effect now; u undoes it", timeout=4)
        except SvcError as error:
            self.show_error(error)
            if error.code == "conflict":
                await self._draft.replan()
        self._show_draft()
        await self._load()

    @work(group="edit")
    async def action_undo(self) -> None:
        """Remove the last edit, or stage the inverse of the last saved edits."""
        manifest = self._model.manifest
        if manifest is None:
            return
        try:
            await self._draft.undo(manifest.mounts)
        except SvcError as error:
            self.show_error(error)
        self._show_draft()
        await self._draw()

    def action_back(self) -> None:
        """Close the input, the line being drawn or the details; otherwise remove the last edit."""
        if self._prompt is not None:
            self._close_prompt()
        elif self._connecting is not None:
            self._stop_connecting()
        elif self._details_open:
            self._close_details()
        elif self._draft.edits:
            self.action_undo()
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable actions that are not available now."""
        idle = self._connecting is None and self._prompt is None
        editable = self._model.manifest is not None and self._model.manifest.editable
        on_mount = (edge := self._mount) is not None and edge.mark != "removed"
        return {
            "connect": idle and editable and self._resource is not None,
            "join": self._connecting is not None,
            "open": idle and not self._details_open,
            "pattern": idle and editable and on_mount,
            "remove": idle and editable and on_mount,
            "write": idle and bool(self._draft.edits),
            "undo": idle and self._draft.can_undo,
            "back": not idle or self._details_open or bool(self._draft.edits),
            "deploy": idle and self._deployer is not None and self._deployer.has_files,
            "history": idle and self._deployer is not None,
            "browse": idle,
            "copy": idle,
            "logs": idle and self._resource is not None,
        }.get(action, True)
