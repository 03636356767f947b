"""`svc tables import` and `export`."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from doors.tables.files.format import FORMATS, format_of
from engine.errors import InvalidUsage, SvcError
from svc_tui.atomic_export import write_export
from svc_tui.commands.options import AsJson
from svc_tui.commands.tables.show import open_tables
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.table import format_table
from svc_tui.terminal.units import plural, size

_DATABASE_FORMATS = ("sql", "db")
_CHUNK_BYTES = 1 << 18
_FORMAT_HINT = f"Pass --format and one of {', '.join(FORMATS)}."
Format = Annotated[
    str,
    typer.Option(
        "--format", metavar="FORMAT", help=f"{', '.join(FORMATS)} (default: by the file extension)."
    ),
]


def load(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[TABLE] FILE", help="File, or - for stdin. TABLE defaults to the name of the file."
        ),
    ],
    format: Format = "",
    create: Annotated[
        bool, typer.Option("--create", help="Create the table, with types inferred from all rows.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace all existing rows.")] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show the inferred columns and first rows without importing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Import a file. CSV, JSON and JSON Lines have rows of one table; SQL dumps and SQLite files, tables."""
    if len(words) > 2:
        raise InvalidUsage("import takes one table and one file", "svc tables import users users.csv")
    name = words[-1]
    kind = _format(format, name)
    table = (
        words[0] if len(words) == 2 else "" if kind in _DATABASE_FORMATS or name == "-" else Path(name).stem
    )
    if "\\udc" in ascii(table):
        raise InvalidUsage("the table needs a name", "svc tables import TABLE FILE")
    with _opened(name) as file, open_tables(context) as tables, stderr.ProgressLine() as progress:
        chunks = _chunks(file, progress.show)
        if preview:
            (result,) = tables.upload("import/preview", chunks, format=kind)
        else:
            options = {"format": kind, "table": table, "create": create or None, "replace": replace or None}
            result = _imported(tables.upload("import", chunks, **options), progress.show)
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


def _opened(name: str) -> BinaryIO:
    try:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb") if name == "-" else Path(name).open("rb")
    except OSError as error:
        raise SvcError(
            f"cannot read {name}: {error.strerror}", "Check the name and the permissions."
        ) from error


def _chunks(file: BinaryIO, report: Callable[[str], None]) -> Iterator[bytes]:
    try:
        total = os.fstat(file.fileno()).st_size
        sent = 0
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
            sent += len(chunk)
            report(f"sending: {_progress_text(sent, total)}")
    except OSError as error:
        raise SvcError(f"cannot read the file: {error.strerror}", "Nothing was imported.") from error


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
        stdout.styled_lines(format_table(titles, rows, stdout.width(), frozenset()))
    else:
        for title in titles:
            stdout.styled([(title, "")])
    stderr.note(f"{plural(result['count'], 'row')} for {table or 'a table'}; nothing was imported")


def save(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE] [FILE]", help="Table and file (default: stdout).")
    ] = None,
    format: Format = "",
    everything: Annotated[bool, typer.Option("--all", help="Export all tables, as sql or db.")] = False,
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
    if everything and kind not in _DATABASE_FORMATS:
        raise InvalidUsage(f"{kind} holds one table, not all", "Pass --format sql or db.")
    if name == "-" and kind == "db" and sys.stdout.isatty():
        raise InvalidUsage("cannot write a database file to a terminal", "Name a file, or use a pipe.")
    with (
        open_tables(context) as tables,
        stderr.ProgressLine() as progress,
        tables.download("export", format=kind, table=table) as chunks,
    ):
        if name == "-":
            raw = stdout.Raw()
            for chunk in chunks:
                raw.write(chunk)
            return
        size_written = write_export(Path(name), _counted(chunks, progress.show))
    stderr.note(f"exported {size(size_written)} to {name}")


def _counted(chunks: Iterator[bytes], report: Callable[[str], None]) -> Iterator[bytes]:
    written = 0
    for chunk in chunks:
        yield chunk
        written += len(chunk)
        report(f"exporting: {size(written)}")
