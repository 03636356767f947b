"""`svc tables list` and `show`, and the tables that a command works on."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.manifest.load import find, load
from svc_tui.client import Client
from svc_tui.client.credentials import project_service
from svc_tui.client.discovery import project_client
from svc_tui.commands.completion import table_names
from svc_tui.commands.options import AsJson
from svc_tui.tables_syntax import rules
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.table import format_table


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one project, behind a control API. Every method raises `SvcError`."""

    client: Client
    root: Path
    _path: str

    def get(self, path: str, **params: Any) -> Any:
        """Return the document at a path below the project."""
        return self.client.call("GET", self._path + path, params=params)

    def post(self, path: str, body: Any) -> Any:
        """Send a document and return the answer."""
        return self.client.call("POST", self._path + path, body)

    def upload(self, path: str, chunks: Iterable[bytes], **params: Any) -> Iterator[Any]:
        """Send a file and yield the documents of the answer."""
        return self.client.lines("POST", self._path + path, params=params, content=chunks)

    def download(self, path: str, **params: Any) -> AbstractContextManager[Iterator[bytes]]:
        """Return a context manager that yields the bytes of a file."""
        return self.client.download(self._path + path, params=params)


@contextmanager
def open_tables(context: typer.Context) -> Iterator[Tables]:
    """Connect to the control API, starting a local one if needed. Raises `SvcError`.

    `context.obj` is the value of --service.
    """
    connection = project_service() if context.obj else project_client(load(find(Path.cwd())))
    with connection as (client, project):
        yield Tables(client, project.root, f"/v1/projects/{project.name}/")


Table = Annotated[str, typer.Argument(metavar="TABLE", help="Name of the table.", autocompletion=table_names)]


def list_tables(context: typer.Context, as_json: AsJson = False) -> None:
    """List tables with their row counts and notes."""
    with open_tables(context) as tables:
        listing = tables.get("tables")
    if as_json:
        stdout.data(listing)
    elif not listing["tables"]:
        stderr.note(
            "the project has no tables; create one with `svc tables create` or a migration tables/0001.sql"
        )
    elif stdout.is_terminal():
        rows = [
            [
                (table["name"], "cyan"),
                (_row_count(table), "dim" if table["rows"] is None else ""),
                (", ".join(column["name"] for column in table["columns"]), ""),
                (table["note"] or ("" if table["kind"] == "table" else table["kind"]), "dim"),
            ]
            for table in listing["tables"]
        ]
        _print_grid(["table", "rows", "columns", "note"], rows, right={1})
    else:
        names = ("name", "kind", "rows", "note")
        values = [["" if each[name] is None else each[name] for name in names] for each in listing["tables"]]
        stdout.fields(("table", *names[1:]), values)


def show(context: typer.Context, table: Table, as_json: AsJson = False) -> None:
    """Show the columns, indexes and notes of a table."""
    with open_tables(context) as tables:
        document = tables.get("table", name=table)
    if as_json:
        stdout.data(document)
        return
    if not stdout.is_terminal():
        described = [
            (column["name"], column["type"], _rules(document, column), column["note"])
            for column in document["columns"]
        ]
        stdout.fields(("column", "type", "rules", "note"), described)
        return
    kind = "" if document["kind"] == "table" else f"{document['kind']}, "
    noun = "row" if document["rows"] == 1 else "rows"
    stdout.styled([(document["name"], "bold cyan"), (f"  {kind}{_row_count(document)} {noun}", "dim")])
    if document["note"]:
        stdout.styled([(document["note"], "")])
    stdout.line()
    rows = [
        [
            (column["name"], "cyan"),
            (column["type"], ""),
            (_rules(document, column), ""),
            (column["note"], "dim"),
        ]
        for column in document["columns"]
    ]
    _print_grid(["column", "type", "rules", "note"], rows)
    if document["indexes"]:
        stdout.line()
    for index in document["indexes"]:
        columns = ", ".join(name or "(an expression)" for name in index["columns"])
        details = ", unique" * index["unique"] + ", partial" * index["partial"]
        stdout.styled([("index ", "dim"), (index["name"], ""), (f" on {columns}{details}", "dim")])


def _rules(table: Any, column: Any) -> str:
    """Return the rules of a column; with its position in a primary key of several columns."""
    words = rules(column)
    if column["primary_key"] and len(table["key"]) > 1:
        words[0] += f" {table['key'].index(column['name']) + 1}"
    return ", ".join([*words, *(["computed"] if column["generated"] else [])])


def _row_count(table: Any) -> str:
    return "many" if table["rows"] is None else str(table["rows"])


def _print_grid(titles: list[str], rows: list[list[tuple[str, str]]], right: set[int] | None = None) -> None:
    stdout.styled_lines(format_table(titles, rows, stdout.width(), frozenset(right or ())))
