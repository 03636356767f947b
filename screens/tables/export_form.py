"""A table into a file, which is there whole in the end or as it was before."""

import asyncio
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from screens.file_form import FileForm, PathField
from screens.files import keep, place, size
from screens.form import filled
from screens.link import Link
from screens.tables.files import format_of


class ExportForm(FileForm[Path]):
    """Gives the path of the file that was written."""

    DONE: ClassVar[str] = "export"
    TITLE_TEXT: ClassVar[str] = "Export the table"

    DEFAULT_CSS = """
    ExportForm .about { margin-bottom: 1; color: $foreground-muted; }
    """

    def __init__(self, link: Link, table: str) -> None:
        super().__init__()
        self._link, self._table = link, table

    def fields(self) -> ComposeResult:
        """Yield the file, and what it gets."""
        yield PathField("file", "file", f"{self._table}.csv", example="people.csv")
        about = "All rows, as .csv, .json, .jsonl, .sql or .db."
        yield Static(Content(about), classes="about")
        yield Static(id="progress")

    async def work(self) -> Path:
        """Write it, and ask before another file goes."""
        filled([("file", self.value("file"))])
        path, format = place(self.value("file")), format_of(self.value("file"))
        await self.may_write(path)
        done = await asyncio.to_thread(self._save, path, format)
        self.app.notify(f"exported {size(done)} to {path}", markup=False)
        return path

    def _save(self, path: Path, format: str) -> int:
        params = {"format": format, "table": self._table}
        with self._link.download("/export", params=params) as bytes:
            return keep(path, bytes, self._written, self.stopped)

    def _written(self, done: int, total: int) -> None:
        self.progress = f"{size(done)} written"
