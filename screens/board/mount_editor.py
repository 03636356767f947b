"""Interactive edits of mounts: the edge being drawn, its pattern, and the unsaved edits."""

from collections.abc import Callable, Sequence

from screens.board.canvas import Canvas, DetailsPanel
from screens.board.cards import Line, diff_lines, error_lines
from screens.board.diagram import door_of
from screens.board.edits import MountDraft, MountEdit, apply_edits, default_pattern, target_problems
from screens.board.model import BoardModel
from screens.board.project import BoardMount
from screens.project_client import ProjectClient
from svc_tui.client import SvcError
from svc_tui.terminal.units import plural


class MountEditor:
    """State and steps of an edit. It draws on the canvas and the panel of its screen.

    `connecting` is the source of the edge being drawn. `prompt` is the mount whose pattern is being edited,
    as (before, after); `before` is None for a new mount. `on_change` is called after a change of either.
    """

    def __init__(
        self,
        client: ProjectClient,
        model: BoardModel,
        panel: Callable[[], DetailsPanel],
        canvas: Callable[[], Canvas],
        on_change: Callable[[], None],
    ) -> None:
        self.draft = MountDraft(client, lambda: model.manifest.mounts)
        self._deployed = client.info.kind == "service"
        self.connecting: str | None = None
        self.prompt: tuple[BoardMount | None, BoardMount] | None = None
        self._model = model
        self._panel = panel
        self._canvas = canvas
        self._on_change = on_change
        self._problems: dict[str, str] = {}

    @property
    def idle(self) -> bool:
        """True while no edge is drawn and no pattern edited."""
        return self.connecting is None and self.prompt is None

    def status_line(self) -> Line | None:
        """Return the status line of the edit in progress, or None."""
        if self.prompt is not None:
            return (("/prefix/* matches all paths below it, /path only this path", "dim"),)
        if self.connecting is None:
            return None
        target = self._canvas().aim
        if target is None:
            return ((self.connecting, "bold"), (" → ", "dim"), ("…", "dim"))
        name = door_of(target) or target
        line: Line = ((self.connecting, "bold"), (" → ", "dim"), (name, "bold"), ("   ", ""))
        problem = self._problem(target)
        return (*line, (problem, "warn") if problem else ("enter mounts it, arrows choose another", "dim"))

    # Drawing an edge

    def _mounts(self) -> list[BoardMount]:
        """Return the mounts after the unsaved edits."""
        return apply_edits(self._model.manifest.mounts, self.draft.edits)

    def can_connect(self, source: str) -> bool:
        """Return whether an edge can start at this node."""
        manifest = self._model.manifest
        return self.prompt is None and manifest.editable and source in manifest.resources

    def connect(self, source: str, *, dragged: bool) -> None:
        """Start drawing an edge. Aim at the likely target unless it is dragged with the mouse."""
        mounts = self._mounts()
        self._problems = target_problems(self._model.manifest, mounts, source)
        valid = [name for name, problem in self._problems.items() if not problem]
        targets = {mount.target for mount in mounts if mount.source == source}
        likely = next((name for name in valid if name not in targets), next(iter(valid), None))
        self.connecting = source
        self._canvas().start_connecting(source, frozenset(valid), None if dragged else likely)
        self._on_change()

    def _problem(self, target: str) -> str:
        if door_of(target) is not None:
            return "code reaches a Door at an address in its environment, not through a mount"
        return self._problems.get(target, "")

    def drop(self, target: str | None) -> tuple[str, str] | None:
        """End a dragged edge at a node. Return source and target of a valid mount, or None."""
        if target is None or self._problem(target):
            self.stop_connecting()
            return None
        return self.join(target)

    def join(self, target: str | None) -> tuple[str, str] | None:
        """End the edge at a node. Return source and target, or None for an invalid target: the edge stays."""
        source = self.connecting
        if source is None or target is None or self._problem(target):
            return None
        self.stop_connecting()
        return source, target

    def stop_connecting(self) -> None:
        """Cancel the edge being drawn."""
        self.connecting = None
        self._canvas().stop_connecting()
        self._on_change()

    # Editing a pattern

    def ask_new(self, source: str, target: str) -> None:
        self.ask(None, BoardMount(source, default_pattern(self._mounts(), source, target), target))

    def ask(self, before: BoardMount | None, after: BoardMount) -> None:
        """Ask for the pattern of `after`, which replaces `before`."""
        self.prompt = before, after
        self._canvas().can_focus = False
        self._panel().prompt(f"Mount {after.target} in {after.source} at", after.pattern)
        self._on_change()

    def prompted(self, pattern: str) -> list[MountEdit]:
        """Return the edit that a typed pattern makes, or an empty list if it changes nothing."""
        if self.prompt is None:
            return []
        before, after = self.prompt
        mount = BoardMount(after.source, pattern.strip(), after.target)
        return [] if mount == before else [MountEdit(before, mount)]

    async def preview(self, pattern: str) -> None:
        """Show the diff of svc.toml for a typed pattern, or its error."""
        if self.prompt is None:
            return
        try:
            plan = await self.draft.preview(*self.prompted(pattern))
        except SvcError as error:
            self._panel().set_lines(error_lines(error.message, error.hint))
        else:
            self._panel().set_lines(diff_lines(plan["diff"]))

    async def add(self, edits: Sequence[MountEdit]) -> bool:
        """Add edits to the draft and close the prompt; return False if the prompt shows their error.

        Raises `SvcError` for an invalid edit without a prompt.
        """
        try:
            await self.draft.add(*edits)
        except SvcError as error:
            if self.prompt is None:
                raise
            self._panel().set_lines(error_lines(error.message, error.hint))
            return False
        self.close_prompt()
        return True

    def close_prompt(self) -> None:
        """Close the input and focus the canvas."""
        self.prompt = None
        self._panel().hide_input()
        self._canvas().can_focus = True
        self._canvas().focus()
        self.show_draft()
        self._on_change()

    # Unsaved edits

    def show_draft(self) -> None:
        """Show the diff of the unsaved edits, or close the panel if there are none."""
        if self.prompt is not None:
            return
        panel, count = self._panel(), len(self.draft.edits)
        if not count:
            panel.close()
        elif (problem := self.draft.problem) is not None:
            lines = error_lines(problem.message, problem.hint)
            title = (
                "the live deployment has changed"
                if self._deployed
                else "svc.toml was changed by another program"
            )
            panel.show(title, lines)
        elif (plan := self.draft.plan) is not None:
            edits = plural(count, "unsaved edit")
            effect = "activates a deployment" if self._deployed else "writes svc.toml"
            panel.show(f"{edits}: ctrl+s {effect}", diff_lines(plan["diff"]))
