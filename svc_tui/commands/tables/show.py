"""`svc tables list` and `show`."""

from typing import Annotated, Any

import typer

from svc_tui.commands.completion import table_names
from svc_tui.commands.options import AsJson
from svc_tui.commands.tables.target import open_tables
from svc_tui.tables_syntax import rules
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.table import format_table

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
