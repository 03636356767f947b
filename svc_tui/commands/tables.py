"""`svc tables` and `svc files`: the data of a project, with or without a running server."""

import base64
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from doors.tables.files.csv_file import format_row
from doors.tables.files.format import FORMATS
from doors.tables.migrations import MIGRATIONS_FOLDER, ignored
from doors.tables.migrations import find as find_migrations
from doors.tables.migrations.drift import write as write_migration
from doors.tables.types.parse import NUMBER
from engine.errors import InvalidUsage, SvcError
from engine.files.data_dir import DATA_DIR
from engine.manifest.load import find, load
from engine.manifest.model import Project
from engine.static_files.content_type import content_type
from svc_tui.atomic_export import write_export
from svc_tui.client import Client
from svc_tui.client.credentials import project_service
from svc_tui.client.discovery import project_client
from svc_tui.commands.options import AsJson, Commands, Yes, argument, flag, option, table_names
from svc_tui.deploy import format as deploy_format
from svc_tui.tables_syntax import (
    CHANGE_SYNTAX,
    COLUMN_SYNTAX,
    DATABASE_FORMATS,
    ColumnTypes,
    changed_cells,
    format_change,
    format_of,
    history_begin,
    is_destructive,
    parse_changes,
    parse_columns,
    require_complete,
    row_json,
    rules,
    value_text,
    wrote,
)
from svc_tui.terminal import prompt, stderr, stdout
from svc_tui.terminal.stderr import plain
from svc_tui.terminal.stdout import Answer, Cell, Styled
from svc_tui.terminal.units import local_time, parse_moment, plural, size

tables = Commands(help="Show, query, change, import and export the project's tables.")


@tables.callback()
def service_option(
    context: typer.Context,
    service: Annotated[
        bool, flag("Use the project on the service you are logged in to.", "--service")
    ] = False,
) -> None:
    """Store the option of all commands of the group."""
    context.obj = service


def open_tables(context: typer.Context) -> AbstractContextManager[tuple[Client, Project]]:
    """Connect to the control API, starting a local one if needed. Raises `SvcError`.

    `context.obj` is the value of --service.
    """
    return project_service() if context.obj else project_client(load(find(Path.cwd())))


def _types(client: Client) -> ColumnTypes:
    return ColumnTypes.from_document(client.get("tables/types"))


def _change(client: Client, **change: Any) -> None:
    client.call("POST", "schema", {"changes": [change]})


Table = Annotated[str, argument("TABLE", "Name of the table.", autocompletion=table_names)]


@tables.command("list")
def list_tables(context: typer.Context) -> Answer:
    """List tables with their row counts and notes."""
    with open_tables(context) as (client, _):
        listing = client.get("tables")
    if not (found := listing["tables"]):
        empty = (
            "the project has no tables; create one with `svc tables create` or a migration tables/0001.sql"
        )
        return Answer(listing, empty=empty)
    rows = [
        [
            (table["name"], "cyan"),
            (_row_count(table), "dim" if table["rows"] is None else ""),
            (", ".join(column["name"] for column in table["columns"]), ""),
            (table["note"] or ("" if table["kind"] == "table" else table["kind"]), "dim"),
        ]
        for table in found
    ]
    lines = stdout.table(["table", "rows", "columns", "note"], rows, right={1})
    names = ("name", "kind", "rows", "note")
    values = [["" if each[name] is None else each[name] for name in names] for each in found]
    return Answer(listing, lines, fields=(("table", *names[1:]), values))


