"""The Board to look at: the Project as a picture that is alive, and what is known of what is selected.

Owns when the Project is looked at, and where one goes from here. Keys, and edits, are `screen.py`'s.
"""

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.widgets import Static

from screens.board import details
from screens.board.canvas import Canvas
from screens.board.cards import ASCII_SIGNS, UNICODE_SIGNS, Line, door_card, resource_card
from screens.board.deploy_protocol import Deployer
from screens.board.deploy_screen import DeployScreen
from screens.board.details_panel import Sheet
from screens.board.diagram import Picture, Use, door_key, door_of, picture
from screens.board.edits import Edit, Shown
from screens.board.history_screen import HistoryScreen
from screens.board.project import Door, Health, Manifest, Mount, State
from screens.board.render import Hit
from screens.browser import open_in_browser
from screens.console_screen import Command, ConsoleScreen, Tab
from screens.project_client import ProjectClient
from screens.terminal_text import supports_unicode
from screens.widgets.content import to_content
from screens.widgets.row_source import Tone
from svc_tui.client import SvcError, Unreachable

SECONDS = 1.0
"""How often the Board looks at the manifest and at how all of it is."""
SCROLLBAR = 1
"""Cells that the picture leaves free, so that it is the same with what scrolls it."""
SHARE = 0.5
"""How much of the screen nodes that stand apart take at most: the sheet takes the other half."""


