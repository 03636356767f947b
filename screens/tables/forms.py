"""Forms that create, alter, import and export a table, and that export the result of a statement."""

import asyncio
import csv
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from types import SimpleNamespace
from typing import Any, ClassVar

from rich.cells import cell_len, set_cell_size
from textual import on, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static, TextArea

from screens.dialog import ExportForm, Field, FileForm, Form, PathField, require_filled
from screens.files import Chunks, parse_path, preview_lines, progress_bar, read_beginning, read_chunks
from screens.project_client import ProjectClient
from screens.tables.grid import RemoteGrid, RowQuery
from screens.tables.sql_text import ResultRows
from screens.widgets.component_styles import to_content
from screens.widgets.rows import Line, sanitize
from svc_tui import tables_syntax
from svc_tui.client import SvcError
from svc_tui.terminal.units import plural

_FIRST_COLUMN = "id integer primary key\n"
_SYNTAX: list[Line] = [[("  ·  ".join(tables_syntax.CHANGE_SYNTAX), "dim")]]


class SchemaText(TextArea):
    """The text of a schema form."""

    DEFAULT_CSS = """
    SchemaText { height: 6; background: $panel; margin-bottom: 1; }
    SchemaText:focus { background: $boost; }
    """

    def on_mount(self) -> None:
        self.move_cursor(self.document.end)


class SchemaForm(Form[str]):
    """A form that parses its text on each change."""

    GROUP: ClassVar[str] = "Tables"
    KEY: ClassVar[str] = "ctrl+s"
    DEFAULT_CSS = """
    SchemaForm > VerticalScroll { width: 90; }
    SchemaForm #understood { margin-bottom: 1; }
    SchemaForm .forms { color: $foreground-muted; margin-bottom: 1; }
    """

    _has_error = False
    """Whether the preview shows a syntax error."""

    def __init__(self, client: ProjectClient) -> None:
        super().__init__()
        self._client = client
        self._types: tables_syntax.ColumnTypes | None = None

    def on_mount(self) -> None:
        self._load()

    @work
    async def _load(self) -> None:
        try:
            await self.load()
        except SvcError as error:
            self.show_problem(error.text)
        else:
            self._changed()

    async def load(self) -> None:
        """Load what is needed to parse the text. Raises `SvcError`."""
        self._types = await self._client.column_types()

    @on(TextArea.Changed)
    def _changed(self) -> None:
        if self._types is None:
            return
        self.show_problem("")
        self._has_error = False
        try:
            lines: Iterable[Line] = list(self.preview(self.query_one(SchemaText).text, self._types))
        except SvcError as error:
            self._has_error = True
            lines = [[(error.message, "bad")], [(error.hint, "dim")]]
        self.query_one("#understood", Static).update(to_content(lines))

    def show_problem(self, text: str) -> None:
        """Show an error, unless the preview shows a syntax error already."""
        if self._has_error and text:
            self.query_one("#understood").scroll_visible(animate=False)
        else:
            super().show_problem(text)

    def preview(self, text: str, types: tables_syntax.ColumnTypes) -> Iterable[Line]:
        """Return the lines of the preview. Raises `SvcError`."""
        raise NotImplementedError


class CreateForm(SchemaForm):
    """Creates a table. Its result is the table's name."""

    TITLE_TEXT: ClassVar[str] = "Create a table"
    DONE: ClassVar[str] = "create it"

    def fields(self) -> ComposeResult:
        """Yield the name, the columns and the preview."""
        yield Field("name", "name", example="people")
        note = "To deploy it, write a migration: svc tables migration NAME"
        yield Static(
            f"One column a line: {tables_syntax.COLUMN_SYNTAX}\n{note}", classes="forms", markup=False
        )
        yield SchemaText(_FIRST_COLUMN)
        yield Static(id="understood")

    def preview(self, text: str, types: tables_syntax.ColumnTypes) -> Iterable[Line]:
        return _column_lines(tables_syntax.parse_columns(text, types))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.prevent_default()
        self.query_one(SchemaText).focus()

    async def submit(self) -> str:
        """Create the table."""
        await self.load()
        assert self._types is not None
        table = self.value("name").strip()
        require_filled([("name", table)])
        columns = tables_syntax.parse_columns(self.query_one(SchemaText).text, self._types)
        change = {"op": "create-table", "table": table, "columns": columns}
        await self._client.call("POST", "/schema", {"changes": [change]})
        return table


