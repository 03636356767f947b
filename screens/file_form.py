"""Forms that read or write a file: a path field with completion, progress, and cancellation."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.suggester import Suggester
from textual.widgets import Input, Static

from screens.dialog import ConfirmDialog
from screens.files import OnBytes, complete_path, parse_path, write_file
from screens.form import Field, Form
from screens.terminal_app import downloads_of
from screens.web_driver import BrowserDriver
from svc_tui.client import SvcError
from svc_tui.terminal.units import size

T = TypeVar("T")
MAX_DOWNLOAD_BYTES = 256 << 20
"""Maximum size of an export that a browser downloads from a Console at a service."""
_PROGRESS_SECONDS = 0.1


class _PathSuggester(Suggester):
    """Suggests the completion of a path."""

    async def get_suggestion(self, value: str) -> str | None:
        """Return the path, completed as far as it is unambiguous."""
        completed = complete_path(value) if value else value
        return completed if completed != value else None


class PathInput(Input):
    """A path input. Tab completes the path, or moves on if nothing can be completed."""

    GROUP: ClassVar[str] = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", "Complete", show=False, id="tables.path-complete")
    ]

    def action_complete(self) -> None:
        """Complete the path to the common prefix of the matching files."""
        completed = complete_path(self.value) if self.value else self.value
        if completed == self.value:
            self.screen.focus_next()
            return
        self.value = completed
        self.cursor_position = len(completed)


class PathField(Field):
    """A labeled path input."""

    DEFAULT_CSS = """
    PathField > PathInput { width: 1fr; height: 1; border: none; padding: 0 1; background: $panel; }
    PathField > PathInput:focus { border: none; background: $boost; }
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
    """A form with long-running work: shows its progress, and `esc` stops it."""

    GROUP: ClassVar[str] = "Tables"
    DEFAULT_CSS = """
    FileForm .about { margin-bottom: 1; color: $foreground-muted; }
    FileForm #progress { display: none; color: $text-primary; margin-bottom: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.progress = ""
        """The progress text, written by the worker thread."""
        self.stopped = threading.Event()
        self._busy = False

    def on_mount(self) -> None:
        """Start updating the progress line."""
        self.set_interval(_PROGRESS_SECONDS, self._update_progress)

    def _update_progress(self) -> None:
        line = self.query_one("#progress", Static)
        line.update(Content.from_markup("$how\n[dim]esc stops[/]", how=self.progress))
        if self._busy and not line.display:
            self.call_after_refresh(line.scroll_visible, animate=False)
        line.display = self._busy

    def action_submit(self) -> None:
        """Submit, unless the work is already running."""
        if not self._busy:
            super().action_submit()

    async def submit(self) -> T:
        """Run the work and show its progress."""
        self._busy = True
        self.stopped.clear()
        self.progress = ""
        try:
            return await self.work()
        finally:
            self._busy = False
            self._update_progress()

    async def work(self) -> T:
        """Do the work and return the result of the form. Raises `SvcError`."""
        raise NotImplementedError

    def target(self) -> Path:
        """Return the path that the user entered; for a download, the same name in the folder of downloads."""
        path, folder = parse_path(self.value("file")), downloads_of(self.app)
        if folder is None:
            return path
        for earlier in folder.iterdir():
            earlier.unlink()
        return folder / path.name

    def write(self, path: Path, chunks: Iterator[bytes], on_bytes: OnBytes) -> int:
        """Write the file and return its size. Raises `SvcError`."""
        limit = None if downloads_of(self.app) is None else MAX_DOWNLOAD_BYTES

        def limited(done: int, total: int) -> None:
            if limit is not None and done > limit:
                raise SvcError(
                    f"a download has at most {size(limit)}",
                    "Export it with `svc tables export` or `svc logs` on your machine.",
                )
            on_bytes(done, total)

        return write_file(path, chunks, limited, self.stopped)

    def show_exported(self, what: str, path: Path) -> None:
        """Notify of the written file; have the browser download it if it is for another machine."""
        if downloads_of(self.app) is None:
            self.app.notify(f"exported {what} to {path}", markup=False)
        elif isinstance(self.app._driver, BrowserDriver):
            self.app._driver.send_download(path.name)
            self.app.notify(f"exported {what}; your browser downloads {path.name}", markup=False)

    async def confirm_overwrite(self, path: Path) -> None:
        """Ask before replacing a file. Raises `SvcError` if the user declines or the path is a folder."""
        if downloads_of(self.app) is not None:
            return
        if path.is_dir():
            raise SvcError(f"{path} is a folder", "Enter the name of a file in it.")
        if path.exists():
            dialog = ConfirmDialog(
                f"{path} already exists", "It is replaced after all data has been written.", "replace it"
            )
            if not await self.app.push_screen_wait(dialog):
                raise SvcError("nothing was written")

    def action_cancel(self) -> None:
        """Stop the work; close the form if no work is running."""
        if self._busy:
            self.stopped.set()
        else:
            super().action_cancel()
