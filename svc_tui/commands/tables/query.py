"""`svc tables query`: one statement of SQL, its rows for a person or for a program."""

import json
import math
from typing import Annotated, Any

import typer

from doors.tables.files.csv_file import written
from engine.errors import SvcError
from svc_tui.commands.tables.parsing import parameter
from svc_tui.commands.tables.target import place
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.table import Cell, format_table

SHOWN = 1000
"""Rows that are shown on a terminal unless more are asked for."""
MOST = 10_000
_NUMBERS = ("integer", "real")


def query(
    context: typer.Context,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One statement, with $1, $2 for values.")],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="[VALUE]…", help="Values: numbers, true, false, null, base64:…, or text."),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="It may change rows and tables.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="N",
            min=0,
            max=MOST,
            help=f"At most so many rows; {SHOWN} on a terminal, {MOST} elsewhere, unless you say otherwise.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a row.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Run one statement of SQL: svc tables query 'select * from users where id = $1' 7"""
    if as_json and as_csv:
        raise SvcError("--json and --csv exclude each other", "Say one of them.", code="usage")
    person = stdout.is_terminal() and not as_json and not as_csv
    if limit is None:
        limit = SHOWN if person else MOST
    body = {
        "sql": sql,
        "params": [parameter(value) for value in values or ()],
        "write": write,
        "limit": limit,
    }
    with place(context).tables() as tables:
        found = tables.post("sql", body)
    if as_json:
        stdout.data_lines([{name: _finite(value) for name, value in row.items()} for row in found["rows"]])
    elif found["columns"]:
        _table(found) if person else _csv(found)
    _tell(found, write=write)


def _csv(found: Any) -> None:
    names = [column["name"] for column in found["columns"]]
    raw = stdout.Raw()
    raw.write(written(names).encode())
    for row in found["rows"]:
        raw.write(written([_text(row[name]) for name in names]).encode())


def _text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case float():
            return {math.inf: "9e999", -math.inf: "-9e999"}.get(value) or repr(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    """Return a value that JSON has; an infinite number is a text."""
    return _text(value) if isinstance(value, float) and math.isinf(value) else value


def _table(found: Any) -> None:
    columns = found["columns"]
    rows = [[_cell(row[column["name"]], column["type"]) for column in columns] for row in found["rows"]]
    right = frozenset(
        index
        for index, column in enumerate(columns)
        if column["type"] in _NUMBERS
        or (not column["type"] and all(_is_number(row[column["name"]]) for row in found["rows"]))
    )
    names = [column["name"] for column in columns]
    stdout.styled_lines(format_table(names, rows, stdout.width(), right))


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: Any, type: str) -> Cell:
    if value is None:
        return "null", "dim"
    if type == "blob" and isinstance(value, str):
        size = len(value) * 3 // 4 - value.count("=", -2)
        return f"blob of {size} byte{'' if size == 1 else 's'}", "dim"
    return _text(value) or "", ""


def _tell(found: Any, *, write: bool) -> None:
    count = len(found["rows"])
    if found["cut"]:
        why = "there are more" if found["cut"] == "rows" else "they are large"
        stderr.warn(
            f"only the first {count} rows are shown: {why}",
            "Ask for fewer (WHERE, LIMIT), for more with --limit, or take `svc tables export`.",
        )
    if write:
        changed = found["changes"]
        stderr.note(f"{changed} row{'' if changed == 1 else 's'} written")
    elif stdout.is_terminal() and not found["cut"]:
        stderr.note(f"{count} row{'' if count == 1 else 's'}")
