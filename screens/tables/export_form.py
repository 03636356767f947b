"""The form that exports a table, or its shown rows, to a file."""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from screens.file_form import FileForm, PathField
from screens.form import Field, require_filled
from screens.project_client import ProjectClient
from screens.tables.files import DATABASE_FORMATS, format_of
from screens.tables.grid import RemoteGrid
from screens.tables.query import RowQuery
from svc_tui.client import SvcError
from svc_tui.terminal.units import size

SHOWN, ALL = "shown", "all"


class TableExportForm(FileForm[Path]):
    """Exports rows. Returns the path of the file."""

    DONE: ClassVar[str] = "export"
    TITLE_TEXT: ClassVar[str] = "Export the table"

    def __init__(self, client: ProjectClient, grid: RemoteGrid) -> None:
        super().__init__()
        self._client, self._grid = client, grid
        self._is_unfiltered = grid.query == RowQuery()

    def fields(self) -> ComposeResult:
        """Yield the file, the choice of rows if the grid is filtered or sorted, and the formats."""
        yield PathField("file", "file", f"{self._grid.table}.csv", example="people.csv")
        about = "All rows, as .csv, .json, .jsonl, .sql or .db."
        if not self._is_unfiltered:
            yield Field("rows", "rows", SHOWN, example=f"{SHOWN} or {ALL}")
            about = (
                f"{SHOWN}: the {self._grid.total:,} shown rows in their order, as .csv, .json or .jsonl;"
                f" {ALL}: the whole table, also as .sql or .db."
            )
        yield Static(Content(about), classes="about")
        yield Static(id="progress")

    async def work(self) -> Path:
        """Write the file; confirm before replacing an existing one. Raises `SvcError`."""
        require_filled([("file", self.value("file"))])
        path, format = self.target(), format_of(self.value("file"))
        source = self._source(format)
        await self.confirm_overwrite(path)
        written = await asyncio.to_thread(self._save, path, *source)
        self.show_exported(size(written), path)
        return path

    def _source(self, format: str) -> tuple[str, dict[str, Any]]:
        """Return path and parameters of the API request for the chosen rows. Raises `SvcError`."""
        rows = ALL if self._is_unfiltered else self.value("rows").strip() or SHOWN
        if rows == ALL:
            return "/export", {"format": format, "table": self._grid.table}
        if rows != SHOWN:
            raise SvcError(f"rows cannot be {rows}", f"Enter {SHOWN} or {ALL}.")
        if format in DATABASE_FORMATS:
            raise SvcError(
                f"a .{format} file has whole tables, not a selection of rows",
                f"Enter {ALL} for rows, or use .csv, .json or .jsonl.",
            )
        return f"/grid/{self._grid.id}/export", {"format": format}

    def _save(self, path: Path, source: str, params: dict[str, Any]) -> int:
        with self._client.download(source, params=params) as chunks:
            return self.write(path, chunks, self._show_written)

    def _show_written(self, done: int, total: int) -> None:
        self.progress = f"{size(done)} written"
