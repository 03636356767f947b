"""The form that exports the result of a statement to a file."""

import asyncio
import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from screens.file_form import FileForm, PathField
from screens.form import require_filled
from screens.tables.files import format_of
from screens.tables.result import ResultRows
from svc_tui.client import SvcError
from svc_tui.column_types import row_json, value_text
from svc_tui.terminal.units import plural, size

FORMATS = ("csv", "json", "jsonl")
CHUNK_ROWS = 1000
"""Rows per chunk that is written."""


class ResultExportForm(FileForm[Path]):
    """Exports the rows of a result. Returns the path of the file."""

    DONE: ClassVar[str] = "export"
    TITLE_TEXT: ClassVar[str] = "Export the result"

    def __init__(self, result: ResultRows) -> None:
        super().__init__()
        self._result = result

    def fields(self) -> ComposeResult:
        """Yield the file and the formats."""
        yield PathField("file", "file", "result.csv", example="result.csv")
        yield Static(
            Content(f"{plural(self._result.count(), 'row')}, as .csv, .json or .jsonl."), classes="about"
        )
        yield Static(id="progress")

    async def work(self) -> Path:
        """Write the file; confirm before replacing an existing one. Raises `SvcError`."""
        require_filled([("file", self.value("file"))])
        path, format = self.target(), format_of(self.value("file"))
        if format not in FORMATS:
            raise SvcError(f"a result cannot be exported as .{format}", "Use .csv, .json or .jsonl.")
        await self.confirm_overwrite(path)
        written = await asyncio.to_thread(self.write, path, chunks(self._result, format), self._show_written)
        self.show_exported(size(written), path)
        return path

    def _show_written(self, done: int, total: int) -> None:
        self.progress = f"{size(done)} written"


def chunks(result: ResultRows, format: str) -> Iterator[bytes]:
    """Yield the rows of a result in one of `FORMATS`."""
    rows, names = result.rows, result.names
    starts = range(0, len(rows), CHUNK_ROWS)
    if format == "csv":
        yield _csv_lines([names])
        for start in starts:
            yield _csv_lines(
                [[value_text(row[name]) for name in names] for row in rows[start : start + CHUNK_ROWS]]
            )
        return
    before, between, after = ("[\n", ",\n", "\n]\n") if format == "json" else ("", "\n", "\n" if rows else "")
    yield before.encode()
    for start in starts:
        lines = (row_json(row, result.types) for row in rows[start : start + CHUNK_ROWS])
        yield ((between if start else "") + between.join(lines)).encode(errors="backslashreplace")
    yield after.encode()


def _csv_lines(rows: Sequence[Sequence[str | None]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode(errors="backslashreplace")  # JSON may have half a surrogate pair.
