"""Form for exporting the filtered timeline to a file."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from screens.file_form import FileForm, PathField
from screens.files import progress_bar
from screens.form import require_filled
from screens.logs.export import export_of_fleet, export_records, is_text_file
from screens.logs.filter import RecordSelection
from screens.project_client import ProjectClient
from svc_tui.terminal.units import plural, size

RECORDS_PER_UPDATE = 500
"""Number of records between two updates of the progress."""


class LogExportForm(FileForm[Path]):
    """Returns the path of the written file."""

    GROUP: ClassVar[str] = "Logs"
    TITLE_TEXT: ClassVar[str] = "Export records"
    DONE: ClassVar[str] = "export"

    def __init__(self, client: ProjectClient, filter: RecordSelection) -> None:
        super().__init__()
        self._client, self._filter = client, filter
        self._records = 0
        self._missing: set[str] = set()

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
        if self._missing:
            names = ", ".join(sorted(self._missing))
            self.app.notify(f"without the records of {names}, which did not answer", severity="warning")
        self.show_exported(f"{plural(self._records, 'record')} ({size(done)})", path)
        return path

    def _save(self, path: Path, lines: bool) -> int:
        if self._client.in_fleet:
            chunks = self._counted(export_of_fleet(self._client, self._filter, self._missing, lines=lines))
        else:
            chunks = export_records(self._client, self._filter, lines=lines, on_progress=self._update_count)
        return self.write(path, chunks, lambda done, total: None)

    def _counted(self, records: Iterator[bytes]) -> Iterator[bytes]:
        """Yield records and show their number, some at a time."""
        for record in records:
            self._records += 1
            if self._records % RECORDS_PER_UPDATE == 0:
                self.progress = f"{plural(self._records, 'record')}"
            yield record

    def _update_count(self, records: int, share: float) -> None:
        self._records = records
        self.progress = f"{progress_bar(int(share * 1000), 1000)}  {plural(records, 'record')}"
