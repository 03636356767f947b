"""The forms that create and alter a table, with a preview of what their text means."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from rich.cells import cell_len, set_cell_size
from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Input, Static, TextArea

from screens.dialog import Field, Form, require_filled
from screens.project_client import ProjectClient
from screens.widgets.columns import sanitize
from screens.widgets.component_styles import to_content
from screens.widgets.row_source import Line
from svc_tui.client import SvcError
from svc_tui.tables_syntax import (
    CHANGE_SYNTAX,
    COLUMN_SYNTAX,
    ColumnTypes,
    Document,
    format_change,
    is_destructive,
    parse_changes,
    parse_columns,
    rules,
)

_FIRST_COLUMN = "id integer primary key\n"


class SchemaText(TextArea):
    """The text of a schema form."""

    DEFAULT_CSS = """
    SchemaText { height: 6; border: none; padding: 0 1; background: $panel; margin-bottom: 1; }
    SchemaText:focus { border: none; background: $boost; }
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
        self._types: ColumnTypes | None = None

    def on_mount(self) -> None:
        self.run_worker(self._load())

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

    def preview(self, text: str, types: ColumnTypes) -> Iterable[Line]:
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
        yield Static(f"One column a line: {COLUMN_SYNTAX}\n{note}", classes="forms", markup=False)
        yield SchemaText(_FIRST_COLUMN)
        yield Static(id="understood")

    def preview(self, text: str, types: ColumnTypes) -> Iterable[Line]:
        return _column_lines(parse_columns(text, types))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.prevent_default()
        self.query_one(SchemaText).focus()

    async def submit(self) -> str:
        """Create the table."""
        await self.load()
        assert self._types is not None
        table = self.value("name").strip()
        require_filled([("name", table)])
        columns = parse_columns(self.query_one(SchemaText).text, self._types)
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
        self.query_one("#understood", Static).update(to_content(_syntax_lines()))
        self.query_one(SchemaText).focus()

    async def load(self) -> None:
        """Load the table and the column types. Raises `SvcError`."""
        await super().load()
        if self._table is None:
            self._table = await self._client.call("GET", "/table", params={"name": self._name})
            self.query_one("#is", Static).update(to_content(_table_lines(self._table)))

    def preview(self, text: str, types: ColumnTypes) -> Iterable[Line]:
        """Return the changes, with those that delete values marked."""
        if not text.strip() or self._table is None:
            return _syntax_lines()
        return [
            [
                (format_change(change), "bad" if is_destructive(change) else ""),
                ("   deletes its values" if is_destructive(change) else "", "dim"),
            ]
            for change in parse_changes(self._table, text, types)
        ]

    async def submit(self) -> str:
        """Apply the changes in one transaction."""
        await self.load()
        assert self._table is not None and self._types is not None
        changes = parse_changes(self._table, self.query_one(SchemaText).text, self._types)
        await self._client.call("POST", "/schema", {"changes": changes})
        if any(change["op"] == "drop-table" for change in changes):
            return ""
        names = (change["name"] for change in changes if change["op"] == "rename-table")
        return str(next(names, self._name))


def _syntax_lines() -> list[Line]:
    return [[("  ·  ".join(CHANGE_SYNTAX), "dim")]]


def _table_lines(table: Mapping[str, Any]) -> Iterator[Line]:
    yield from _column_lines(table["columns"])
    for index in table["indexes"]:
        kind = "unique index" if index["unique"] else "index"
        names = ", ".join(name or "an expression" for name in index["columns"])
        yield [(f"{kind} {index['name']}", "dim"), (f"  {names}", "dim")]


def _column_lines(columns: Iterable[Document]) -> Iterator[Line]:
    columns = list(columns)
    names = [sanitize(column["name"]) for column in columns]
    width = max(map(cell_len, names))
    for name, column in zip(names, columns, strict=True):
        note = column.get("note", "")
        yield [
            (set_cell_size(name, width), "bold"),
            (f"  {column['type']:<10}", "accent"),
            (" · ".join(rules(column)), ""),
            (f"  {note}" if note else "", "dim"),
        ]
