"""Form for exporting the filtered timeline to a file."""

import asyncio
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from screens.file_form import FileForm, PathField
from screens.files import parse_path, progress_bar, write_file
from screens.form import require_filled
from screens.logs.export import export_records, is_text_file
from screens.logs.filter import RecordSelection
from screens.project_client import ProjectClient
from svc_tui.terminal.units import size


class LogExportForm(FileForm[Path]):
    """Returns the path of the written file."""

    GROUP: ClassVar[str] = "Logs"
    TITLE_TEXT: ClassVar[str] = "Export records"
    DONE: ClassVar[str] = "export"
    DEFAULT_CSS = """
    LogExportForm .about { margin-bottom: 1; color: $foreground-muted; }
    """

    def __init__(self, client: ProjectClient, filter: RecordSelection) -> None:
        super().__init__()
        self._client, self._filter = client, filter
        self._records = 0

    def fields(self) -> ComposeResult:
        """Yield the path and a description."""
        yield PathField("file", "file", "logs.jsonl", example="logs.jsonl")
        shown = self._filter.words() or "all records"
        about = f"{shown}\n.jsonl writes complete JSON records; .txt and .log write text lines"
        yield Static(Content(about), classes="about")
        yield Static(id="progress")

    async def work(self) -> Path:
        """Write the file; ask before replacing one."""
        require_filled([("file", self.value("file"))])
        path = parse_path(self.value("file"))
        lines = is_text_file(path)
        await self.confirm_overwrite(path)
        done = await asyncio.to_thread(self._save, path, lines)
        self.app.notify(f"exported {self._records:,} records ({size(done)}) to {path}", markup=False)
        return path

    def _save(self, path: Path, lines: bool) -> int:
        chunks = export_records(self._client, self._filter, lines=lines, on_progress=self._update_count)
        return write_file(path, chunks, lambda done, total: None, self.stopped)

    def _update_count(self, records: int, share: float) -> None:
        self._records = records
        self.progress = f"{progress_bar(int(share * 1000), 1000)}  {records:,} records"