@tables.command()
def show(context: typer.Context, table: Table) -> Answer:
    """Show the columns, indexes and notes of a table."""
    with open_tables(context) as (client, _):
        document = client.get("table", name=table)
    titles = ("column", "type", "rules", "note")
    described = []
    for column in document["columns"]:
        words = rules(column)
        if column["primary_key"] and len(document["key"]) > 1:
            words[0] += f" {document['key'].index(column['name']) + 1}"
        words += ["computed"] if column["generated"] else []
        described.append((column["name"], column["type"], ", ".join(words), column["note"]))
    kind = "" if document["kind"] == "table" else f"{document['kind']}, "
    noun = "row" if document["rows"] == 1 else "rows"
    lines: list[Styled] = [
        [(document["name"], "bold cyan"), (f"  {kind}{_row_count(document)} {noun}", "dim")]
    ]
    lines += [[(document["note"], "")], []] if document["note"] else [[]]
    styles = ("cyan", "", "", "dim")
    lines += stdout.table(titles, [list(zip(column, styles, strict=True)) for column in described])
    lines += [[]] if document["indexes"] else []
    for index in document["indexes"]:
        columns = ", ".join(name or "(an expression)" for name in index["columns"])
        details = ", unique" * index["unique"] + ", partial" * index["partial"]
        lines.append([("index ", "dim"), (index["name"], ""), (f" on {columns}{details}", "dim")])
    return Answer(document, lines, fields=(titles, described))


def _row_count(table: Any) -> str:
    return "many" if table["rows"] is None else str(table["rows"])


@tables.command()
def create(
    context: typer.Context,
    table: Table,
    words: Annotated[list[str], argument("COLUMN[, COLUMN]…", f"Columns: {COLUMN_SYNTAX}.")],
    note: Annotated[str, option("TEXT", "Note on the table.")] = "",
) -> None:
    """Create a table. Example: svc tables create users 'id integer primary key, joined date'"""
    with open_tables(context) as (client, _):
        columns = parse_columns(" ".join(words), _types(client))
        _change(client, op="create-table", table=table, columns=columns, note=note)
    stderr.note(f"created table {table}")


@tables.command()
def alter(
    context: typer.Context,
    table: Table,
    words: Annotated[list[str], argument("CHANGE[, CHANGE]…", f"Changes: {', '.join(CHANGE_SYNTAX)}.")],
    yes: Yes = False,
) -> None:
    """Alter a table in one transaction. Example: svc tables alter users add age integer, drop mail"""
    with open_tables(context) as (client, _):
        current = client.get("table", name=table)
        changes = parse_changes(current, " ".join(words), _types(client))
        if destructive := [format_change(change) for change in changes if is_destructive(change)]:
            prompt.confirm(f"{', '.join(destructive)}: delete these values of {current['name']}?", yes=yes)
        client.call("POST", "schema", {"changes": changes})
    stderr.note(f"altered table {table}")


@tables.command()
def rename(context: typer.Context, table: Table, name: Annotated[str, argument("NAME", "New name.")]) -> None:
    """Rename a table. Views, triggers and foreign keys that use it change with it."""
    with open_tables(context) as (client, _):
        _change(client, op="rename-table", table=table, name=name)
    stderr.note(f"renamed {table} to {name}")


@tables.command()
def drop(context: typer.Context, table: Table, yes: Yes = False) -> None:
    """Drop a table and its rows."""
    with open_tables(context) as (client, _):
        current = client.get("table", name=table)
        if (count := current["rows"]) != 0:
            rows = "all its rows" if count is None else "its row" if count == 1 else f"its {count} rows"
            prompt.confirm(f"drop {current['name']} and {rows}?", yes=yes)
        _change(client, op="drop-table", table=table)
    stderr.note(f"dropped table {table}")