class BoardView(ConsoleScreen):
    """Resources, mounts and Doors, without a way to change them."""

    TAB: ClassVar[Tab] = "board"
    GROUP: ClassVar[str] = "Board"
    HELP: ClassVar[str] = (
        "Resources, the mounts between them, and Doors. An edge is a line of `mounts` in svc.toml: draw one\n"
        "with c or the mouse, look at the difference, and write it with ctrl+s. It applies at once."
    )
    AUTO_FOCUS = "Canvas"
    DEFAULT_CSS = """
    BoardView {
        & Canvas { height: 1fr; margin: 1 0 0 1; }
        & #hint { display: none; height: auto; padding: 0 2; color: $foreground 60%; }
        & #foot { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """

    def __init__(
        self, link: ProjectClient, deployer: Deployer | None = None, *, unicode: bool | None = None
    ) -> None:
        """Without `unicode` being said, the locale says it."""
        super().__init__(link)
        self._deployer = deployer
        self._unicode = supports_unicode() if unicode is None else unicode
        self._signs = UNICODE_SIGNS if self._unicode else ASCII_SIGNS
        self._manifest: Manifest | None = None
        self._state = State()
        self._seeing = False
        self._drawn: tuple[object, ...] = ()
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

    def engine_connected(self) -> None:
        """Look at the Project that is there now."""
        self._look()

    def on_resize(self) -> None:
        """Lay the picture out for the room there is."""
        self._draw_again()

    @work(group="draw")
    async def _draw_again(self) -> None:
        await self._draw()

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
        return [Command("select NAME", "Select a Resource or a Door", self.navigate)]

    def navigate(self, words: Sequence[str]) -> None:
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

    @property
    def _edits(self) -> tuple[Edit, ...]:
        """The edits to show in the picture that are not in the file."""
        return ()

    def _look(self) -> None:
        if self.client.state == "live" and not self._seeing:
            self._seeing = True
            self._see_once()

    @work(group="see")
    async def _see_once(self) -> None:
        try:
            await self._see()
        finally:
            self._seeing = False

    async def _see(self) -> None:
        """Take up what the manifest says and how all of it is."""
        try:
            manifest = Manifest.of(await self.client.call("GET", "/manifest"))
            self._state = State.of(await self.client.call("GET", "/state"))
        except Unreachable:
            return
        except SvcError as error:
            if not self.banner and error.code == "unauthenticated":
                self.show_error(error)
            self.banner = error.text
            return
        if not self.is_attached:
            return  # the Console was left meanwhile
        changed = self._manifest is not None and manifest.digest != self._manifest.digest
        self._manifest = manifest
        self.banner = manifest.broken
        if changed:
            await self._changed()
        await self._draw()

    async def _changed(self) -> None:
        """Follow a change of the file."""

    async def _draw(self) -> None:
        """Lay the picture out if anything in it has changed, and write into it how all of it is."""
        manifest = self._manifest
        if manifest is None:
            return
        room = self.canvas.size.width - SCROLLBAR
        doors = {name: frozenset(door.users) for name, door in self._state.doors.items()}
        rows = int(self.size.height * SHARE)
        wanted = (manifest.resources, manifest.mounts, self._edits, doors, room, rows)
        if wanted != self._drawn:
            self._drawn = wanted
            shown = await asyncio.to_thread(picture, manifest, self._edits, doors, room, rows)
            if wanted == self._drawn:
                self.canvas.show(shown)
                self.refresh_bindings()
        if (now := self.canvas.picture) is not None:
            self._write_in(now, manifest)
        self._tell_foot()
        self._tell_hint(manifest)
        if self._details:
            self._show_details()

    def _write_in(self, shown: Picture, manifest: Manifest) -> None:
        cards: dict[str, tuple[Line, ...]] = {}
        for node in shown.graph.nodes:
            width = node.width - 2 * shown.padding
            door = door_of(node.key)
            if door is not None:
                cards[node.key] = door_card(door, self._door(door), width, self._signs)
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
        elif len(manifest.resources) < 2:
            count = "One Resource" if manifest.resources else "No Resource yet"
            text = f"{count}. Add a table [resource.NAME] to svc.toml and it appears here at once."
        elif not manifest.mounts and not self._edits:
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

    @property
    def _use(self) -> Use | None:
        """The use of a Door that is selected."""
        shown = self.canvas.picture
        return shown.uses.get(self._hit.key) if shown is not None and self._hit is not None else None

    def on_canvas_selected(self) -> None:
        """Say what is selected."""
        self._tell_foot()
        if self._details:
            self._show_details()
        self.refresh_bindings()

    def _tell_foot(self) -> None:
        self.query_one("#foot", Static).update(to_content([self._foot()]))

    def _foot(self) -> Line:
        if (edge := self._edge) is not None:
            return details.mount_foot(edge, self._state.mounts.get((edge.mount.source, edge.mount.pattern)))
        if (name := self._resource) is not None and self._manifest is not None:
            return details.resource_foot(self._manifest.resources[name], self._health(name))
        if (use := self._use) is not None:
            return details.use_foot(use.resource, use.door, self._door(use.door).users.get(use.resource, 0))
        if self._hit is not None and (door := door_of(self._hit.key)) is not None:
            return details.door_foot(door, self._door(door))
        return ()

    def _door(self, name: str) -> Door:
        return self._state.doors.get(name, Door())

    def action_open(self) -> None:
        """Show what is known of what is selected."""
        if self._hit is not None:
            self._open(self._hit)

    def on_canvas_opened(self, event: Canvas.Opened) -> None:
        """Open what was clicked twice."""
        self._open(event.hit)

    def _open(self, hit: Hit) -> None:
        door = use.door if (use := self._use) is not None else door_of(hit.key)
        if door == "tables":
            self.post_message(self.OpenTab("tables"))
        elif door is not None:
            self.post_message(self.OpenTab("logs"))
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

    @work(group="browse")
    async def action_browse(self) -> None:
        """Open the address in the browser."""
        if address := self._address():
            try:
                await open_in_browser(self.app, address)
            except SvcError as error:
                self.show_error(error)

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
            self.post_message(self.OpenTab("logs", f"resource:{name}"))

    def action_deploy(self) -> None:
        """Show what a deploy would change, and have it go live from there."""
        if self._deployer is not None:
            self.app.push_screen(DeployScreen(self.client, self._deployer, len(self._edits)))

    def action_history(self) -> None:
        """Show what was deployed, and the way back."""
        if self._deployer is not None:
            self.app.push_screen(HistoryScreen(self.client, self._deployer))