class AlterForm(SchemaForm):
    """Alters a table. Its result is the table's name afterwards, empty if it was dropped."""

    DEFAULT_CSS = """
    AlterForm > VerticalScroll > VerticalScroll { height: auto; max-height: 6; scrollbar-size-vertical: 1; }
    """
    DONE: ClassVar[str] = "alter the table"

    def __init__(self, client: ProjectClient, name: str) -> None:
        super().__init__(client)
        self._name = name
        self._table: Mapping[str, Any] | None = None
        """The answer to `GET /table`."""
        self.TITLE_TEXT = f"Alter {name}"  # type: ignore[misc]

    def fields(self) -> ComposeResult:
        """Yield the columns of the table, the changes and the preview."""
        with VerticalScroll(classes="forms", can_focus=True):
            yield Static("…", id="is")
        yield SchemaText()
        yield Static(id="understood")

    def on_mount(self) -> None:
        self.query_one("#understood", Static).update(to_content(_SYNTAX))
        self.query_one(SchemaText).focus()

    async def load(self) -> None:
        """Load the table and the column types. Raises `SvcError`."""
        await super().load()
        if self._table is None:
            self._table = await self._client.call("GET", "/table", params={"name": self._name})
            lines = [*_column_lines(self._table["columns"])]
            for index in self._table["indexes"]:
                kind = "unique index" if index["unique"] else "index"
                names = ", ".join(name or "an expression" for name in index["columns"])
                lines.append([(f"{kind} {index['name']}", "dim"), (f"  {names}", "dim")])
            self.query_one("#is", Static).update(to_content(lines))

    def preview(self, text: str, types: tables_syntax.ColumnTypes) -> Iterable[Line]:
        """Return the changes, with those that delete values marked."""
        if not text.strip() or self._table is None:
            return _SYNTAX
        return [
            [
                (tables_syntax.format_change(change), "bad" if tables_syntax.is_destructive(change) else ""),
                ("   deletes its values" if tables_syntax.is_destructive(change) else "", "dim"),
            ]
            for change in tables_syntax.parse_changes(self._table, text, types)
        ]

    async def submit(self) -> str:
        """Apply the changes in one transaction."""
        await self.load()
        assert self._table is not None and self._types is not None
        changes = tables_syntax.parse_changes(self._table, self.query_one(SchemaText).text, self._types)
        await self._client.call("POST", "/schema", {"changes": changes})
        if any(change["op"] == "drop-table" for change in changes):
            return ""
        names = (change["name"] for change in changes if change["op"] == "rename-table")
        return str(next(names, self._name))


def _column_lines(columns: Iterable[tables_syntax.Document]) -> Iterator[Line]:
    columns = list(columns)
    names = [sanitize(column["name"]) for column in columns]
    width = max(map(cell_len, names))
    for name, column in zip(names, columns, strict=True):
        note = column.get("note", "")
        yield [
            (set_cell_size(name, width), "bold"),
            (f"  {column['type']:<10}", "accent"),
            (" · ".join(tables_syntax.rules(column)), ""),
            (f"  {note}" if note else "", "dim"),
        ]


SHOWN, ALL = "shown", "all"


