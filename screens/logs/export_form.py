"""Form for exporting the filtered timeline to a file."""

import asyncio
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from screens.file_form import FileForm, PathField
from screens.files import progress_bar
from screens.form import require_filled
from screens.logs.export import export_records, is_text_file
from screens.logs.filter import RecordSelection
from screens.project_client import ProjectClient
from svc_tui.terminal.units import plural, size


class LogExportForm(FileForm[Path]):
    """Returns the path of the written file."""

    GROUP: ClassVar[str] = "Logs"
    TITLE_TEXT: ClassVar[str] = "Export records"
    DONE: ClassVar[str] = "export"

    def __init__(self, client: ProjectClient, filter: RecordSelection) -> None:
        super().__init__()
        self._client, self._filter = client, filter
        self._records = 0

    def fields(self) -> ComposeResult:
        """Yield the path and a description."""
        yield PathField("file", "file", "logs.jsonl", example="logs.jsonl")
        selection = self._filter.words() or "all records"
        about = f"{selection}\n.jsonl writes complete JSON records; .txt and .log write text lines"
        yield Static(Content(about), classes="about")
        yield Static(id="progress")

    async def work(self) -> Path:
        """Write the file; ask before replacing one."""
        require_filled([("file", self.value("file"))])
        path = self.target()
        lines = is_text_file(path)
        await self.confirm_overwrite(path)
        done = await asyncio.to_thread(self._save, path, lines)
        self.show_exported(f"{plural(self._records, 'record')} ({size(done)})", path)
        return path

    def _save(self, path: Path, lines: bool) -> int:
        chunks = export_records(self._client, self._filter, lines=lines, on_progress=self._update_count)
        return self.write(path, chunks, lambda done, total: None)

    def _update_count(self, records: int, share: float) -> None:
        self._records = records
        self.progress = f"{progress_bar(int(share * 1000), 1000)}  {plural(records, 'record')}"