@tables.command()
def index(
    context: typer.Context,
    table: Table,
    columns: Annotated[list[str] | None, argument("[COLUMN]…", "Columns, in order.")] = None,
    unique: Annotated[bool, flag("Refuse rows with the same values in the columns.", "--unique")] = False,
    name: Annotated[str, typer.Option(help="Name of the index (default: from table and columns).")] = "",
    drop: Annotated[str, option("NAME", "Drop this index instead of creating one.")] = "",
) -> None:
    """Create or drop an index."""
    if bool(drop) == bool(columns):
        hint = f"svc tables index {table} COLUMN…"
        raise InvalidUsage("index needs columns, or --drop and the name of an index", hint)
    with open_tables(context) as (client, _):
        if not drop:
            _change(client, op="create-index", table=table, columns=columns, unique=unique, name=name)
            stderr.note(f"created an index of {table} on {', '.join(columns or ())}")
            return
        names = [index["name"] for index in client.get("table", name=table)["indexes"]]
        if drop not in names:
            hint = f"Available: {', '.join(names)}." if names else "The table has no indexes."
            raise SvcError(f"table {table} has no index {drop}", hint)
        _change(client, op="drop-index", name=drop)
    stderr.note(f"dropped index {drop}")


AsJsonLines = Annotated[bool, flag("Print one JSON document a row.", "--json")]
AsCsv = Annotated[bool, flag("Print CSV.", "--csv")]
KeyText = Annotated[
    str, argument("KEY", """Key of the row: 12, or '["x", 12]' for a key of several columns.""")
]


@tables.command()
def blame(
    context: typer.Context,
    table: Table,
    key: KeyText,
    column: Annotated[str, argument("[COLUMN]", "Only changes of this column.")] = "",
    limit: Annotated[int, option("N", "Maximum number of changes.", min=1, max=1000)] = 100,
) -> Answer:
    """Show what wrote a row, newest first. Example: svc tables blame orders 8812 total"""
    cells = key if key.startswith("[") else json.dumps([key])
    with open_tables(context) as (client, _):
        found = client.get("tables/history", table=table, key=cells, column=column, limit=limit)
    rows = [
        (local_time(row["write"]["time_ns"]), row["operation"], wrote(row["write"]), changed_cells(row))
        for row in found["rows"]
    ]
    titles = ("time", "change", "by", "cells")
    more = "what was written before is not known" if found["complete"] else "for more, pass --limit N"
    missing = "" if rows else f"no write of {column or 'a row'} with the key {key} is known; "
    return Answer(
        found,
        stdout.table(titles, [[(each, "") for each in row] for row in rows]) if rows else (),
        fields=(titles, rows),
        after=f"{missing}{history_begin(found)}; {more}",
        warnings=[(f"without history: {lacks}", "") for lacks in found["lacks"]],
    )


@tables.command()
def at(
    context: typer.Context,
    moment: Annotated[
        str, argument("TIME", "2026-11-28T14:02 or 14:02 of today (UTC), an age such as 10m, or now.")
    ],
    words: Annotated[list[str], argument("query SQL [VALUE]…", "A statement that reads, with values.")],
    as_json: AsJsonLines = False,
    as_csv: AsCsv = False,
) -> None:
    """Read the tables as they were. Example: svc tables at 14:02 query 'select * from stock'"""
    if words[0] != "query" or len(words) < 2:
        raise InvalidUsage("at needs query and a statement", "svc tables at 14:02 query 'select …'")
    body = {"sql": words[1], "at": {"time_ns": parse_moment(moment)}}
    _run_statement(context, body, words[2:], as_json=as_json, as_csv=as_csv)


TERMINAL_LIMIT = 1000
"""Default maximum number of rows on a terminal."""
MAX_LIMIT = 10_000
_INTEGERS = range(-(2**63), 2**63)


@tables.command()
def query(
    context: typer.Context,
    sql: Annotated[str, argument("SQL", "One statement, with $1, $2 for values.")],
    values: Annotated[
        list[str] | None, argument("[VALUE]…", "Values: numbers, true, false, null, base64:…, or text.")
    ] = None,
    write: Annotated[bool, flag("Allow the statement to change rows and tables.", "--write")] = False,
    limit: Annotated[
        int | None,
        option(
            "N",
            f"Maximum number of rows (default: {TERMINAL_LIMIT} on a terminal, else {MAX_LIMIT}).",
            min=0,
            max=MAX_LIMIT,
        ),
    ] = None,
    as_json: AsJsonLines = False,
    as_csv: AsCsv = False,
) -> None:
    """Run one SQL statement. Example: svc tables query 'select * from users where id = $1' 7"""
    body = {"sql": sql, "write": write} | ({"limit": limit} if limit is not None else {})
    _run_statement(context, body, values or (), as_json=as_json, as_csv=as_csv)


