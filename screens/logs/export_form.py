"""What Logs shows into a file, which is there whole in the end or as it was before."""

import asyncio
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from screens.file_form import FileForm, PathField
from screens.files import format_size, parse_path, progress_bar, write_file
from screens.form import require_filled
from screens.logs.export import as_lines, exported
from screens.logs.filter import Filter
from screens.project_client import ProjectClient


class ExportForm(FileForm[Path]):
    """Gives the path of the file that was written."""

    GROUP: ClassVar[str] = "Logs"
    TITLE_TEXT: ClassVar[str] = "Export what is shown"
    DONE: ClassVar[str] = "export"
    DEFAULT_CSS = """
    ExportForm .about { margin-bottom: 1; color: $foreground-muted; }
    """

    def __init__(self, link: ProjectClient, filter: Filter) -> None:
        super().__init__()
        self._link, self._filter = link, filter
        self._records = 0

    def fields(self) -> ComposeResult:
        """Yield the file, and what it gets."""
        yield PathField("file", "file", "logs.jsonl", example="logs.jsonl")
        shown = self._filter.words() or "every request, record and line"
        about = f"{shown}\n.jsonl has all that was recorded, .txt or .log lines to read"
        yield Static(Content(about), classes="about")
        yield Static(id="progress")

    async def work(self) -> Path:
        """Write it, and ask before another file goes."""
        require_filled([("file", self.value("file"))])
        path = parse_path(self.value("file"))
        lines = as_lines(path)
        await self.confirm_overwrite(path)
        done = await asyncio.to_thread(self._save, path, lines)
        self.app.notify(f"{self._records:,} records, {format_size(done)}, are in {path}", markup=False)
        return path

    def _save(self, path: Path, lines: bool) -> int:
        found = exported(self._link, self._filter, lines=lines, tell=self._told)
        return write_file(path, found, lambda done, total: None, self.stopped)

    def _told(self, records: int, share: float) -> None:
        self._records = records
        self.progress = f"{progress_bar(int(share * 1000), 1000)}  {records:,} records"
