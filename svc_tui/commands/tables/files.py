"""`svc tables import` and `export`: files of rows and of tables."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from doors.tables.files.format import FORMATS, format_of
from engine.errors import SvcError
from svc_tui.atomic_export import write_export
from svc_tui.commands.tables.target import place
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.progress import Progress
from svc_tui.terminal.table import format_table

_WHOLE = ("sql", "db")
_PIECE = 1 << 18
Format = Annotated[
    str,
    typer.Option(
        "--format", metavar="FORMAT", help=f"{', '.join(FORMATS)}; by the file's ending without it."
    ),
]


def load(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[TABLE] FILE",
            help="The file, or - for stdin. Without TABLE the table is called as the file is.",
        ),
    ],
    format: Format = "",
    create: Annotated[
        bool, typer.Option("--create", help="Make the table, of types that all rows fit.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put the rows in place of those that are there.")
    ] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show what the file would become, and import nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Import a file: rows of CSV, JSON or JSON Lines into a table, or tables of a dump or an SQLite file."""
    if len(words) > 2:
        raise SvcError(
            "import takes one table and one file", "svc tables import users users.csv", code="usage"
        )
    name = words[-1]
    kind = _format(format, name)
    table = words[0] if len(words) == 2 else "" if kind in _WHOLE or name == "-" else Path(name).stem
    with _opened(name) as file, place(context).tables() as tables, Progress() as progress:
        pieces = _pieces(file, progress.show)
        if preview:
            (found,) = tables.upload("import/preview", pieces, format=kind)
        else:
            how = {"format": kind, "table": table, "create": _flag(create), "replace": _flag(replace)}
            found = _imported(tables.upload("import", pieces, **how), progress.show)
    if as_json:
        stdout.data(found)
    elif preview:
        _preview(found, table)
    else:
        rows = f"{found['rows']} row{'' if found['rows'] == 1 else 's'}"
        stderr.note(f"imported {rows}" + (f" into {table}" if table else f" from {name}"))
    for left_out in found.get("skipped", ()):
        stderr.warn(f"{left_out} was left out", "Its rows can not be read from the file.")


def _flag(value: bool) -> str | None:
    return "true" if value else None


def _format(format: str, name: str) -> str:
    if format in FORMATS:
        return format
    if format or name == "-":
        what = f'there is no format "{format}"' if format else "what stdin has can not be told by a name"
        raise SvcError(what, f"Say --format and one of {', '.join(FORMATS)}.", code="usage")
    try:
        return format_of(name)
    except SvcError as error:
        raise SvcError(
            error.message, f"Say --format and one of {', '.join(FORMATS)}.", code="usage"
        ) from error


def _opened(name: str) -> BinaryIO:
    try:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb") if name == "-" else Path(name).open("rb")
    except OSError as error:
        raise SvcError(
            f"{name} can not be read: {error.strerror}", "Check its name and who may read it."
        ) from error


def _pieces(file: BinaryIO, tell: Callable[[str], None]) -> Iterator[bytes]:
    try:
        total = os.fstat(file.fileno()).st_size
        sent = 0
        while piece := file.read(_PIECE):
            yield piece
            sent += len(piece)
            tell(f"sending: {_of(sent, total)}")
    except OSError as error:
        raise SvcError(f"the file can not be read: {error.strerror}", "Nothing was imported.") from error


def _of(done: int, total: int) -> str:
    size = (
        f"{done / (1 << 20):.1f} MiB"
        if done >> 20
        else f"{done / 1024:.1f} KiB"
        if done >> 10
        else f"{done} B"
    )
    return f"{size}, {min(done * 100 // total, 100)} %" if total else size


def _imported(lines: Iterator[Any], tell: Callable[[str], None]) -> Any:
    for line in lines:
        if "error" in line:
            error = line["error"]
            raise SvcError(error["title"], error["hint"], code=error["code"])
        if line["done"]:
            return line
        tell(f"importing: {line['rows']} rows, {_of(line['bytes'], line['total'] or 0)}")
    raise SvcError("the import ended without an answer", "See whether the service runs, and try again.")


def _preview(found: Any, table: str) -> None:
    heads = [
        f"{column['name']}:{column['type']}{',key' * column['primary_key']}" for column in found["columns"]
    ]
    if stdout.is_terminal():
        rows = [[("null", "dim") if cell is None else (cell, "") for cell in row] for row in found["rows"]]
        stdout.styled_lines(format_table(heads, rows, stdout.width(), frozenset()))
    else:
        for head in heads:
            stdout.styled([(head, "")])
    count = found["count"]
    stderr.note(f"{count} row{'' if count == 1 else 's'} for {table or 'a table'}; nothing was imported")


def save(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE] [FILE]", help="The table, and the file; stdout without one, or with -."
        ),
    ] = None,
    format: Format = "",
    everything: Annotated[
        bool, typer.Option("--all", help="All tables, as sql or db; then FILE only.")
    ] = False,
) -> None:
    """Export a table, or with --all every table: svc tables export users users.csv"""
    given = list(words or ())
    if not everything and not given:
        raise SvcError("which table?", "svc tables export TABLE [FILE], or --all [FILE].", code="usage")
    table = None if everything else given.pop(0)
    if len(given) > 1:
        raise SvcError("export takes one file", "svc tables export users users.csv", code="usage")
    name = given[0] if given else "-"
    kind = _format(format or ("" if name != "-" else "sql" if everything else "csv"), name)
    if everything and kind not in _WHOLE:
        raise SvcError(f"{kind} holds one table, not all", "Say --format sql or db.", code="usage")
    if name == "-" and kind == "db" and sys.stdout.isatty():
        raise SvcError(
            "a database file is nothing for a terminal", "Name a file, or use a pipe.", code="usage"
        )
    with (
        place(context).tables() as tables,
        Progress() as progress,
        tables.download("export", format=kind, table=table) as pieces,
    ):
        if name == "-":
            raw = stdout.Raw()
            for piece in pieces:
                raw.write(piece)
            return
        size = write_export(Path(name), _told(pieces, progress.show))
    stderr.note(f"exported {_of(size, 0)} to {name}")


def _told(pieces: Iterator[bytes], tell: Callable[[str], None]) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        yield piece
        size += len(piece)
        tell(f"exporting: {_of(size, 0)}")