def _run_statement(
    context: typer.Context, body: dict[str, Any], values: Sequence[str], *, as_json: bool, as_csv: bool
) -> None:
    """Run the statement of a request for `/sql` with values, and print its rows."""
    if as_json and as_csv:
        raise InvalidUsage("--json and --csv exclude each other", "Pass one of them.")
    as_grid, write = stdout.is_terminal() and not as_json and not as_csv, body.get("write", False)
    params = [_parse_parameter(value, write=write) for value in values]
    defaults = {"limit": TERMINAL_LIMIT if as_grid else MAX_LIMIT, "cells": True}
    with open_tables(context) as (client, _):
        result = client.call("POST", "sql", {**defaults, **body, "params": params})
        types = ColumnTypes() if as_csv else _types(client)
    print_rows(result, types, as_json=as_json, as_grid=as_grid)
    count = len(result["rows"])
    if result["truncated"]:
        reason = "the limit" if result["truncated"] == "rows" else "the maximum size of a result"
        hint = "Narrow the query (WHERE, LIMIT), raise --limit, or use `svc tables export`."
        stderr.warn(f"the result ends after {plural(count, 'row')}: {reason} was reached", hint)
    if write:
        stderr.note(f"{plural(result['changes'], 'row')} written")
    elif stdout.is_terminal() and not result["truncated"]:
        stderr.note(plural(count, "row"))


def print_rows(result: Any, types: ColumnTypes, *, as_json: bool, as_grid: bool, exact: bool = True) -> None:
    """Print the rows of a result as JSON, as a table, or as CSV: `exact`, or without control characters."""
    names = [column["name"] for column in result["columns"]]
    if as_json:
        column_types = [types[column["type"]] for column in result["columns"]]
        stdout.json_lines(row_json(row, column_types) for row in result["rows"])
    elif names and as_grid:
        right = set()
        for index, column in enumerate(result["columns"]):
            kind = types[column["type"]]
            found = {type(row[column["name"]]) for row in result["rows"]}
            if kind.align_right or (not kind.name and found <= {int, float, type(None)}):
                right.add(index)
        rows = [[_cell(row[name]) for name in names] for row in result["rows"]]
        stdout.styled_lines(stdout.table(names, rows, right))
    elif names:
        raw = stdout.Raw()
        raw.write(format_row(names).encode())
        for row in result["rows"]:
            texts = [value_text(row[name]) for name in names]
            line = format_row(texts if exact else [text and plain(text) for text in texts])
            raw.write(line.encode(errors="backslashreplace"))  # JSON may have half a surrogate pair.


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


def _cell(value: Any) -> Cell:
    if value is None:
        return "null", "dim"
    if isinstance(value, dict):
        data = value["base64"]
        return f"blob of {plural(len(data) * 3 // 4 - data.count('=', -2), 'byte')}", "dim"
    return value_text(value) or "", ""


_CHUNK_BYTES = 1 << 18
_FORMAT_HINT = f"Pass --format and one of {', '.join(FORMATS)}."
Format = Annotated[
    str, option("FORMAT", f"{', '.join(FORMATS)} (default: by the file extension).", "--format")
]


