"""The Board: the view of a project, with edits of its mounts."""

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual import work
from textual.binding import BindingType
from textual.widgets import Input

from screens.board.bindings import BOARD_BINDINGS
from screens.board.board_view import BoardView
from screens.board.canvas import Canvas
from screens.board.diagram import edge_key
from screens.board.edits import MountEdit
from screens.board.render import Hit
from screens.console_screen import Tab
from svc_tui.client import SvcError


class BoardScreen(BoardView):
    """Resources, mounts and Doors of a project, with edits of the mounts."""

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
        & #hint { display: none; height: auto; padding: 0 2; color: $foreground 60%; }
        & #status { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = BOARD_BINDINGS

    def action_connect(self) -> None:
        """Start drawing a mount from the selected resource."""
        if (name := self._resource) is not None:
            self._connect(name, dragged=False)

    def on_canvas_dragged(self, event: Canvas.Dragged) -> None:
        """Start drawing a mount from the pressed node."""
        self._connect(event.source, dragged=True)

    def _connect(self, source: str, *, dragged: bool) -> None:
        if self._editor.can_connect(source):
            self._close_details()
            self._editor.connect(source, dragged=dragged)

    def _ask_pattern(self, ends: tuple[str, str] | None) -> None:
        if ends is not None:
            self._close_details()
            self._editor.ask_new(*ends)

    def on_canvas_aimed(self) -> None:
        """Show the target of the line in the status line."""
        self._update_status()

    def action_join(self) -> None:
        """Connect to the current target."""
        ends = self._editor.join(self.canvas.aim)
        if ends is None:
            self.app.bell()
        self._ask_pattern(ends)

    def on_canvas_joined(self, event: Canvas.Joined) -> None:
        """Connect to the node where the mouse was released."""
        self._ask_pattern(self._editor.drop(event.target))

    def action_pattern(self) -> None:
        """Edit the pattern of the selected mount."""
        if (edge := self._mount) is not None:
            self._close_details()
            self._editor.ask(edge.mount, edge.mount)

    @work(group="preview", exclusive=True)
    async def on_input_changed(self, event: Input.Changed) -> None:
        """Show the diff of svc.toml for the typed pattern, or its error."""
        await self._editor.preview(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Add the edit to the draft if it is valid."""
        self._add(self._editor.prompted(event.value))

    def action_remove(self) -> None:
        """Remove the selected mount."""
        if (edge := self._mount) is not None:
            self._close_details()
            self._add([MountEdit(edge.mount, None)])

    @work(group="edit")
    async def _add(self, edits: Sequence[MountEdit]) -> None:
        try:
            if not await self._editor.add(edits):
                return
        except SvcError as error:
            self.show_error(error)
            return
        self._show_draft()
        await self._draw()
        self._select_last(edits)

    def _select_last(self, edits: Sequence[MountEdit]) -> None:
        """Select the edge of the last edit, or its source if the diagram does not have the edge."""
        for edit in edits[-1:]:
            mounts = [mount for mount in (edit.before, edit.after) if mount is not None]
            self.canvas.select(Hit("node", mounts[0].source))
            for mount in mounts:
                self.canvas.select(Hit("edge", edge_key(mount)))

    @work(group="edit")
    async def action_write(self) -> None:
        """Save the edits to svc.toml, or activate a deployment with them."""
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
        await self._load()

    @work(group="edit")
    async def action_undo(self) -> None:
        """Remove the last edit, or stage the inverse of the last saved edits."""
        await self._restage(self._editor.undo)

    @work(group="edit")
    async def action_redo(self) -> None:
        """Reverse the last undo."""
        await self._restage(self._editor.redo)

    def action_nothing(self, name: str) -> None:
        """Notify the user that there is nothing to undo or redo."""
        self.notify(f"nothing to {name}", timeout=3)

    async def _restage(self, change: Callable[[], Awaitable[None]]) -> None:
        edits = self._draft.edits
        with self.shown_errors():
            await change()
        self._show_draft()
        await self._draw()
        self._select_last(max(edits, self._draft.edits, key=len))

    def action_back(self) -> None:
        """Close the input, the line being drawn or the details; otherwise remove the last edit."""
        if self._editor.prompt is not None:
            self._editor.close_prompt()
        elif self._editor.connecting is not None:
            self._editor.stop_connecting()
        elif self._nodes_open:
            self.action_nodes()
            self.canvas.focus()
        elif self._details_shown:
            self._details_open = False
            self._show_panel()
        elif self._draft.edits:
            self.action_undo()
        self.refresh_bindings()