def table_export(client: ProjectClient, grid: RemoteGrid) -> ExportForm:
    """Return the form that exports a table, with a choice of rows if the grid is filtered or sorted.

    The form raises `SvcError` for a choice that does not exist.
    """
    about, choices = "All rows, as .csv, .json, .jsonl, .sql or .db.", list[Field]()
    if grid.query != RowQuery():
        choices.append(Field("rows", "rows", SHOWN, example=f"{SHOWN} or {ALL}"))
        about = (
            f"{SHOWN}: the {grid.total:,} shown rows in their order, as .csv, .json or .jsonl;"
            f" {ALL}: the whole table, also as .sql or .db."
        )

    def content(form: ExportForm, name: str) -> Chunks:
        format = tables_syntax.format_of(name)
        rows = form.value("rows").strip() or SHOWN if choices else ALL
        if rows not in (ALL, SHOWN):
            raise SvcError(f"rows cannot be {rows}", f"Enter {SHOWN} or {ALL}.")
        if rows == SHOWN and format in tables_syntax.DATABASE_FORMATS:
            hint = f"Enter {ALL} for rows, or use .csv, .json or .jsonl."
            raise SvcError(f"a .{format} file has whole tables, not a selection of rows", hint)
        source = "/export" if rows == ALL else f"/grid/{grid.id}/export"
        params = {"format": format} | ({"table": grid.table} if rows == ALL else {})
        return client.download(source, params=params)

    return ExportForm("the table", f"{grid.table}.csv", about, content, choices, example="people.csv")


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
        self._previewed: tuple[str, ...] = ()
        """The values of the fields that the preview shows."""

    def fields(self) -> ComposeResult:
        """Yield the fields, the preview and the progress."""
        yield PathField("file", "file", example="people.csv, .json, .jsonl, .sql or .db")
        yield Field("table", "table", self._table, example="the name of a new table")
        yield Field("rows", "rows", ADD, example=f"{ADD} or {REPLACE}: replaces all rows")
        yield Static(id="preview")
        yield Static(id="progress")

    @on(Input.Changed)
    def _changed(self) -> None:
        if not self._busy:
            self._update_preview()

    @work(group="preview", exclusive=True)
    async def _update_preview(self) -> None:
        """Show the preview once the user has stopped typing. Hide the error of the earlier values."""
        self.show_problem("")
        preview = self.query_one("#preview", Static)
        if not self._has_file():
            preview.update("")
            return
        preview.update(Content.styled("reading the file …", "dim"))
        await asyncio.sleep(_TYPING_SECONDS)
        try:
            await self._show_preview()
        except SvcError as error:
            markup = "[$text-error]$what[/]\n[dim]$hint[/]"
            preview.update(Content.from_markup(markup, what=error.message, hint=error.hint))

    def _has_file(self) -> bool:
        return bool(self.value("file").strip()) and parse_path(self.value("file")).is_file()

    def _values(self) -> tuple[str, ...]:
        return self.value("file"), self.value("table"), self.value("rows")

    async def _show_preview(self) -> str:
        """Show the preview, and propose a table. Return why it is another one, or "". Raises `SvcError`."""
        preview = self.query_one("#preview", Static)
        file, table, rows = self._values()
        tables = await self._client.table_names()
        room = preview.size.width
        content, proposed, reason = await asyncio.to_thread(self._preview, file, table, tables, room)
        preview.update(content)
        if proposed == self._proposed:
            reason = ""
        else:
            field = self.query_one("#table", Input)
            with field.prevent(Input.Changed):
                self._proposed = table = field.value = proposed
        self._previewed = (file, table, rows)
        return reason

    def show_problem(self, text: str) -> None:
        """Show an error instead of the preview."""
        if text:
            self.query_one("#preview", Static).update("")
        super().show_problem(text)

    def _preview(self, name: str, table: str, tables: Collection[str], room: int) -> tuple[Content, str, str]:
        """Return the preview, the table to propose, and why it is not the initial one."""
        path, format = parse_path(name), tables_syntax.format_of(name)
        if format in tables_syntax.DATABASE_FORMATS:
            if format == "db":
                tables_syntax.require_complete(path)
            return Content("the file contains whole tables"), self._proposed, ""
        data, complete = read_beginning(path, format)
        if not data and not complete:
            title = self._preview_title(table or path.stem, tables)
            return Content(f"{title}; the file is too large for a preview"), self._proposed, ""
        params = {"format": format}
        preview = self._client.call_sync("POST", "/import/preview", params=params, content=iter([data]))
        proposed, reason = self._proposed, ""
        if self._columns and table == proposed:
            names = (column["name"] for column in preview["columns"])
            missing = next((name for name in names if name not in self._columns), None)
            reason = f"{self._table} has no column {missing}" if missing is not None else ""
            table = proposed = path.stem if reason else self._table
        title = self._preview_title(table or path.stem, tables)
        lines = [*preview_lines(title, preview, room, complete=complete)]
        if reason:
            lines.insert(0, [(sanitize(reason), "warn")])
        return to_content(lines), proposed, reason

    def _preview_title(self, table: str, tables: Collection[str]) -> str:
        if table not in tables:
            return f"a new table {table}"
        if self.value("rows").strip() == REPLACE:
            return f"replaces all rows of {table}"
        return f"rows for {table}"

    async def work(self) -> str:
        """Import the file. Raises `SvcError` if a value is invalid, or if another table is proposed now."""
        self.workers.cancel_group(self, "preview")
        if self._has_file() and self._values() != self._previewed and (reason := await self._show_preview()):
            hint = f"Press ctrl+s to import the rows into {self._proposed}, or enter another table."
            raise SvcError(reason, hint)
        name = self.value("file").strip()
        format = tables_syntax.format_of(name)
        table = self.value("table").strip() or parse_path(name).stem
        table = "" if format in tables_syntax.DATABASE_FORMATS else table
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
        chunks = read_chunks(parse_path(name), self._show_sent, self.stopped, "nothing was imported")
        with closing(self._client.lines("POST", "/import", params=params, content=chunks)) as lines:  # type: ignore[type-var]
            for line in lines:
                if line["done"]:
                    return line
                if self.stopped.is_set():
                    hint = "Check the rows in the grid."
                    raise SvcError("stopped; nothing was imported, unless the import had just finished", hint)
                bar = progress_bar(line["bytes"], line["total"] or 0)
                self.progress = f"{bar}  {plural(line['rows'], 'row')}"
        raise SvcError("the import ended without a result", "Check that the engine runs, and try again.")

    def _show_sent(self, done: int, total: int) -> None:
        self.progress = f"{progress_bar(done, total)}  sent"


