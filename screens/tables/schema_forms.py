"""Making a table and changing one: lines of words, and beside them what is understood of them."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Input, Static, TextArea

from screens.form import Field, Form, require_filled
from screens.project_client import ProjectClient
from screens.tables.columns_text import FORM, columns, described
from screens.tables.schema_commands import FORMS, changes, loses, said
from screens.widgets.content import to_content
from screens.widgets.row_source import Line
from svc_tui.client import SvcError

_BEGINNING = "id integer key\n"


class Lines(TextArea):
    """Lines of words."""

    DEFAULT_CSS = """
    Lines { height: 6; border: none; padding: 0 1; background: $panel; margin-bottom: 1; }
    Lines:focus { border: none; background: $boost; }
    """

    def on_mount(self) -> None:
        """Begin behind the last line."""
        self.move_cursor(self.document.end)


class SchemaForm(Form[str]):
    """A dialogue in which lines are understood as they are written."""

    GROUP: ClassVar[str] = "Tables"
    KEY: ClassVar[str] = "ctrl+s"
    DEFAULT_CSS = """
    SchemaForm > VerticalScroll { width: 90; }
    SchemaForm #understood { margin-bottom: 1; }
    SchemaForm .forms { color: $foreground-muted; margin-bottom: 1; }
    """

    _mistaken = False
    """Whether what is wrong with the lines is said in place of what is understood."""

    @on(TextArea.Changed)
    def _changed(self) -> None:
        """Say what is understood."""
        self.show_problem("")
        self._mistaken = False
        try:
            lines: Iterable[Line] = self.understood(self.query_one(Lines).text)
        except SvcError as error:
            self._mistaken = True
            lines = [[(error.message, "bad")], [(error.hint, "dim")]]
        self.query_one("#understood", Static).update(to_content(lines))

    def show_problem(self, text: str) -> None:
        """Say what is wrong, but not once more what is wrong with the lines."""
        if self._mistaken and text:
            self.query_one("#understood").scroll_visible(animate=False)
        else:
            super().show_problem(text)

    def understood(self, text: str) -> Iterable[Line]:
        """Return what lines say. Raises `SvcError`."""
        raise NotImplementedError


class CreateForm(SchemaForm):
    """Gives the name of the table that was made."""

    TITLE_TEXT: ClassVar[str] = "Make a table"
    DONE: ClassVar[str] = "make it"

    def __init__(self, link: ProjectClient) -> None:
        super().__init__()
        self._link = link

    def fields(self) -> ComposeResult:
        """Yield the name, the columns, and what is understood."""
        yield Field("name", "name", example="people")
        yield Static(f"A line a column: {FORM}", classes="forms", markup=False)
        yield Lines(_BEGINNING)
        yield Static(id="understood")

    def understood(self, text: str) -> Iterable[Line]:
        """Return the columns."""
        made = columns(text)
        width = max(len(each["name"]) for each in made)
        return [described(each, width) for each in made]

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go on from the name to the columns."""
        event.prevent_default()
        self.query_one(Lines).focus()

    async def submit(self) -> str:
        """Make it."""
        table = self.value("name").strip()
        require_filled([("name", table)])
        change = {"op": "create-table", "table": table, "columns": columns(self.query_one(Lines).text)}
        await self._link.call("POST", "/schema", {"changes": [change]})
        return table


class AlterForm(SchemaForm):
    """Gives the name that the table has now; empty where it was dropped."""

    DEFAULT_CSS = """
    AlterForm > VerticalScroll > VerticalScroll { height: auto; max-height: 6; scrollbar-size-vertical: 1; }
    """
    DONE: ClassVar[str] = "change the table"

    def __init__(self, link: ProjectClient, name: str) -> None:
        super().__init__()
        self._link, self._name = link, name
        self._table: Mapping[str, Any] | None = None
        """What `GET /table` answers, once it has."""
        self.TITLE_TEXT = f"Change {name}"  # type: ignore[misc]

    def fields(self) -> ComposeResult:
        """Yield what the table is, the changes, and what is understood."""
        with VerticalScroll(classes="forms", can_focus=True):
            yield Static("…", id="is")
        yield Lines()
        yield Static(id="understood")

    def on_mount(self) -> None:
        """Begin with what can be written, and see what the table is."""
        self.query_one("#understood", Static).update(to_content([[("  ".join(FORMS), "dim")]]))
        self.query_one(Lines).focus()
        self.run_worker(self._look())

    async def _look(self) -> None:
        try:
            self._table = table = await self._link.call("GET", "/table", params={"name": self._name})
        except SvcError as error:
            self.query_one("#is", Static).update("")
            self.show_problem(error.text)
            return
        self.query_one("#is", Static).update(to_content(self._is(table)))
        self._changed()

    @staticmethod
    def _is(table: Mapping[str, Any]) -> Iterable[Line]:
        width = max(len(each["name"]) for each in table["columns"])
        for each in table["columns"]:
            yield described(each, width)
        for index in table["indexes"]:
            kind = "unique index" if index["unique"] else "index"
            names = ", ".join(each or "an expression" for each in index["columns"])
            yield [(f"{kind} {index['name']}", "dim"), (f"  {names}", "dim")]

    def understood(self, text: str) -> Iterable[Line]:
        """Return the changes; those that lose something in another tone."""
        if not text.strip() or self._table is None:
            return [[("  ".join(FORMS), "dim")]]
        return [
            [
                (said(each), "bad" if loses(each) else ""),
                ("   what it has is lost" if loses(each) else "", "dim"),
            ]
            for each in changes(self._table, text)
        ]

    async def submit(self) -> str:
        """Change it, all at once."""
        if self._table is None:
            self._table = await self._link.call("GET", "/table", params={"name": self._name})
        made = changes(self._table, self.query_one(Lines).text)
        await self._link.call("POST", "/schema", {"changes": made})
        if any(each["op"] == "drop-table" for each in made):
            return ""
        names = (each["name"] for each in made if each["op"] == "rename-table")
        return str(next(names, self._name))
