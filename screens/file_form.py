"""What dialogues of files share: a line for a path that completes, and progress that can be ended."""

import threading
from pathlib import Path
from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.suggester import Suggester
from textual.widgets import Input, Static

from screens.dialog import ConfirmDialog
from screens.files import complete_path
from screens.form import Field, Form
from svc_tui.client import SvcError

T = TypeVar("T")
_PROGRESS_SECONDS = 0.1


class _PathSuggester(Suggester):
    """Says what a path goes on with."""

    async def get_suggestion(self, value: str) -> str | None:
        """Return the path as far as there is only one way to go on."""
        found = complete_path(value) if value else value
        return found if found != value else None


class PathInput(Input):
    """A line for a path: tab completes it, and goes on where there is nothing to complete."""

    GROUP: ClassVar[str] = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", "Complete", show=False, id="tables.path-complete")
    ]

    def action_complete(self) -> None:
        """Write what all files that begin so have in common."""
        found = complete_path(self.value) if self.value else self.value
        if found == self.value:
            self.screen.focus_next()
            return
        self.value = found
        self.cursor_position = len(found)


class PathField(Field):
    """One path to fill in."""

    DEFAULT_CSS = """
    PathField > PathLine { width: 1fr; height: 1; border: none; padding: 0 1; background: $panel; }
    PathField > PathLine:focus { border: none; background: $boost; }
    """

    def __init__(self, label: str, id: str, value: str = "", *, example: str = "") -> None:
        super().__init__(label, id, value, example=example)
        self.input = PathInput(
            value,
            placeholder=example,
            id=id,
            select_on_focus=False,
            suggester=_PathSuggester(use_cache=False),
        )


class FileForm(Form[T]):
    """A dialogue whose work takes a while: it says how far it is, and `esc` ends it."""

    GROUP: ClassVar[str] = "Tables"
    DEFAULT_CSS = """
    FileForm #progress { display: none; color: $text-primary; margin-bottom: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.progress = ""
        """How far the work is, written by its thread."""
        self.stopped = threading.Event()
        self._busy = False

    def on_mount(self) -> None:
        """Show how far the work is."""
        self.set_interval(_PROGRESS_SECONDS, self._update_progress)

    def _update_progress(self) -> None:
        line = self.query_one("#progress", Static)
        line.update(Content.from_markup("$how\n[dim]esc breaks it off[/]", how=self.progress))
        if self._busy and not line.display:
            self.call_after_refresh(line.scroll_visible, animate=False)
        line.display = self._busy

    def action_submit(self) -> None:
        """Do it, unless it is being done."""
        if not self._busy:
            super().action_submit()

    async def submit(self) -> T:
        """Work, and say that one does."""
        self._busy = True
        self.stopped.clear()
        self.progress = ""
        try:
            return await self.work()
        finally:
            self._busy = False
            self._update_progress()

    async def work(self) -> T:
        """Do what the form is for; raises `SvcError`."""
        raise NotImplementedError

    async def confirm_overwrite(self, path: Path) -> None:
        """Ask before another file goes. Raises `SvcError` where nothing is to be written."""
        if path.is_dir():
            raise SvcError(f"{path} is a folder", "Write the name of a file in it.")
        if path.exists():
            asked = ConfirmDialog(
                f"{path} is there already", "It is replaced once all is written.", "replace it"
            )
            if not await self.app.push_screen_wait(asked):
                raise SvcError("nothing was written")

    def action_leave(self) -> None:
        """End the work; where there is none, leave."""
        if self._busy:
            self.stopped.set()
        else:
            super().action_cancel()
