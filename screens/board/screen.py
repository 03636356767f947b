"""The Board: the view of a project as a diagram, with polling, selection, details and edits of mounts.

`BoardModel` has the data, `Canvas` draws the diagram, and `MountDraft` has the unsaved edits.
"""

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from screens.board import project
from screens.board.canvas import Canvas, DetailsPanel, FleetLine
from screens.board.cards import Line, diff_lines, door_tab, error_lines, lacking_domains, with_hint
from screens.board.deploy_screen import DeployScreen, HistoryScreen
from screens.board.deployment import BoardDeployer
from screens.board.diagram import door_of
from screens.board.layout import Hit
from screens.board.model import BoardModel, Item
from screens.console_screen import ConsoleCommand, ConsoleScreen, Tab, is_working, open_in_browser
from screens.files import edit_file, editor_command
from screens.project_client import ProjectClient
from screens.widgets.component_styles import to_content
from screens.widgets.rows import Piece
from svc_tui.client import SvcError, Unreachable
from svc_tui.deploy.format import record_line
from svc_tui.terminal.units import plural

POLL_SECONDS = 1.0
"""Interval of the requests for manifest and status."""
SCROLLBAR_CELLS = 1
"""Cells left free, so that a scrollbar does not change the layout."""
MAX_HEIGHT_SHARE, MAX_TALL_SHARE = 0.5, 0.55
"""Maximum share of the screen height for spread-out nodes, also on a tall screen."""
TALL_ROWS = 30
"""Minimum height of the screen for showing details by default, in rows."""
KEYS_HINT, EDIT_HINT = "enter opens, 2 tables, 3 logs", "c draws a mount, "
"""Shown in the status line until the user selects another item. The second needs an editable project."""
REQUESTS = 50
"""Maximum number of requests in the details."""


