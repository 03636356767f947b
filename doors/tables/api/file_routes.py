"""The routes for import, preview and export of tables. Imports report their progress as NDJSON."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Literal

from pydantic import Field
from quart import Response, request
from quart_schema import document_response

from doors.tables.files.exporter import save
from doors.tables.files.format import FileProgress, Format, Preview
from doors.tables.files.importer import load
from doors.tables.replication.entry import Origin
from doors.tables.sqlite.catalog import lookup, read
from doors.tables.sqlite.connections import MAX_BYTES
from doors.tables.sqlite.errors import Connection, TablesError
from doors.tables.sqlite.owner import database_path, open_for_reading, open_for_writing
from doors.tables.types.infer import PREVIEW_ROWS, Header, preview, preview_pasted
from engine.cancellation import finish
from engine.control import ndjson
from engine.control.access import Role
from engine.control.app import Routes, principal, require
from engine.control.projects import Projects
from engine.control.schemas import QueryModel
from engine.errors import SvcError
from engine.files.reserve import check_room

Produce = Callable[[Callable[[], bool]], Iterator[bytes]]
"""Returns a generator of the pieces of a response body, which ends early if a function returns true."""


async def start_stream(produce: Produce, transfer: ExitStack) -> AsyncGenerator[bytes, None]:
    """Return a response body that is produced on a thread of its own: it takes as long as its client.

    Waits for the first piece and raises an error before it. The end of the body closes `transfer`.
    """
    body = _stream(produce, transfer)
    await anext(body)
    return body


async def _stream(produce: Produce, transfer: ExitStack) -> AsyncGenerator[bytes, None]:
    """Yield an empty piece once the first one is there, then all pieces."""
    disconnected = False
    pieces = produce(lambda: disconnected)
    thread = ThreadPoolExecutor(1, "tables-stream")
    run = partial(asyncio.get_running_loop().run_in_executor, thread)

    def close() -> None:
        with suppress(SvcError):  # The interrupt of a statement.
            pieces.close()  # type: ignore[attr-defined]

    try:
        piece = await run(next, pieces, b"")
        yield b""
        while piece:
            yield piece
            piece = await run(next, pieces, b"")
    finally:
        disconnected = True
        with transfer:
            ended = run(close)
            thread.shutdown(wait=False)
            await finish(ended)


MAX_TRANSFERS = 8
"""Maximum imports, previews and exports of a project in progress."""
PROGRESS_SECONDS = 0.2
"""Interval of progress reports."""
MAX_PREVIEW_ROWS = 10_000
"""Maximum rows of a preview. A pasted range is returned completely."""
MEDIA_TYPES: dict[Format, str] = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "jsonl": ndjson.MEDIA_TYPE,
    "sql": "application/sql",
    "db": "application/vnd.sqlite3",
}
_MULTI_TABLE_FORMATS = ("sql", "db")
Save = Callable[[Connection, Callable[[], bool]], Iterator[bytes]]
"""Yields the pieces of a file, until a function returns true."""


class ImportQuery(QueryModel):
    """Options of an import. `csv`, `json` and `jsonl` files go into one `table`; `sql` and `db` files have
    tables, of which all or one `table` are imported.

    With `create` the table is created, with column types inferred from all rows. With `replace` its rows are
    deleted first; for `sql` and `db`, tables of the same names are dropped.
    """

    format: Format
    table: str = ""
    create: bool = False
    replace: bool = False


class PreviewQuery(QueryModel):
    """Options of a preview. `tsv` is a range pasted from a spreadsheet.

    `header` is for `tsv`: whether the first row names the columns; `auto` decides by its cells. `rows` is
    the number of first rows to return; other formats return at most 20.
    """

    format: Literal["csv", "tsv", "json", "jsonl"]
    header: Header = "auto"
    rows: int = Field(default=PREVIEW_ROWS, ge=0, le=MAX_PREVIEW_ROWS)


class ExportQuery(QueryModel):
    """Options of an export: one `table` for `csv`, `json` and `jsonl`; any for the others (default: all)."""

    format: Format
    table: list[str] | str = Field([])


class Transfers:
    """The imports, previews and exports in progress, by the data folder of their project."""

    def __init__(self) -> None:
        self._running: Counter[Path] = Counter()

    @contextmanager
    def start(self, data: Path) -> Iterator[ExitStack]:
        """Yield the stack of a transfer, which is counted until it is closed.

        Raises `SvcError` above `MAX_TRANSFERS`.
        """
        if self._running[data] >= MAX_TRANSFERS:
            raise SvcError(
                f"{MAX_TRANSFERS} imports and exports of the project are in progress",
                "Wait until one has ended.",
                code="unavailable",
            )
        self._running[data] += 1
        with ExitStack() as transfer:
            transfer.callback(self._running.subtract, (data,))
            yield transfer


def add_routes(routes: Routes, projects: Projects, transfers: Transfers) -> None:
    """Add the routes of imports and exports."""

    @routes.post("/v1/projects/<project>/import", takes="application/octet-stream", sends=[ndjson.MEDIA_TYPE])
    @document_response(FileProgress)
    async def load_file(project: str, query_args: ImportQuery) -> Response:
        """Import the file in the body; needs the role deployer, or owner to create tables.

        The last line is `done`, or `{"error": {…}}` with a problem document; then nothing was imported.
        """
        creates = query_args.create or query_args.format in _MULTI_TABLE_FORMATS
        data = require_data_dir(projects, project, "owner" if creates else "deployer")
        with transfers.start(data) as transfer:
            file = transfer.enter_context(await _spool_body(data))
            origin = Origin("import", user=principal().name)
            stream = await start_stream(partial(_load, data, file, query_args, origin), transfer.pop_all())
        return ndjson.ndjson_response(stream)

    @routes.post("/v1/projects/<project>/import/preview", takes="application/octet-stream")
    @document_response(Preview)
    async def preview_file(project: str, query_args: PreviewQuery) -> Response:
        """Infer columns and first rows of the file in the body, without changes; needs the role viewer."""
        data = require_data_dir(projects, project, "viewer")
        with transfers.start(data) as transfer:
            file = transfer.enter_context(await _spool_body(data))
            stream = await start_stream(lambda _: _preview(file, query_args), transfer.pop_all())
        return Response(stream, content_type="application/json")

    @routes.get("/v1/projects/<project>/export", sends=MEDIA_TYPES.values())
    async def save_tables(project: str, query_args: ExportQuery) -> Response:
        """Export tables as they are at one moment; needs the role viewer."""
        data = require_data_dir(projects, project, "viewer")
        tables = [query_args.table] if isinstance(query_args.table, str) else query_args.table
        format = query_args.format
        return await export_response(transfers, data, format, partial(save, format=format, tables=tables))


async def export_response(transfers: Transfers, data: Path, format: Format, save: Save) -> Response:
    """Return a streaming response with the file that `save` yields."""

    def pieces(stopped: Callable[[], bool]) -> Iterator[bytes]:
        with open_for_reading(data) as connection:
            yield from save(connection, stopped)

    with transfers.start(data) as transfer:
        body = await start_stream(pieces, transfer.pop_all())
    return Response(body, content_type=MEDIA_TYPES[format])


def require_data_dir(projects: Projects, project: str, role: Role) -> Path:
    """Return the data folder of a project. Raises `SvcError` if the caller lacks the role."""
    require(project, role)
    return projects.data_dir(project)


async def _spool_body(data: Path) -> BinaryIO:
    folder = database_path(data).parent
    with _disk_errors():
        file: BinaryIO = TemporaryFile(dir=folder if folder.exists() else None)  # noqa: SIM115
    try:
        size = 0
        async for piece in request.body:
            with _disk_errors():
                check_room(file.fileno())
                size += file.write(piece)
            if size > MAX_BYTES:
                raise SvcError(
                    f"the file has more than {MAX_BYTES >> 30} GiB",
                    "Import it in parts.",
                    code="body-too-large",
                )
        with _disk_errors():
            file.flush()
    except BaseException:
        with suppress(OSError):
            file.close()
        raise
    return file


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TablesError(
            f"cannot store the uploaded file: {error.strerror}",
            "Free disk space for the tables and try again; nothing was changed.",
        ) from error


def _load(
    data: Path, file: BinaryIO, query: ImportQuery, origin: Origin, stopped: Callable[[], bool]
) -> Iterator[bytes]:
    last, reported_at = FileProgress(0), 0.0
    try:
        with _disk_errors(), open_for_writing(data, origin=origin) as connection:
            _check(query, exists=lookup(read(connection), query.table) is not None)
            steps: Iterator[FileProgress] = load(
                connection, file, query.format, table=query.table, replace=query.replace, stopped=stopped
            )
            with closing(steps):  # type: ignore[type-var]
                for last in steps:
                    if time.monotonic() - reported_at > PROGRESS_SECONDS:
                        yield _line(last, done=False)
                        reported_at = time.monotonic()
    except SvcError as error:
        if not reported_at:
            raise
        members = {"title": error.message, "code": error.code, "hint": error.hint}
        yield ndjson.line({"error": members})
        return
    yield _line(last, done=True)


def _check(query: ImportQuery, *, exists: bool) -> None:
    if query.format in _MULTI_TABLE_FORMATS:
        return
    if query.create and exists:
        raise TablesError(
            f"table {query.table} already exists",
            "Omit --create to append the rows, or pass --replace to replace the existing ones.",
            code="conflict",
        )
    if not query.create and query.table and not exists:
        raise TablesError(
            f"table {query.table} does not exist",
            "Pass --create to create it with inferred column types; --preview shows them first.",
        )


def _line(progress: FileProgress, *, done: bool) -> bytes:
    return ndjson.line(asdict(progress) | {"done": done})


def _preview(file: BinaryIO, query: PreviewQuery) -> Iterator[bytes]:
    inferred = (
        preview_pasted(file, query.header, query.rows)
        if query.format == "tsv"
        else preview(file, query.format)
    )
    columns, rows = list(map(asdict, inferred.columns)), inferred.rows[: query.rows]
    document = {"columns": columns, "rows": rows, "count": inferred.count, "header": inferred.header}
    yield json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
