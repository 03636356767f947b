"""A file into a table: what it would become, then how far it is."""

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
from screens.tables.files import DATABASE_FORMATS, beginning, format_of, pieces
from screens.tables.preview import lines
from screens.widgets.content import to_content
from svc_tui.client import SvcError

_CHANGED_SECONDS = 0.3
ADD, REPLACE = "add", "replace"


class ImportForm(FileForm[str]):
    """Gives the name of the table that has the rows now; empty where the file brought its own."""

    TITLE_TEXT: ClassVar[str] = "Import a file"
    DONE: ClassVar[str] = "import it"
    DEFAULT_CSS = """
    ImportForm > VerticalScroll { width: 90; }
    ImportForm #preview { margin-bottom: 1; }
    """

    def __init__(self, client: ProjectClient, table: str) -> None:
        """`table` is the one that is shown."""
        super().__init__()
        self._client, self._table = client, table

    def fields(self) -> ComposeResult:
        """Yield the file, the table, and what becomes of them."""
        yield PathField("file", "file", example="people.csv, .json, .jsonl, .sql or .db")
        yield Field("table", "table", self._table, example="the name of a new table")
        yield Field("rows", "rows", ADD, example=f"{ADD} or {REPLACE}: replaces all rows")
        yield Static(id="preview")
        yield Static(id="progress")

    @on(Input.Changed)
    def _changed(self) -> None:
        look: Any = self._look
        self.run_worker(look, group="preview", exclusive=True)

    async def _look(self) -> None:
        """Show what the file would become, once one has stopped writing."""
        await asyncio.sleep(_CHANGED_SECONDS)
        said = self.query_one("#preview", Static)
        path = parse_path(self.value("file"))
        if not self.value("file").strip() or not path.is_file():
            said.update("")
            return
        try:
            tables = await self._client.table_names()
            wish = (self.value("file"), self.value("table"), tables, said.size.width)
            said.update(await asyncio.to_thread(self._preview, *wish))
        except SvcError as error:
            self.show_problem("")
            said.update(
                Content.from_markup(
                    "[$text-error]$what[/]\n[dim]$hint[/]", what=error.message, hint=error.hint
                )
            )

    def show_problem(self, text: str) -> None:
        """Show an error instead of the preview."""
        if text:
            self.query_one("#preview", Static).update("")
        super().show_problem(text)

    def _preview(self, name: str, table: str, tables: Collection[str], room: int) -> Content:
        path, format = parse_path(name), format_of(name)
        if format in DATABASE_FORMATS:
            return Content("the file has tables of its own")
        to = table or path.stem
        found, whole = beginning(path, format)
        if not found and not whole:
            return Content(f"{self._becomes(to, tables)}; the file is too long for a look at it")
        asked = {"format": format}
        told = self._client.call_sync("POST", "/import/preview", params=asked, content=iter([found]))
        return to_content(lines(self._becomes(to, tables), told, room, whole=whole))

    def _becomes(self, table: str, tables: Collection[str]) -> str:
        if table not in tables:
            return f"a new table {table}"
        if self.value("rows").strip() == REPLACE:
            return f"instead of all rows of {table}"
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
        how = self.value("rows").strip() or ADD
        if how not in (ADD, REPLACE):
            raise SvcError(f"rows cannot be {how}", f"Write {ADD} or {REPLACE}.")
        if how == REPLACE and "create" not in params:
            params["replace"] = "true"
        done = await asyncio.to_thread(self._send, name, params)
        left_out = f"; left out: {', '.join(done['skipped'])}" if done["skipped"] else ""
        self.app.notify(f"imported {done['rows']:,} rows{left_out}", markup=False)
        return table

    def _send(self, name: str, params: dict[str, Any]) -> Any:
        sent = pieces(parse_path(name), self._sending, self.stopped)
        with closing(self._client.lines("POST", "/import", params=params, content=sent)) as told:  # type: ignore[type-var]
            for line in told:
                if "error" in line:
                    error = line["error"]
                    raise SvcError(error["title"], error["hint"], code=error["code"])
                if line["done"]:
                    return line
                if self.stopped.is_set():
                    raise SvcError(
                        "broken off; unless the engine had just finished, nothing was imported",
                        "The grid shows which.",
                    )
                self.progress = f"{progress_bar(line['bytes'], line['total'] or 0)}  {line['rows']:,} rows"
        raise SvcError("the import ended without an answer", "See whether the engine runs, and try again.")

    def _sending(self, done: int, total: int) -> None:
        self.progress = f"{progress_bar(done, total)}  sent"