class BoardScreen(ConsoleScreen):
    """Resources, mounts and Doors of a project, the details of the selected one, and edits of mounts."""

    TAB: ClassVar[Tab] = "board"
    GROUP: ClassVar[str] = "Board"
    HELP: ClassVar[str] = (
        "Resources, the mounts between them, and Doors. An edge is a line of mounts in svc.toml: draw one "
        "with c or the mouse, check the diff, and save it with ctrl+s. It takes effect at once: "
        "on a service, saving activates a deployment with the new mounts."
    )
    AUTO_FOCUS = "Canvas"
    DEFAULT_CSS = """
    BoardScreen {
        & Canvas { height: 1fr; margin: 1 0 0 1; }
        & .hint { display: none; height: auto; padding: 0 2; color: $foreground 60%; }
        & #status { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "connect", "Connect", id="board.connect"),
        Binding("enter", "join", "Connect to", id="board.join"),
        Binding("enter", "open", "Open", id="board.open"),
        Binding("e", "pattern", "Edit", id="board.pattern"),
        Binding("e", "edit_source", "Edit source", id="board.edit-source"),
        Binding("d", "remove", "Remove", id="board.remove"),
        Binding("ctrl+s", "write", "Save mounts", id="board.write"),
        Binding("u", "undo", "Undo", id="board.undo"),
        Binding("U", "redo", "Redo", id="board.redo"),
        Binding("u", "nothing('undo')", "Undo", show=False, id="board.undo"),
        Binding("U", "nothing('redo')", "Redo", show=False, id="board.redo"),
        Binding("escape", "back", "Back", id="board.back"),
        Binding("D", "deploy", "Deploy", id="board.deploy"),
        Binding("H", "history", "History", show=False, id="board.history"),
        Binding("n", "nodes", "Nodes", id="board.nodes"),
        Binding("o", "browse", "Open in browser", show=False, id="board.browse"),
        Binding("y", "copy", "Copy address", show=False, id="board.copy"),
        Binding("Y", "copy_records", "Copy DNS records", show=False, id="board.copy-records"),
        Binding("L", "logs", "Logs", show=False, id="board.logs"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="board.page-down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="board.page-up"),
    ]

    def __init__(self, client: ProjectClient, deployer: BoardDeployer | None = None) -> None:
        super().__init__(client)
        self._deployer = deployer
        self._deployed = client.info.kind == "service"
        self._model = BoardModel()
        self._draft = project.MountDraft(client, lambda: self._model.manifest.mounts)
        self._problems: dict[str, str] = {}
        """Why the edge cannot lead to resources, by their names."""
        self._prompt: tuple[project.BoardMount | None, project.BoardMount] | None = None
        """The mount whose pattern is being edited, before (None: a new one) and after."""
        self._nodes_open = False
        self._shown_actions: dict[str, bool] = {}
        self._details_open: bool | None = None
        self._first_selected: Hit | None = None
        self._is_new = True

    def body(self) -> ComposeResult:
        """Yield the diagram, and the lines below it."""
        yield Canvas()
        yield Static(id="hint", classes="hint")
        yield Static(id="doors", classes="hint")
        yield DetailsPanel()
        yield FleetLine(self.client)
        yield Static(id="status")

    def on_mount(self) -> None:
        hint = self.query_one("#hint", Static)
        hint.update("loading the project …")
        hint.display = True
        self._timer = self.set_interval(POLL_SECONDS, self._poll)

    def on_screen_suspend(self) -> None:
        self._timer.pause()

    def on_screen_resume(self) -> None:
        self._timer.resume()
        self._poll()
        self.query_one(FleetLine).fetch()

    def engine_connected(self) -> None:
        """Load the project."""
        self._poll()
        self.query_one(FleetLine).fetch()

    def on_resize(self) -> None:
        self._redraw()

    @work(group="draw")
    async def _redraw(self) -> None:
        await self._draw()

    @property
    def canvas(self) -> Canvas:
        return self.query_one(Canvas)

    @property
    def panel(self) -> DetailsPanel:
        return self.query_one(DetailsPanel)

    def commands(self) -> Sequence[ConsoleCommand]:
        """Return the commands of the Board."""
        about = "Select a resource or a Door"
        return [ConsoleCommand("select NAME", about, self.navigate, self._model.names())]

    def navigate(self, words: Sequence[str]) -> None:
        """Select the resource or Door of this name. Raises `SvcError` for an unknown one."""
        if not words:
            return
        key = self._model.node(words[0])
        if key is None:
            raise SvcError(f'the Board has no "{words[0]}"', "Name a resource or a Door.")
        self.canvas.select(Hit("node", key))

    # Polling and drawing

    def _poll(self) -> None:
        if self.client.state == "live" and not is_working(self, "poll"):
            self._load()

    def on_fleet_line_updated(self) -> None:
        if self._nodes_open:
            self._show_panel()
        self.refresh_bindings()

    def on_canvas_ended(self) -> None:
        if (line := self.query_one(FleetLine)).display:
            line.focus()

    def action_focus_diagram(self) -> None:
        self.canvas.focus()

    def action_nodes(self) -> None:
        self._nodes_open = not self._nodes_open
        self._show_edit()

    @work(group="poll")
    async def _load(self) -> None:
        """Fetch manifest and status, and draw them."""
        try:
            changed = await self._model.fetch(self.client)
        except Unreachable:
            return
        except SvcError as error:
            if not self.banner and error.code == "unauthenticated":
                self.show_error(error)
            self.banner = error.text
            return
        if not self.is_attached:
            return  # The Console was closed meanwhile.
        self.banner = self._model.manifest.error
        if changed:
            if self.canvas.source is not None:
                self._stop_connecting()
            if await self._draft.replan() and self._deployed:
                with suppress(SvcError):  # The next save names it too if the edits no longer apply.
                    live = (await self.client.call("GET", "/deployments"))["activations"][0]
                    text = f"{live['by']} activated {live['deployment']}: {live['message'] or 'no message'}"
                    self.notify(f"{text}; your edits are planned again", timeout=6, markup=False)
            self._show_draft()
        await self._draw()
        await self._load_requests()

    async def _load_requests(self) -> None:
        """Fetch and show the last requests of the selected item."""
        selected = self.canvas.selected
        if self._details_shown:
            with suppress(SvcError):  # The next poll fetches them.
                if await self._model.fetch_requests(self.client, selected, REQUESTS) and self.is_attached:
                    self._show_panel()

    async def _draw(self) -> None:
        """Lay out the diagram if it has changed, and update all texts."""
        if not self._model.loaded:
            return
        share = MAX_TALL_SHARE if self.size.height >= TALL_ROWS else MAX_HEIGHT_SHARE
        width, rows = self.canvas.size.width - SCROLLBAR_CELLS, int(self.size.height * share)
        if await self._model.layout(self._draft.edits, width, rows):
            self.canvas.set_diagram(self._model.diagram)
        self.canvas.set_content(self._model.cards(), self._model.tones())
        self._update_status()
        hint = self.query_one("#hint", Static)
        hint.update(text := self._model.hint(edited=bool(self._draft.edits), deployed=self._deployed))
        hint.display = bool(text)
        self.query_one("#doors", Static).update(self._model.unused_doors)
        self._show_panel()
        if (available := self._available()) != self._shown_actions:
            self._shown_actions = available
            self.refresh_bindings()

    @property
    def _mount(self) -> project.DrawnMount | None:
        """The selected mount, unless an unsaved edit removes it."""
        mount = self._model.mount(self.canvas.selected)
        return None if mount is None or mount.mark == "removed" else mount

    @property
    def _resource(self) -> str | None:
        return self._model.resource(self.canvas.selected)

    @property
    def _item(self) -> Item:
        return self._model.item(self.canvas.selected)

    @property
    def _source(self) -> tuple[str, int] | None:
        """File and line of the build error of the selected resource, if this machine has the file."""
        name = self._resource
        if name is None or not self.client.info.folder:
            return None
        error = self._model.health(name).failure
        return (error["file"], error["line"]) if error["file"] else None

    def on_canvas_selected(self) -> None:
        self._nodes_open = False
        self._first_selected = self._first_selected or self.canvas.selected
        self._is_new = self._is_new and self.canvas.selected == self._first_selected
        self._show_edit()
        self._follow_requests()

    @work(group="requests", exclusive=True)
    async def _follow_requests(self) -> None:
        await self._load_requests()

    def _update_status(self) -> None:
        status = self.query_one("#status", Static)
        line = self._edit_line()
        if not line:
            line = self._item.summary
            if self._is_new:
                hint = EDIT_HINT * self._model.manifest.editable + KEYS_HINT
                line = with_hint(line, hint, status.content_size.width)
        status.update(to_content([line]))

    def on_canvas_opened(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        if (door := self._item.door) is not None:
            self.post_message(self.OpenTab(door_tab(door)))
        else:
            self._details_open = True
            self._show_edit()
            self._follow_requests()

    @property
    def _details_shown(self) -> bool:
        """True if the panel shows details: by default on a tall screen without unsaved edits."""
        if self._prompt is not None:
            return False
        if self._details_open is None:
            return self.size.height >= TALL_ROWS and not self._draft.edits
        return self._details_open

    def _show_panel(self) -> None:
        """Show the details of the selected item or the unsaved edits, below the diagram."""
        content = self.query_one(FleetLine).details(self.panel.line_width) if self._nodes_open else None
        if content is None and self._details_shown:
            content = self._model.details(self.canvas.selected, self.panel.line_width)
        if content is not None:
            self.panel.show(*content)
        elif self._prompt is None:
            self._show_diff()
        fills = self.panel.display and self.size.height >= TALL_ROWS
        self.panel.set_class(fills, "fills")
        self.query_one("#doors").display = bool(self._model.unused_doors) and fills >= self.panel.display
        rows = min(self._model.diagram.layout.height + 1, self.size.height // 2 + 2)
        self.canvas.styles.height = rows if fills else "1fr"

    def _show_diff(self) -> None:
        """Show the diff of the unsaved edits, or close the panel if there are none."""
        count = len(self._draft.edits)
        if not count:
            self.panel.close()
        elif (problem := self._draft.problem) is not None:
            changed = "the live deployment has changed"
            title = changed if self._deployed else "svc.toml was changed by another program"
            self.panel.show(title, error_lines(problem.message, problem.hint))
        elif (plan := self._draft.plan) is not None:
            effect = "activates a deployment" if self._deployed else "writes svc.toml"
            self.panel.show(f"{plural(count, 'unsaved edit')}: ctrl+s {effect}", diff_lines(plan["diff"]))

    def _close_details(self) -> None:
        """Return to the default, so that unsaved edits are shown."""
        self._details_open, self._nodes_open = None, False
        self._show_panel()

    def action_page(self, pages: int) -> None:
        """Scroll the panel, or the diagram if the panel cannot scroll."""
        if not self.panel.page(pages):
            self.canvas.page(pages)

    @work(group="browse")
    async def action_browse(self) -> None:
        if address := self._item.address:
            await open_in_browser(self.app, address)

    def action_copy(self) -> None:
        if address := self._item.address:
            self.app.copy_to_clipboard(address)
            self.notify(f"copied {address}", timeout=3, markup=False)

    @property
    def _lacking(self) -> list[str]:
        """The domains of the selected resource that need DNS records."""
        name = self._resource
        return lacking_domains(self._model.health(name)) if name is not None else []

    @work(group="records", exclusive=True)
    async def action_copy_records(self) -> None:
        """Check the domains that lack DNS records, and copy these."""
        names, lines = self._lacking, list[str]()
        for name in names:
            check = await self.client.call("POST", f"/domains/{name}/check")
            alias, *addresses = map(record_line, check["records"])
            # DNS forbids a CNAME for a name without a subdomain.
            lines += addresses if addresses and name.count(".") == 1 else [alias]
        self.app.copy_to_clipboard("\n".join(lines))
        self.notify(f"copied the DNS records of {', '.join(names)}", timeout=3, markup=False)

    def action_edit_source(self) -> None:
        """Open the first build error in the user's editor, while the Console is suspended."""
        if (source := self._source) is not None:
            with self.shown_errors(), self.app.suspend():
                edit_file(Path(self.client.info.folder) / source[0], source[1], editor_command(os.environ))

    def action_logs(self) -> None:
        if (name := self._resource) is not None:
            self.post_message(self.OpenTab("logs", f"resource:{name}"))

    def action_deploy(self) -> None:
        if self._deployer is not None:
            self.app.push_screen(DeployScreen(self.client, self._deployer, len(self._draft.edits)))

    def action_history(self) -> None:
        if self._deployer is not None:
            self.app.push_screen(HistoryScreen(self.client, self._deployer))

    def _show_edit(self) -> None:
        """Show the edit in progress, or what is selected, and the keys that work now."""
        self._update_status()
        self._show_panel()
        self.refresh_bindings()

    def _show_draft(self) -> None:
        self.pending = len(self._draft.edits)
        self._show_edit()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._available().get(action, True)

    def _available(self) -> dict[str, bool]:
        idle = self.canvas.source is None and self._prompt is None
        editable = self._model.manifest.editable
        on_mount = self._mount is not None
        return {
            "connect": idle and editable and self._resource is not None,
            "join": self.canvas.source is not None,
            "open": idle and (not self._details_shown or self._item.door is not None),
            "edit_source": idle and self._source is not None,
            "pattern": idle and editable and on_mount,
            "remove": idle and editable and on_mount,
            "write": idle and bool(self._draft.edits),
            "undo": idle and self._draft.can_undo,
            "redo": idle and self._draft.can_redo,
            "nothing": idle and editable,
            "back": not idle or self._details_shown or self._nodes_open or bool(self._draft.edits),
            "nodes": idle and self.query_one(FleetLine).fleet is not None,
            "deploy": idle and self._deployer is not None and self._deployer.has_files,
            "history": idle and self._deployer is not None,
            "browse": idle,
            "copy": idle,
            "copy_records": idle and bool(self._lacking),
            "logs": idle and self._resource is not None,
        }

    # The edge being drawn, and its pattern

    def action_connect(self) -> None:
        if (name := self._resource) is not None:
            self._connect(name)

    def on_canvas_dragged(self, event: Canvas.Dragged) -> None:
        self._connect(event.source, dragged=True)

    def _mounts(self) -> list[project.BoardMount]:
        """Return the mounts after the unsaved edits."""
        return project.apply_edits(self._model.manifest.mounts, self._draft.edits)

    def _connect(self, source: str, *, dragged: bool = False) -> None:
        """Start drawing an edge. Aim at the likely target unless it is dragged with the mouse."""
        manifest = self._model.manifest
        if self._prompt is not None or not manifest.editable or source not in manifest.resources:
            return
        self._close_details()
        mounts = self._mounts()
        self._problems = project.target_problems(manifest, mounts, source)
        valid = [name for name, problem in self._problems.items() if not problem]
        targets = {mount.target for mount in mounts if mount.source == source}
        likely = next((name for name in valid if name not in targets), next(iter(valid), None))
        self.canvas.start_connecting(source, frozenset(valid), None if dragged else likely)
        self._show_edit()

    def _problem(self, target: str) -> str:
        if door_of(target) is not None:
            return "code reaches a Door at an address in its environment, not through a mount"
        return self._problems.get(target, "")

    def _edit_line(self) -> Line:
        """Return the status line of the edit in progress; empty if there is none."""
        if self._prompt is not None:
            return (("/prefix/* matches all paths below it, /path only this path", "dim"),)
        if self.canvas.source is None:
            return ()
        line: Line = ((self.canvas.source, "bold"), (" → ", "dim"))
        target = self.canvas.aim
        if target is None:
            return (*line, ("…", "dim"))
        problem = self._problem(target)
        hint: Piece = (problem, "warn") if problem else ("enter mounts it, arrows choose another", "dim")
        return (*line, (door_of(target) or target, "bold"), ("   ", ""), hint)

    def on_canvas_aimed(self) -> None:
        self._update_status()

    def action_join(self) -> None:
        if not self._join(self.canvas.aim):
            self.app.bell()

    def on_canvas_joined(self, event: Canvas.Joined) -> None:
        if not self._join(event.target):
            self._stop_connecting()

    def _join(self, target: str | None) -> bool:
        """End the edge at a node, and ask for its pattern. Return False for an invalid target."""
        source = self.canvas.source
        if source is None or target is None or self._problem(target):
            return False
        self._stop_connecting()
        pattern = project.default_pattern(self._mounts(), source, target)
        self._ask(None, project.BoardMount(source, pattern, target))
        return True

    def _stop_connecting(self) -> None:
        """Cancel the edge being drawn."""
        self.canvas.stop_connecting()
        self._show_edit()

    def action_pattern(self) -> None:
        if (edge := self._mount) is not None:
            self._ask(edge.mount, edge.mount)

    def _ask(self, before: project.BoardMount | None, after: project.BoardMount) -> None:
        """Ask for the pattern of `after`, which replaces `before`."""
        self._close_details()
        self._prompt = before, after
        self.canvas.can_focus = False
        self.panel.prompt(f"Mount {after.target} in {after.source} at", after.pattern)
        self._show_edit()

    def _prompted(self, pattern: str) -> list[project.MountEdit]:
        """Return the edit that a typed pattern makes, or an empty list if it changes nothing."""
        if self._prompt is None:
            return []
        before, after = self._prompt
        edit = {"resource": after.source, "target": after.target}
        if before is None:
            return [{"op": "add", "pattern": pattern.strip(), **edit}]
        change = {"op": "change", "pattern": before.pattern, "to": pattern.strip(), **edit}
        return [change] if change["to"] != before.pattern else []

    @work(group="preview", exclusive=True)
    async def on_input_changed(self, event: Input.Changed) -> None:
        """Show the diff of svc.toml for a typed pattern, or its error."""
        if self._prompt is not None:
            try:
                plan = await self._draft.preview(*self._prompted(event.value))
            except SvcError as error:
                self.panel.set_lines(error_lines(error.message, error.hint))
            else:
                self.panel.set_lines(diff_lines(plan["diff"]))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Add the edit to the draft if it is valid."""
        self._add(self._prompted(event.value))

    def _close_prompt(self) -> None:
        """Close the input and focus the canvas."""
        self._prompt = None
        self.panel.hide_input()
        self.canvas.can_focus = True
        self.canvas.focus()
        self._show_edit()

    # Unsaved edits

    def action_remove(self) -> None:
        if (edge := self._mount) is not None:
            self._close_details()
            mount = edge.mount
            self._add([{"op": "remove", "resource": mount.source, "pattern": mount.pattern}])

    @work(group="edit")
    async def _add(self, edits: Sequence[project.MountEdit]) -> None:
        try:
            await self._draft.add(*edits)
        except SvcError as error:
            if self._prompt is None:
                self.show_error(error)
            else:
                self.panel.set_lines(error_lines(error.message, error.hint))
            return
        self._close_prompt()
        self._show_draft()
        await self._draw()
        self._select_last(edits)

    def _select_last(self, edits: Sequence[project.MountEdit]) -> None:
        """Select the edge of the last edit, or its source if the diagram does not have the edge."""
        for edit in edits[-1:]:
            self.canvas.select(Hit("node", edit["resource"]))
            for pattern in (edit["pattern"], edit.get("to")):
                for key, drawn in self._model.diagram.mounts.items():
                    if (drawn.mount.source, drawn.mount.pattern) == (edit["resource"], pattern):
                        self.canvas.select(Hit("edge", key))

    @work(group="edit")
    async def action_write(self) -> None:
        try:
            if inverse := await self._draft.write():
                key = "u" if inverse == "undo" else "U"
                saved = "activated a deployment" if self._deployed else "saved svc.toml"
                text = f"{saved}, which is in effect now; {key} takes it back, ctrl+s saves that"
                self.notify(text, timeout=6)
        except SvcError as error:
            self.show_error(error)
            if error.code == "conflict":
                await self._draft.replan()
        self._show_draft()
        await self._load().wait()

    def action_undo(self) -> None:
        self._restage(self._draft.undo)

    def action_redo(self) -> None:
        self._restage(self._draft.redo)

    def action_nothing(self, name: str) -> None:
        self.notify(f"nothing to {name}", timeout=3)

    @work(group="edit")
    async def _restage(self, change: Callable[[], Awaitable[None]]) -> None:
        edits = self._draft.edits
        with self.shown_errors():
            await change()
        self._show_draft()
        await self._draw()
        self._select_last(max(edits, self._draft.edits, key=len))

    def action_back(self) -> None:
        """Close the input, the line being drawn or the details; otherwise remove the last edit."""
        if self._prompt is not None:
            self._close_prompt()
        elif self.canvas.source is not None:
            self._stop_connecting()
        elif self._nodes_open:
            self.action_nodes()
            self.canvas.focus()
        elif self._details_shown:
            self._details_open = False
            self._show_edit()
        elif self._draft.edits:
            self.action_undo()