@tables.command("import")
def import_(
    context: typer.Context,
    words: Annotated[
        list[str], argument("[TABLE] FILE", "File, or - for stdin. TABLE defaults to the name of the file.")
    ],
    format: Format = "",
    create: Annotated[bool, flag("Create the table, with types inferred from all rows.", "--create")] = False,
    replace: Annotated[bool, flag("Replace all existing rows.", "--replace")] = False,
    preview: Annotated[
        bool, flag("Show the inferred columns and first rows without importing.", "--preview")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Import a file. CSV, JSON and JSON Lines have rows of one table; SQL dumps and SQLite files, tables."""
    if len(words) > 2:
        raise InvalidUsage("import takes one table and one file", "svc tables import users users.csv")
    name = words[-1]
    kind = _format(format, name)
    of_file = "" if kind in DATABASE_FORMATS or name == "-" else Path(name).stem
    table = words[0] if len(words) == 2 else of_file
    if "\\udc" in ascii(table):
        raise InvalidUsage("the table needs a name", "svc tables import TABLE FILE")
    if kind == "db" and name != "-":
        require_complete(Path(name))
    with opened(name) as file, open_tables(context) as (client, _), stderr.ProgressLine() as progress:
        chunks = sized_chunks(file, progress.show)
        path, options = "import", dict[str, Any](format=kind)
        if preview:
            path += "/preview"
        else:
            options |= {"table": table, "create": create or None, "replace": replace or None}
        lines = client.lines("POST", path, params=options, content=chunks)
        (result,) = lines if preview else (_imported(lines, progress.show),)
    if as_json:
        stdout.data(result)
    elif preview:
        _preview(result, table)
    else:
        rows = plural(result["rows"], "row")
        stderr.note(f"imported {rows} into {table}" if table else f"imported {rows} from {name}")
    for skipped in result.get("skipped", ()):
        hint = "The rows of a full-text index without content, or whose table is missing, cannot be read."
        stderr.warn(f"{skipped} was skipped", hint)


def _format(format: str, name: str) -> str:
    if format in FORMATS:
        return format
    if format or name == "-":
        message = f'unknown format "{format}"' if format else "the format of stdin is unknown"
        raise InvalidUsage(message, _FORMAT_HINT)
    try:
        return format_of(name)
    except SvcError as error:
        raise InvalidUsage(error.message, _FORMAT_HINT) from error


def opened(name: str) -> BinaryIO:
    """Open a file, or stdin for -. Raises `SvcError`."""
    try:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb") if name == "-" else Path(name).open("rb")
    except OSError as error:
        hint = "Check the name and the permissions."
        raise SvcError(f"cannot read {name}: {error.strerror}", hint) from error


def sized_chunks(file: BinaryIO, report: Callable[[str], None]) -> Iterator[bytes]:
    """Yield a file in chunks, and report how much was read. Raises `SvcError`."""
    try:
        total = os.fstat(file.fileno()).st_size
        sent = 0
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
            sent += len(chunk)
            report(f"sending: {_progress_text(sent, total)}")
    except OSError as error:
        raise SvcError(f"cannot read the file: {error.strerror}", "Nothing was changed.") from error


def _progress_text(sent: int, total: int) -> str:
    return f"{size(sent)}, {min(sent * 100 // total, 100)} %" if total else size(sent)


def _imported(lines: Iterator[Any], report: Callable[[str], None]) -> Any:
    for line in lines:
        if line["done"]:
            return line
        report(f"importing: {line['rows']} rows, {_progress_text(line['bytes'], line['total'] or 0)}")
    raise SvcError("lost the connection during the import", "Check that the service runs, then try again.")


def _preview(result: Any, table: str) -> None:
    titles = [
        f"{column['name']} {column['type']}{' primary key' * column['primary_key']}"
        for column in result["columns"]
    ]
    if stdout.is_terminal():
        rows = [[("null", "dim") if cell is None else (cell, "") for cell in row] for row in result["rows"]]
        stdout.styled_lines(stdout.table(titles, rows))
    else:
        stdout.styled_lines([[(title, "")] for title in titles])
    stderr.note(f"{plural(result['count'], 'row')} for {table or 'a table'}; nothing was imported")


@tables.command()
def export(
    context: typer.Context,
    words: Annotated[
        list[str] | None, argument("[TABLE] [FILE]", "Table and file (default: stdout).")
    ] = None,
    format: Format = "",
    everything: Annotated[bool, flag("Export all tables, as sql or db.", "--all")] = False,
) -> None:
    """Export a table, or with --all every table. Example: svc tables export users users.csv"""
    arguments = list(words or ())
    if not everything and not arguments:
        raise InvalidUsage("no table was given", "Use svc tables export TABLE [FILE], or --all [FILE].")
    table = None if everything else arguments.pop(0)
    if len(arguments) > 1:
        raise InvalidUsage("export takes one file", "svc tables export users users.csv")
    name = arguments[0] if arguments else "-"
    kind = _format(format or ("" if name != "-" else "sql" if everything else "csv"), name)
    if everything and kind not in DATABASE_FORMATS:
        raise InvalidUsage(f"{kind} holds one table, not all", "Pass --format sql or db.")
    if name == "-" and kind == "db" and sys.stdout.isatty():
        raise InvalidUsage("cannot write a database file to a terminal", "Name a file, or use a pipe.")
    with (
        open_tables(context) as (client, _),
        stderr.ProgressLine() as progress,
        client.download("export", params={"format": kind, "table": table}) as chunks,
    ):
        written = save(chunks, name, progress, "exporting")
    if written is not None:
        stderr.note(f"exported {size(written)} to {name}")


def save(chunks: Iterator[bytes], name: str, progress: stderr.ProgressLine, doing: str) -> int | None:
    """Write chunks to a file and return its bytes, or to stdout if the name is `-`."""
    if name == "-":
        raw = stdout.Raw()
        for chunk in chunks:
            raw.write(chunk)
        return None

    def counted() -> Iterator[bytes]:
        written = 0
        for chunk in chunks:
            yield chunk
            written += len(chunk)
            progress.show(f"{doing}: {size(written)}")

    return write_export(Path(name), counted())


@tables.command()
def migrate(
    context: typer.Context,
    plan: Annotated[bool, flag("List the pending migrations without applying them.", "--plan")] = False,
) -> Answer:
    """Apply pending migrations in one transaction. They run in the order of their names."""
    with open_tables(context) as (client, project):
        files = [{"name": file.name, "sql": file.sql} for file in find_migrations(project.root)]
        for warning in ignored(project.root):
            stderr.warn(warning.message, warning.hint)
        pending = client.call("POST", "migrations", {"files": files, "plan": plan})["applied"]
        names = client.get("migrations")["applied"]
    note = f"{plural(len(pending), 'migration')} {'pending' if plan else 'applied'}"
    if not files:
        note = f"the project has no migrations; the first is a file {MIGRATIONS_FOLDER}/0001-name.sql"
    elif not pending:
        note = f"no pending migrations; {len(names)} applied before"
    return Answer({"plan": plan, "new": pending, "applied": names}, pending, after=note)


@tables.command()
def migration(
    context: typer.Context, name: Annotated[str, argument("NAME", "Name of the file after its number.")]
) -> None:
    """Write a migration from changes that have none. It is recorded as applied here."""
    if context.obj or not re.fullmatch(r"[\w-]+", name):
        message = "a migration has a name of letters, digits, - and _, and is not written with --service"
        raise InvalidUsage(message, "Run `svc tables migration add-color`.")
    root = find(Path.cwd())
    written = write_migration(root, root / DATA_DIR, name)
    for file in written.files:
        stdout.line(file)
    if written.files:
        names = ", ".join(written.names) or "the tables are as it makes them"
        stderr.note(f"recorded as applied here: {names}")
    elif not written.left_out:
        stderr.note("nothing to write: the migrations make the tables as they are")
    if written.left_out:
        stderr.warn(
            f"left out, because rows may lose values: {', '.join(written.left_out)}",
            f"Write the SQL into a new {MIGRATIONS_FOLDER}/*.sql, then run this command again to record it.",
        )


files = Commands(help="List, read, store and remove the project's files.")
files.callback()(service_option)
Prefix = Annotated[str, argument("[PREFIX]", "Beginning of the keys (default: all).")]
Key = Annotated[str, argument("KEY", "Key of the file.")]


@files.command("ls")
def list_files(
    context: typer.Context,
    prefix: Prefix = "",
    recursive: Annotated[bool, flag("List all keys, not one level.", "--recursive", "-r")] = False,
) -> Answer:
    """List files of one level, or all with --recursive. Keys have levels as paths do, with slashes."""
    found: list[Any] = []
    prefixes: list[str] = []
    asked: dict[str, str | None] = {"prefix": prefix, "delimiter": "" if recursive else "/", "cursor": ""}
    with open_tables(context) as (client, _):
        while asked["cursor"] is not None:
            page = client.get("files", **asked)
            found += page["files"]
            prefixes += page["prefixes"]
            asked["cursor"] = page["cursor"]
    rows: list[list[stdout.Cell]] = [[("", ""), ("", ""), ("", ""), (each, "bold")] for each in prefixes]
    for each in found:
        kind, modified = each["fields"].get("content-type", ""), deploy_format.local_time(each["modified"])
        rows.append([(size(each["size"]), ""), (modified, "dim"), (kind, "dim"), (each["key"], "")])
    lines = stdout.table(["size", "modified", "type", "key"], rows)
    return Answer({"files": found, "prefixes": prefixes}, lines)


@files.command()
def get(
    context: typer.Context,
    key: Key,
    file: Annotated[str, argument("[FILE]", "File (default: stdout).")] = "-",
) -> None:
    """Read a file."""
    with (
        open_tables(context) as (client, _),
        stderr.ProgressLine() as progress,
        client.download("files/content", params={"key": key}) as chunks,
    ):
        written = save(chunks, file, progress, "reading")
    if written is not None:
        stderr.note(f"read {size(written)} into {file}")


@files.command()
def put(
    context: typer.Context,
    file: Annotated[str, argument("FILE", "File, or - for stdin.")],
    key: Annotated[str, argument("[KEY]", "Key (default: the name of the file).")] = "",
    type: Annotated[str, option("TYPE", "Content type (default: that of the name).", "--type")] = "",
) -> Answer:
    """Store a file. It replaces the one with its key."""
    if file == "-" and not key:
        raise InvalidUsage("the file needs a key", "svc files put - KEY")
    key = key or Path(file).name
    with opened(file) as source, open_tables(context) as (client, _), stderr.ProgressLine() as progress:
        chunks = sized_chunks(source, progress.show)
        params = {"key": key, "type": type or content_type(key)}
        stored = client.call("PUT", "files/content", params=params, content=chunks)
    return Answer(stored, [f"{key}  {size(stored['size'])}"])


@files.command()
def rm(context: typer.Context, keys: Annotated[list[str], argument("KEY…", "Keys of files.")]) -> int:
    """Remove files."""
    with open_tables(context) as (client, _):
        answers = {key: client.call("DELETE", "files/content", params={"key": key}) for key in keys}
    missing = [key for key, answer in answers.items() if not answer["removed"]]
    for key in missing:
        stderr.warn(f"there is no file {key!r}", "svc files ls lists the files.")
    return 1 if missing else 0


@files.command()
def du(context: typer.Context, prefix: Prefix = "") -> Answer:
    """Show how many files there are, and their bytes."""
    with open_tables(context) as (client, _):
        usage = client.get("files/usage", prefix=prefix)
    limit = f" of {size(usage['limit'])}" if usage["limit"] is not None else ""
    return Answer(usage, [f"{plural(usage['files'], 'file')}, {size(usage['bytes'])}{limit}"])
