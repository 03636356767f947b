"""A table, or what is shown of it, into a file, which is there whole in the end or as it was before."""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from screens.file_form import FileForm, PathField
from screens.files import parse_path, write_file
from screens.form import Field, require_filled
from screens.project_client import ProjectClient
from screens.tables.files import DATABASE_FORMATS, format_of
from screens.tables.grid import RemoteGrid
from screens.tables.query import RowQuery
from svc_tui.client import SvcError
from svc_tui.terminal.units import size

SHOWN, ALL = "shown", "all"


class TableExportForm(FileForm[Path]):
    """Gives the path of the file that was written."""

    DONE: ClassVar[str] = "export"
    TITLE_TEXT: ClassVar[str] = "Export the table"

    DEFAULT_CSS = """
    TableExportForm .about { margin-bottom: 1; color: $foreground-muted; }
    """

    def __init__(self, link: ProjectClient, grid: RemoteGrid) -> None:
        super().__init__()
        self._link, self._grid = link, grid
        self._plain = grid.query == RowQuery()

    def fields(self) -> ComposeResult:
        """Yield the file, which rows it gets where some are not shown, and how."""
        yield PathField("file", "file", f"{self._grid.table}.csv", example="people.csv")
        about = "All rows, as .csv, .json, .jsonl, .sql or .db."
        if not self._plain:
            yield Field("rows", "rows", SHOWN, example=f"{SHOWN} or {ALL}")
            about = (
                f"{SHOWN}: the {self._grid.total:,} rows that are shown, in their order, as .csv, .json or"
                f" .jsonl; {ALL}: the table, as .sql or .db, too."
            )
        yield Static(Content(about), classes="about")
        yield Static(id="progress")

    async def work(self) -> Path:
        """Write it, and ask before another file goes."""
        require_filled([("file", self.value("file"))])
        path, format = parse_path(self.value("file")), format_of(self.value("file"))
        source = self._source(format)
        await self.confirm_overwrite(path)
        done = await asyncio.to_thread(self._save, path, *source)
        self.app.notify(f"exported {size(done)} to {path}", markup=False)
        return path

    def _source(self, format: str) -> tuple[str, dict[str, Any]]:
        """Return what of the control API has the rows that are wanted. Raises `SvcError`."""
        wanted = ALL if self._plain else self.value("rows").strip() or SHOWN
        if wanted == ALL:
            return "/export", {"format": format, "table": self._grid.table}
        if wanted != SHOWN:
            raise SvcError(f"rows cannot be {wanted}", f"Write {SHOWN} or {ALL}.")
        if format in DATABASE_FORMATS:
            raise SvcError(
                f"a .{format} file has whole tables, not the rows that are shown",
                f"Write {ALL} at rows, or a file of rows: .csv, .json or .jsonl.",
            )
        return f"/grid/{self._grid.id}/export", {"format": format}

    def _save(self, path: Path, source: str, params: dict[str, Any]) -> int:
        with self._link.download(source, params=params) as bytes:
            return write_file(path, bytes, self._written, self.stopped)

    def _written(self, done: int, total: int) -> None:
        self.progress = f"{size(done)} written"
