"""`svc tables list` and `show`."""

from typing import Annotated, Any

import typer

from svc_tui.commands.tables.target import place
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.table import format_table

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")]


def list_tables(context: typer.Context, as_json: AsJson = False) -> None:
    """List the tables, their rows and what is noted about them."""
    with place(context).tables() as tables:
        found = tables.get("tables")
    if as_json:
        stdout.data(found)
    elif not found["tables"]:
        stderr.note("there are no tables yet: `svc tables create`, or a migration tables/0001.sql, makes one")
    elif stdout.is_terminal():
        rows = [
            [
                (table["name"], "cyan"),
                (_count(table), "dim" if table["rows"] is None else ""),
                (", ".join(column["name"] for column in table["columns"]), ""),
                (table["note"] or ("" if table["kind"] == "table" else table["kind"]), "dim"),
            ]
            for table in found["tables"]
        ]
        _show(["table", "rows", "columns", "note"], rows, right={1})
    else:
        for table in found["tables"]:
            _fields(table["name"], table["kind"], table["rows"], table["note"])


def show(context: typer.Context, table: Table, as_json: AsJson = False) -> None:
    """Show the columns, indexes and notes of a table."""
    with place(context).tables() as tables:
        found = tables.get("table", name=table)
    if as_json:
        stdout.data(found)
        return
    if not stdout.is_terminal():
        for column in found["columns"]:
            _fields(column["name"], column["type"], _rules(found, column), column["note"])
        return
    kind = "" if found["kind"] == "table" else f"{found['kind']}, "
    counted = "row" if found["rows"] == 1 else "rows"
    stdout.styled([(found["name"], "bold cyan"), (f"  {kind}{_count(found)} {counted}", "dim")])
    if found["note"]:
        stdout.styled([(found["note"], "")])
    stdout.line()
    rows = [
        [
            (column["name"], "cyan"),
            (column["type"], ""),
            (_rules(found, column), ""),
            (column["note"], "dim"),
        ]
        for column in found["columns"]
    ]
    _show(["column", "type", "rules", "note"], rows)
    if found["indexes"]:
        stdout.line()
    for index in found["indexes"]:
        columns = ", ".join(name or "(an expression)" for name in index["columns"])
        more = ", unique" * index["unique"] + ", of some rows" * index["partial"]
        stdout.styled([("index ", "dim"), (index["name"], ""), (f" on {columns}{more}", "dim")])


def _rules(table: Any, column: Any) -> str:
    key = table["key"]
    rules = [
        ""
        if not column["primary_key"]
        else "key"
        if len(key) == 1
        else f"key {key.index(column['name']) + 1}",
        "" if column["nullable"] or column["primary_key"] else "not null",
        "unique" if column["unique"] else "",
        f"default {column['default']}" if column["default"] is not None else "",
        "computed" if column["generated"] else "",
    ]
    return ", ".join(filter(None, rules))


def _count(table: Any) -> str:
    return "many" if table["rows"] is None else str(table["rows"])


def _fields(*values: Any) -> None:
    """Write one line for a program: fields with tabs between them."""
    texts = ["" if value is None else str(value) for value in values]
    stdout.styled([("\t".join(text.replace("\t", " ").replace("\n", " ") for text in texts), "")])


def _show(heads: list[str], rows: list[list[tuple[str, str]]], right: set[int] | None = None) -> None:
    stdout.styled_lines(format_table(heads, rows, stdout.width(), frozenset(right or ())))
