"""The form that imports a file into a table, with a preview and its progress."""

import asyncio
from collections.abc import Collection
from contextlib import closing
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static

from screens.file_form import FileForm, PathField
from screens.files import parse_path, progress_bar
from screens.form import Field, require_filled
from screens.project_client import ProjectClient
from screens.tables.files import DATABASE_FORMATS, format_of, read_beginning, read_chunks
from screens.tables.preview import preview_lines
from screens.widgets.content import to_content
from svc_tui.client import SvcError
from svc_tui.terminal.units import plural

_TYPING_SECONDS = 0.3
ADD, REPLACE = "add", "replace"


class ImportForm(FileForm[str]):
    """Imports a file. Returns the name of the table, or "" if the file contains whole tables."""

    TITLE_TEXT: ClassVar[str] = "Import a file"
    DONE: ClassVar[str] = "import it"
    DEFAULT_CSS = """
    ImportForm > VerticalScroll { width: 90; }
    ImportForm #preview { margin-bottom: 1; }
    """

    def __init__(self, client: ProjectClient, table: str, columns: Collection[str] = ()) -> None:
        """Create the form. `table` with its `columns` is the initial target, "" for none.

        For a file with other columns, the form proposes a table with the name of the file.
        """
        super().__init__()
        self._client, self._table, self._columns = client, table, frozenset(columns)
        self._proposed = table

    def fields(self) -> ComposeResult:
        """Yield the fields, the preview and the progress."""
        yield PathField("file", "file", example="people.csv, .json, .jsonl, .sql or .db")
        yield Field("table", "table", self._table, example="the name of a new table")
        yield Field("rows", "rows", ADD, example=f"{ADD} or {REPLACE}: replaces all rows")
        yield Static(id="preview")
        yield Static(id="progress")

    @on(Input.Changed)
    def _changed(self) -> None:
        update: Any = self._update_preview
        self.run_worker(update, group="preview", exclusive=True)

    async def _update_preview(self) -> None:
        """Show the preview once the user has stopped typing."""
        preview = self.query_one("#preview", Static)
        path = parse_path(self.value("file"))
        if not self.value("file").strip() or not path.is_file():
            preview.update("")
            return
        preview.update(Content.styled("reading the file …", "dim"))
        await asyncio.sleep(_TYPING_SECONDS)
        try:
            tables = await self._client.table_names()
            arguments = (self.value("file"), self.value("table"), tables, preview.size.width)
            content, proposed = await asyncio.to_thread(self._preview, *arguments)
            preview.update(content)
            if proposed != self._proposed:
                self._proposed = self.query_one("#table", Input).value = proposed
        except SvcError as error:
            self.show_problem("")
            preview.update(
                Content.from_markup(
                    "[$text-error]$what[/]\n[dim]$hint[/]", what=error.message, hint=error.hint
                )
            )

    def show_problem(self, text: str) -> None:
        """Show an error instead of the preview."""
        if text:
            self.query_one("#preview", Static).update("")
        super().show_problem(text)

    def _preview(self, name: str, table: str, tables: Collection[str], room: int) -> tuple[Content, str]:
        """Return the preview, and the table to propose: the initial one only for a file with its columns."""
        path, format = parse_path(name), format_of(name)
        if format in DATABASE_FORMATS:
            return Content("the file contains whole tables"), self._proposed
        data, complete = read_beginning(path, format)
        if not data and not complete:
            title = self._preview_title(table or path.stem, tables)
            return Content(f"{title}; the file is too large for a preview"), self._proposed
        params = {"format": format}
        preview = self._client.call_sync("POST", "/import/preview", params=params, content=iter([data]))
        proposed = self._proposed
        if self._columns and table == proposed:
            fits = {column["name"] for column in preview["columns"]} <= self._columns
            table = proposed = self._table if fits else path.stem
        title = self._preview_title(table or path.stem, tables)
        return to_content(preview_lines(title, preview, room, complete=complete)), proposed

    def _preview_title(self, table: str, tables: Collection[str]) -> str:
        if table not in tables:
            return f"a new table {table}"
        if self.value("rows").strip() == REPLACE:
            return f"replaces all rows of {table}"
        return f"rows for {table}"

    async def work(self) -> str:
        """Import the file. Raises `SvcError` if `rows` is neither add nor replace."""
        require_filled([("file", self.value("file"))])
        name = self.value("file").strip()
        format = format_of(name)
        table = "" if format in DATABASE_FORMATS else self.value("table").strip() or parse_path(name).stem
        params = {"format": format, "table": table}
        if table and table not in await self._client.table_names():
            params["create"] = "true"
        mode = self.value("rows").strip() or ADD
        if mode not in (ADD, REPLACE):
            raise SvcError(f"rows cannot be {mode}", f"Enter {ADD} or {REPLACE}.")
        if mode == REPLACE and "create" not in params:
            params["replace"] = "true"
        result = await asyncio.to_thread(self._send, name, params)
        skipped = f"; skipped: {', '.join(result['skipped'])}" if result["skipped"] else ""
        self.app.notify(f"imported {plural(result['rows'], 'row')}{skipped}", markup=False)
        return table

    def _send(self, name: str, params: dict[str, Any]) -> Any:
        chunks = read_chunks(parse_path(name), self._show_sent, self.stopped)
        with closing(self._client.lines("POST", "/import", params=params, content=chunks)) as lines:  # type: ignore[type-var]
            for line in lines:
                if line["done"]:
                    return line
                if self.stopped.is_set():
                    raise SvcError(
                        "stopped; nothing was imported, unless the import had just finished",
                        "Check the rows in the grid.",
                    )
                self.progress = (
                    f"{progress_bar(line['bytes'], line['total'] or 0)}  {plural(line['rows'], 'row')}"
                )
        raise SvcError("the import ended without a result", "Check that the engine runs, and try again.")

    def _show_sent(self, done: int, total: int) -> None:
        self.progress = f"{progress_bar(done, total)}  sent"
