"""The Board: the Project as a picture, alive, in which mounts are drawn.

Owns the keys and what is going on: walking, drawing an edge, asking for its pattern, edits that wait to be
written. The picture is `canvas.py`'s, edits are `draft.py`'s, words are `cards.py`'s and `details.py`'s.
"""

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from screens.board import details
from screens.board.canvas import Canvas
from screens.board.cards import ASCII_SIGNS, UNICODE_SIGNS, Line, door_card, resource_card
from screens.board.draft import Draft
from screens.board.draw import Hit
from screens.board.edits import Edit, Shown, applied, default_pattern, targets
from screens.board.picture import Picture, door_key, door_of, edge_key, picture
from screens.board.project import Door, Health, Manifest, Mount, State
from screens.board.sheet import Sheet, content
from screens.console_screen import Command, ConsoleScreen, Tab
from screens.link import Link
from screens.widgets.row_source import Tone
from svc_tui.client import SvcError, Unreachable

SECONDS = 1.0
"""How often the Board looks at the manifest and at how all of it is."""


class BoardScreen(ConsoleScreen):
    """Resources, mounts and Doors."""

    TAB: ClassVar[Tab] = "board"
    GROUP: ClassVar[str] = "Board"
    HELP: ClassVar[str] = (
        "Resources, the mounts between them, and Doors. An edge is a line of `mounts` in svc.toml: draw one\n"
        "with c or the mouse, look at the difference, and write it with ctrl+s. It applies at once."
    )
    AUTO_FOCUS = "Canvas"
    DEFAULT_CSS = """
    BoardScreen {
        & Canvas { height: 1fr; margin: 1 0 0 1; }
        & #hint { display: none; height: auto; padding: 0 2; color: $foreground 60%; }
        & #foot { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "connect", "Connect", id="board.connect"),
        Binding("enter", "join", "Draw", id="board.join"),
        Binding("enter", "open", "Open", id="board.open"),
        Binding("e", "pattern", "Pattern", id="board.pattern"),
        Binding("d", "remove", "Remove", id="board.remove"),
        Binding("ctrl+s", "write", "Write svc.toml", id="board.write"),
        Binding("u", "undo", "Undo", id="board.undo"),
        Binding("escape", "back", "Back", id="board.back"),
        Binding("o", "browse", "Browser", show=False, id="board.browse"),
        Binding("y", "copy", "Copy address", show=False, id="board.copy"),
        Binding("L", "logs", "Logs", show=False, id="board.logs"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="board.page-down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="board.page-up"),
    ]

    def __init__(self, link: Link, *, unicode: bool = True) -> None:
        super().__init__(link)
        self._unicode = unicode
        self._signs = UNICODE_SIGNS if unicode else ASCII_SIGNS
        self._manifest: Manifest | None = None
        self._state = State()
        self._draft = Draft(link)
        self._seeing = False
        self._drawn: tuple[object, ...] = ()
        self._connecting: str | None = None
        self._reasons: dict[str, str] = {}
        self._asking: tuple[Mount | None, Mount] | None = None
        self._details = False

    def body(self) -> ComposeResult:
        """Place the picture, what to do next, the sheet and the line at the foot."""
        yield Canvas(unicode=self._unicode)
        yield Static(id="hint")
        yield Sheet()
        yield Static(id="foot")

    def on_mount(self) -> None:
        """Look at the Project, now and then."""
        self._looking = self.set_interval(SECONDS, self._look)

    def on_screen_suspend(self) -> None:
        """Look at nothing while something else is shown."""
        self._looking.pause()

    def on_screen_resume(self) -> None:
        """Look at once, and go on."""
        self._looking.resume()
        self._look()

    def restored(self) -> None:
        """Look at the Project that is there now."""
        self._look()

    def on_resize(self) -> None:
        """Lay the picture out for the room there is."""
        self.run_worker(self._draw(), group="draw", description="lay the picture out")

    @property
    def canvas(self) -> Canvas:
        """The picture."""
        return self.query_one(Canvas)

    @property
    def sheet(self) -> Sheet:
        """The sheet below it."""
        return self.query_one(Sheet)

    def commands(self) -> Sequence[Command]:
        """Return what the Board can be told in words."""
        return [Command("select NAME", "Select a Resource or a Door", self.go)]

    def go(self, words: Sequence[str]) -> None:
        """Select what the word names."""
        if not words:
            return
        shown = self.canvas.picture
        keys = shown.placed.boxes if shown is not None else {}
        key = next((key for key in (words[0], door_key(words[0])) if key in keys), None)
        if key is None:
            raise SvcError(f"there is no {words[0]} on the Board", "Name a Resource or a Door.")
        self.canvas.select(Hit("node", key))

    # What is there

    def _look(self) -> None:
        if self.link.state == "live" and not self._seeing:
            self._seeing = True
            self.run_worker(self._see_once(), group="see", description="look at the Project")

    async def _see_once(self) -> None:
        try:
            await self._see()
        finally:
            self._seeing = False

    async def _see(self) -> None:
        """Take up what the manifest says and how all of it is."""
        try:
            manifest = Manifest.of(await self.link.call("GET", "/manifest"))
            self._state = State.of(await self.link.call("GET", "/state"))
        except Unreachable:
            return
        except SvcError as error:
            self.banner = f"{error.message}\n{error.hint}".strip()
            return
        changed = self._manifest is not None and manifest.digest != self._manifest.digest
        self._manifest = manifest
        self.banner = manifest.broken
        if changed and self._draft.edits:
            await self._draft.again()
            self._show_draft()
        await self._draw()

    async def _draw(self) -> None:
        """Lay the picture out if anything in it has changed, and write into it how all of it is."""
        manifest = self._manifest
        if manifest is None:
            return
        room = self.canvas.size
        wanted = (manifest.resources, manifest.mounts, self._draft.edits, tuple(self._state.doors), room)
        if wanted != self._drawn:
            self._drawn = wanted
            doors = tuple(self._state.doors)
            shown = await asyncio.to_thread(
                picture, manifest, self._draft.edits, doors, (room.width, room.height)
            )
            self.canvas.show(shown)
        if (now := self.canvas.picture) is not None:
            self._write_in(now, manifest)
        self._tell_foot()
        self._tell_hint(manifest)
        if self._details:
            self._show_details()

    def _write_in(self, shown: Picture, manifest: Manifest) -> None:
        cards: dict[str, tuple[Line, ...]] = {}
        for node in shown.graph.nodes:
            width = node.width - 2
            door = door_of(node.key)
            if door is not None:
                cards[node.key] = door_card(door, self._state.doors.get(door, Door()), width, self._signs)
            elif (resource := manifest.resources.get(node.key)) is not None:
                cards[node.key] = resource_card(resource, self._health(node.key), width, self._signs)
        tones: dict[str, Tone] = {
            key: "accent" if each.mark == "added" else "bad"
            for key, each in shown.mounts.items()
            if each.mark
        }
        self.canvas.write(cards, tones)

    def _health(self, name: str) -> Health:
        return self._state.resources.get(name, Health())

    def _tell_hint(self, manifest: Manifest) -> None:
        text = ""
        if not manifest.editable:
            text = "This is what is live, to look at. Mounts are edited in svc.toml, and go live by a deploy."
        elif len(manifest.resources) == 1:
            text = "One Resource. Add a table [resource.NAME] to svc.toml and it appears here at once."
        elif not manifest.mounts and not self._draft.edits:
            text = (
                "No mounts yet. Press c, or drag from one Resource to another that shall answer below a path."
            )
        hint = self.query_one("#hint", Static)
        hint.update(text)
        hint.display = bool(text)

    # What is selected

    @property
    def _hit(self) -> Hit | None:
        return self.canvas.selected

    @property
    def _edge(self) -> Shown | None:
        """The mount that is selected."""
        shown = self.canvas.picture
        if shown is None or self._hit is None or self._hit.kind != "edge":
            return None
        return shown.mounts.get(self._hit.key)

    @property
    def _resource(self) -> str | None:
        """The Resource that is selected."""
        if self._manifest is None or self._hit is None or self._hit.kind != "node":
            return None
        return self._hit.key if self._hit.key in self._manifest.resources else None

    def on_canvas_selected(self) -> None:
        """Say what is selected."""
        self._tell_foot()
        if self._details:
            self._show_details()
        self.refresh_bindings()

    def _tell_foot(self) -> None:
        self.query_one("#foot", Static).update(content([self._foot()]))

    def _foot(self) -> Line:
        if self._asking is not None:
            return (("a pattern is /prefix/* for all below it, or an exact /path", "dim"),)
        if self._connecting is not None:
            return self._connecting_foot(self._connecting)
        if (edge := self._edge) is not None:
            return details.mount_foot(edge, self._state.mounts.get((edge.mount.source, edge.mount.pattern)))
        if (name := self._resource) is not None and self._manifest is not None:
            return details.resource_foot(self._manifest.resources[name], self._health(name))
        if self._hit is not None and (door := door_of(self._hit.key)) is not None:
            return details.door_foot(door, self._state.doors.get(door, Door()))
        return ()

    def action_open(self) -> None:
        """Show what is known of what is selected."""
        if self._hit is not None:
            self._open(self._hit)

    def on_canvas_opened(self, event: Canvas.Opened) -> None:
        """Open what was clicked twice."""
        self._open(event.hit)

    def _open(self, hit: Hit) -> None:
        door = door_of(hit.key) if hit.kind == "node" else None
        if door == "tables":
            self.post_message(self.Visit("tables"))
        elif door is not None:
            self.post_message(self.Visit("logs"))
        else:
            self._details = True
            self._show_details()
            self.refresh_bindings()

    def _show_details(self) -> None:
        manifest = self._manifest
        if (edge := self._edge) is not None:
            rate = self._state.mounts.get((edge.mount.source, edge.mount.pattern))
            lines = details.of_mount(edge, rate, self.sheet.room)
            self.sheet.tell(f"{edge.mount.source}{edge.mount.pattern}", lines)
        elif (name := self._resource) is not None and manifest is not None:
            own = [mount for mount in manifest.mounts if mount.source == name]
            into = [f"{each.source}:{each.pattern}" for each in manifest.mounts if each.target == name]
            resource = manifest.resources[name]
            lines = details.of_resource(resource, self._health(name), own, into, self.sheet.room)
            self.sheet.tell(f"{name}  {resource.lane}", lines)
        else:
            self.sheet.close()

    def action_page(self, pages: int) -> None:
        """Scroll the sheet, or else the picture."""
        if not self.sheet.page(pages):
            self.canvas.page(pages)

    def action_browse(self) -> None:
        """Open the address in the browser."""
        if address := self._address():
            self.app.open_url(address)

    def action_copy(self) -> None:
        """Copy the address."""
        if address := self._address():
            self.app.copy_to_clipboard(address)
            self.notify(f"copied {address}", timeout=3, markup=False)

    def _address(self) -> str | None:
        """Return where what is selected answers; a private Resource does at its first mount."""
        if (edge := self._edge) is not None:
            return self._mounted(edge.mount)
        if (name := self._resource) is None or self._manifest is None:
            return self._state.address
        if address := self._health(name).address:
            return address
        into = (self._mounted(mount) for mount in self._manifest.mounts if mount.target == name)
        return next((address for address in into if address), None)

    def _mounted(self, mount: Mount) -> str | None:
        address = self._health(mount.source).address
        return address.rstrip("/") + mount.pattern.removesuffix("*") if address else None

    def action_logs(self) -> None:
        """Show the logs of the Resource that is selected."""
        if (name := self._resource) is not None:
            self.post_message(self.Visit("logs", f"resource={name}"))

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
            begun: Line = ((source, "bold"), (" → ", "dim"), ("…", "dim"))
            return begun
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
        self._tell_foot()
        self.sheet.ask(f"{after.target} answers the requests to {after.source} at", after.pattern)
        self.refresh_bindings()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what svc.toml becomes by what is written, or what is wrong with it."""
        self.run_worker(self._try(event.value), group="try", exclusive=True, description="plan an edit")

    def _edit(self, pattern: str) -> list[Edit]:
        if self._asking is None:
            return []
        before, after = self._asking
        wanted = Mount(after.source, pattern.strip(), after.target)
        return [] if wanted == before else [Edit(before, wanted)]

    async def _try(self, pattern: str) -> None:
        if self._asking is None:
            return
        title = str(self.sheet.border_title).strip()
        try:
            plan = await self._draft.planned(*self._edit(pattern))
        except SvcError as error:
            self.sheet.tell(title, details.problem(error.message, error.hint))
        else:
            self.sheet.tell(title, details.difference(plan.diff))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the edit, unless something is wrong with it."""
        self.run_worker(self._keep(self._edit(event.value)), group="edit", description="keep an edit")

    def action_remove(self) -> None:
        """Remove the mount that is selected."""
        if (edge := self._edge) is not None and edge.mark != "removed":
            self._close_details()
            work = self._keep([Edit(edge.mount, None)])
            self.run_worker(work, group="edit", description="keep an edit")

    async def _keep(self, edits: Sequence[Edit]) -> None:
        if self._manifest is None:
            return
        try:
            await self._draft.add(self._manifest.mounts, *edits)
        except SvcError as error:
            if self._asking is None:
                self.tell(error)
            return
        self._asking = None
        self.sheet.answered()
        self.canvas.focus()
        self._show_draft()
        await self._draw()
        if edits and (made := edits[-1].after) in self._mounts() and made is not None:
            self.canvas.select(Hit("edge", edge_key(made)))

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

    def action_write(self) -> None:
        """Write the edits into svc.toml."""
        self.run_worker(self._write(), group="edit", description="write svc.toml")

    async def _write(self) -> None:
        try:
            await self._draft.write()
        except SvcError as error:
            self.tell(error)
            await self._draft.again()
        else:
            self.notify("svc.toml is written and applies now; u undoes it", timeout=4)
        self._show_draft()
        await self._see()

    def action_undo(self) -> None:
        """Drop the last edit, or undo what was written last."""
        self.run_worker(self._undo(), group="edit", description="undo")

    async def _undo(self) -> None:
        if self._manifest is None:
            return
        try:
            await self._draft.take_back(self._manifest.mounts)
        except SvcError as error:
            self.tell(error)
        self._show_draft()
        await self._draw()

    # The way back

    def action_back(self) -> None:
        """Leave what is going on: a question, a line, details, or else the last edit."""
        if self._asking is not None:
            self._asking = None
            self.sheet.answered()
            self.canvas.focus()
            self._show_draft()
            self._tell_foot()
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
            "browse": walking,
            "copy": walking,
            "logs": walking and self._resource is not None,
        }.get(action, True)