FORMATS = ("csv", "json", "jsonl")


def result_export(result: ResultRows) -> ExportForm:
    """Return the form that exports the rows of a result. It raises `SvcError` for others than `FORMATS`."""

    def content(_: ExportForm, name: str) -> Chunks:
        format = tables_syntax.format_of(name)
        if format not in FORMATS:
            raise SvcError(f"a result cannot be exported as .{format}", "Use .csv, .json or .jsonl.")
        return chunks(result, format)

    about = f"{plural(result.count(), 'row')}, as .csv, .json or .jsonl."
    return ExportForm("the result", "result.csv", about, content)


def chunks(result: ResultRows, format: str) -> Chunks:
    """Yield the rows of a result in one of `FORMATS`."""
    for text in _texts(result, format):
        yield text.encode(errors="backslashreplace")  # JSON may have half a surrogate pair.


def _texts(result: ResultRows, format: str) -> Iterator[str]:
    names, rows = result.names, result.items
    if format == "csv":
        writer = csv.writer(SimpleNamespace(write=str), lineterminator="\n")
        values = ([tables_syntax.value_text(row[name]) for name in names] for row in rows)
        yield writer.writerow(names)
        yield from map(writer.writerow, values)
        return
    start, end = ("[\n", "") if format == "json" else ("", "\n")
    for row in rows:
        yield f"{start}{tables_syntax.row_json(row, result.types)}{end}"
        start = ",\n" if format == "json" else ""
    if format == "json":
        yield "\n]\n" if rows else "[\n\n]\n"
