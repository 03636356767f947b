"""`svc tables query`: run one SQL statement and print its rows."""

import base64
import json
import math
import re
from typing import Annotated, Any

import typer

from doors.tables.files.csv_file import format_row
from doors.tables.types.parse import NUMBER
from engine.errors import InvalidUsage
from svc_tui.commands.tables.show import open_tables
from svc_tui.tables_syntax import ColumnTypes, TypeInfo, row_json, value_text
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.stderr import plain
from svc_tui.terminal.table import Cell, format_table
from svc_tui.terminal.units import plural

TERMINAL_LIMIT = 1000
"""Default maximum number of rows on a terminal."""
MAX_LIMIT = 10_000
_INTEGERS = range(-(2**63), 2**63)


def query(
    context: typer.Context,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One statement, with $1, $2 for values.")],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="[VALUE]…", help="Values: numbers, true, false, null, base64:…, or text."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Allow the statement to change rows and tables.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=MAX_LIMIT,
            help=f"Maximum number of rows (default: {TERMINAL_LIMIT} on a terminal, else {MAX_LIMIT}).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a row.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Run one SQL statement. Example: svc tables query 'select * from users where id = $1' 7"""
    if as_json and as_csv:
        raise InvalidUsage("--json and --csv exclude each other", "Pass one of them.")
    as_grid = stdout.is_terminal() and not as_json and not as_csv
    body = {
        "sql": sql,
        "params": [_parse_parameter(value, write=write) for value in values or ()],
        "write": write,
        "limit": limit if limit is not None else TERMINAL_LIMIT if as_grid else MAX_LIMIT,
        "cells": True,
    }
    with open_tables(context) as tables:
        result = tables.post("sql", body)
        types = ColumnTypes() if as_csv else ColumnTypes.from_document(tables.get("tables/types"))
    print_rows(result, types, as_json=as_json, as_grid=as_grid)
    _print_summary(result, write=write)


def print_rows(result: Any, types: ColumnTypes, *, as_json: bool, as_grid: bool, exact: bool = True) -> None:
    """Print the rows of a result as JSON, as a table, or as CSV: `exact`, or without control characters."""
    if as_json:
        column_types = [types[column["type"]] for column in result["columns"]]
        stdout.json_lines(row_json(row, column_types) for row in result["rows"])
    elif result["columns"]:
        _print_grid(result, types) if as_grid else _print_csv(result, exact=exact)


def _parse_parameter(text: str, *, write: bool) -> Any:
    """Return a query parameter for the API: a number, boolean, null, text, or a blob as `{"base64": …}`.

    Only numbers in canonical form are numbers: 007 and 1.10 are text. So is JSON text: `"7"` is the text 7.
    """
    if re.fullmatch(r"-?\d{1,19}", text) and str(int(text)) == text and int(text) in _INTEGERS:
        return int(text)
    if re.fullmatch(r"-?\d+\.\d+(?:e[+-]\d+)?|-?\d+e[+-]\d+", text) and repr(float(text)) == text:
        return float(text)
    if write and NUMBER.fullmatch(text) and math.isinf(float(text)) and text.lstrip("-") != "9e999":
        # SQLite would store this text as infinity in a column of reals.
        hint = f"For text and json, pass it in double quotes: '\"{text[:50]}\"'. Infinity is 9e999."
        raise InvalidUsage(f"{text[:50]} is beyond the range of a real", hint)
    if text in ("null", "true", "false"):
        return json.loads(text)
    if re.fullmatch(r'".*"', text, re.DOTALL):
        try:
            return json.loads(text)
        except ValueError:
            return text
    if text.startswith("base64:"):
        try:
            base64.b64decode(text[7:], validate=True)
        except ValueError as error:
            hint = "Write base64: and the encoded bytes, such as base64:AQID."
            raise InvalidUsage(f'"{text[:50]}" is not base64', hint) from error
        return {"base64": text[7:]}
    return text


def _print_csv(result: Any, *, exact: bool) -> None:
    names = [column["name"] for column in result["columns"]]
    raw = stdout.Raw()
    raw.write(format_row(names).encode())
    for row in result["rows"]:
        texts = [value_text(row[name]) for name in names]
        line = format_row(texts if exact else [text and plain(text) for text in texts])
        raw.write(line.encode(errors="backslashreplace"))  # JSON may have half a surrogate pair.


def _print_grid(result: Any, types: ColumnTypes) -> None:
    columns = [(column["name"], types[column["type"]]) for column in result["columns"]]
    rows = [[_cell(row[name], type) for name, type in columns] for row in result["rows"]]
    right = frozenset(
        index
        for index, (name, type) in enumerate(columns)
        if type.align_right or (not type.name and all(_is_number(row[name]) for row in result["rows"]))
    )
    stdout.styled_lines(format_table([name for name, _ in columns], rows, stdout.width(), right))


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: Any, type: TypeInfo) -> Cell:
    if value is None:
        return "null", "dim"
    if isinstance(value, dict):
        data = value["base64"]
        return f"blob of {plural(len(data) * 3 // 4 - data.count('=', -2), 'byte')}", "dim"
    return value_text(value) or "", ""


def _print_summary(result: Any, *, write: bool) -> None:
    count = len(result["rows"])
    if result["truncated"]:
        reason = "the limit" if result["truncated"] == "rows" else "the maximum size of a result"
        stderr.warn(
            f"the result ends after {plural(count, 'row')}: {reason} was reached",
            "Narrow the query (WHERE, LIMIT), raise --limit, or use `svc tables export`.",
        )
    if write:
        stderr.note(f"{plural(result['changes'], 'row')} written")
    elif stdout.is_terminal() and not result["truncated"]:
        stderr.note(plural(count, "row"))
