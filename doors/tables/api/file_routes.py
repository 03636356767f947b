"""The routes for import, preview and export of tables. Imports report their progress as NDJSON."""

import asyncio
import io
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Literal

from pydantic import Field
from quart import Response, request
from quart_schema import document_response

from doors.tables.files.exporter import save
from doors.tables.files.format import FileProgress, Format
from doors.tables.files.importer import load
from doors.tables.replication.entry import Origin
from doors.tables.sqlite.catalog import read
from doors.tables.sqlite.connections import MAX_BYTES
from doors.tables.sqlite.errors import Connection, TablesError, fold
from doors.tables.sqlite.owner import database_path, open_for_reading, open_for_writing
from doors.tables.types.infer import PREVIEW_ROWS, Header, preview, preview_pasted
from doors.tables.types.registry import TypeName
from engine.control import ndjson
from engine.control.access import Role
from engine.control.app import Routes, principal, require, sends, takes
from engine.control.projects import Projects
from engine.control.schemas import QueryModel
from engine.errors import SvcError
from engine.files.reserve import check_room

_BUFFERED_CHUNKS = 4
_CHUNK_BYTES = 64 << 10

Producer = Callable[["Stream"], None]


class StreamDisconnected(Exception):
    """The client has disconnected."""


class Stream(io.RawIOBase):
    """A response body that a function writes on its own thread, with backpressure."""

    def __init__(self, produce: Producer, on_end: Callable[[], None]) -> None:
        """`produce` writes to its argument, and may raise. `on_end` is called on the event loop after it."""
        super().__init__()
        self._produce, self._on_end = produce, on_end
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes | BaseException] = asyncio.Queue(_BUFFERED_CHUNKS)
        """The last one is empty, or the error of the function."""
        self._ended = asyncio.Event()
        self._first = b""
        self._discards = False
        self.disconnected = False
        """True once the client has disconnected."""

    async def start(self) -> None:
        """Start, and wait for the first chunk. Raises the function's error before that chunk."""
        # Its own thread: it takes as long as the client takes to read.
        threading.Thread(target=self._run, name="tables-stream", daemon=True).start()
        try:
            self._first = await self._next()
        except BaseException:
            await self._stop()
            raise

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield all chunks. Raises the function's error. Close the generator on disconnect."""
        try:
            chunk = self._first
            while chunk:
                yield chunk
                chunk = await self._next()
        finally:
            await self._stop()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Send a chunk on the thread, and return its length. Raises `StreamDisconnected`."""
        if data and not self._discards:
            self.check()
            self._put(bytes(data))
        return len(data)

    def discard(self) -> None:
        """Ignore further chunks."""
        self._discards = True

    def check(self) -> None:
        """Raise `StreamDisconnected` if the client has disconnected."""
        if self.disconnected:
            raise StreamDisconnected

    def buffered(self) -> io.BufferedWriter:
        """Return a buffered writer, which must be flushed at the end."""
        return io.BufferedWriter(self, _CHUNK_BYTES)

    def _put(self, chunk: bytes | BaseException) -> None:
        asyncio.run_coroutine_threadsafe(self._chunks.put(chunk), self._loop).result()

    def _run(self) -> None:
        last: bytes | BaseException = b""
        try:
            self._produce(self)
        except StreamDisconnected:
            pass
        except BaseException as error:
            last = error
        with suppress(RuntimeError):  # The service has stopped, and its event loop is closed.
            self._loop.call_soon_threadsafe(self._on_end)
            self._put(last)
            self._loop.call_soon_threadsafe(self._ended.set)

    async def _next(self) -> bytes:
        chunk = await self._chunks.get()
        if isinstance(chunk, BaseException):
            raise chunk
        return chunk

    async def _stop(self) -> None:
        """Stop the thread at its next chunk, and wait for it."""
        self.disconnected = True
        while not self._ended.is_set():
            while not self._chunks.empty():
                self._chunks.get_nowait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), 0.05)


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
Save = Callable[[Connection, BinaryIO, Callable[[], bool]], Iterator[FileProgress]]
"""Writes a file and yields its progress, until a function returns true."""


class ImportQuery(QueryModel):
    """Options of an import. `csv`, `json` and `jsonl` files go into one `table`; `sql` and `db` files have
    their own tables.

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


@dataclass(frozen=True, slots=True)
class ImportLine:
    """One line of the response of an import: the progress so far. `done` is true in the last line.

    The last line may be `{"error": {…}}` instead, a problem document; then nothing was imported.
    """

    done: bool
    rows: int
    _: KW_ONLY
    bytes: int
    total: int | None
    table: str
    skipped: list[str]


@dataclass(frozen=True, slots=True)
class PreviewColumn:
    """A column inferred from a file."""

    name: str
    type: TypeName
    primary_key: bool


@dataclass(frozen=True, slots=True)
class PreviewAnswer:
    """The table inferred from a file: its columns, row count, and first rows as text.

    Without a `header` the columns are named by position, and the first row is data.
    """

    columns: list[PreviewColumn]
    rows: list[list[str | None]]
    count: int
    header: bool


class Transfers:
    """The imports, previews and exports in progress, by the data folder of their project."""

    def __init__(self) -> None:
        self._running: Counter[Path] = Counter()

    @asynccontextmanager
    async def start(self, data: Path) -> AsyncIterator[Callable[[Producer], Awaitable[Stream]]]:
        """Yield a function that starts the stream of a transfer, which is counted until its thread ends.

        Raises `SvcError` above `MAX_TRANSFERS`.
        """
        if self._running[data] >= MAX_TRANSFERS:
            raise SvcError(
                f"{MAX_TRANSFERS} imports and exports of the project are in progress",
                "Wait until one has ended.",
                code="unavailable",
            )
        self._running[data] += 1
        started = False

        async def stream(produce: Producer) -> Stream:
            nonlocal started
            result = Stream(produce, lambda: self._end(data))
            started = True
            await result.start()
            return result

        try:
            yield stream
        finally:
            if not started:
                self._end(data)

    def _end(self, data: Path) -> None:
        self._running[data] -= 1
        if not self._running[data]:
            del self._running[data]


def add_routes(routes: Routes, projects: Projects, transfers: Transfers) -> None:
    """Add the routes of imports and exports."""

    @routes.post("/v1/projects/<project>/import")
    @takes("application/octet-stream")
    @sends(ndjson.MEDIA_TYPE)
    @document_response(ImportLine)
    async def load_file(project: str, query_args: ImportQuery) -> Response:
        """Import the file in the body; needs the role deployer, or owner to create tables."""
        creates = query_args.create or query_args.format in _MULTI_TABLE_FORMATS
        data = require_data_dir(projects, project, "owner" if creates else "deployer")
        async with transfers.start(data) as start:
            file = await _spool_body(data)
            origin = Origin("import", user=principal().name)
            stream = await start(_with_file(file, lambda sink: _load(data, file, query_args, origin, sink)))
        return ndjson.ndjson_response(stream.chunks())

    @routes.post("/v1/projects/<project>/import/preview")
    @takes("application/octet-stream")
    @document_response(PreviewAnswer)
    async def preview_file(project: str, query_args: PreviewQuery) -> Response:
        """Infer columns and first rows of the file in the body, without changes; needs the role viewer."""
        data = require_data_dir(projects, project, "viewer")
        async with transfers.start(data) as start:
            file = await _spool_body(data)
            stream = await start(_with_file(file, lambda sink: _preview(file, query_args, sink)))
        return Response(stream.chunks(), content_type="application/json")

    @routes.get("/v1/projects/<project>/export")
    @sends(*MEDIA_TYPES.values())
    async def save_tables(project: str, query_args: ExportQuery) -> Response:
        """Export tables as they are at one moment; needs the role viewer."""
        data = require_data_dir(projects, project, "viewer")
        tables = [query_args.table] if isinstance(query_args.table, str) else query_args.table
        format = query_args.format
        return await export_response(
            transfers,
            data,
            format,
            lambda connection, output, stopped: save(connection, output, format, tables, stopped=stopped),
        )


async def export_response(transfers: Transfers, data: Path, format: Format, save: Save) -> Response:
    """Return a streaming response with the file that `save` writes."""
    async with transfers.start(data) as start:
        stream = await start(lambda sink: _save(data, save, sink))
    return Response(stream.chunks(), content_type=MEDIA_TYPES[format])


def require_data_dir(projects: Projects, project: str, role: Role) -> Path:
    """Return the data folder of a project. Raises `SvcError` if the caller lacks the role."""
    require(project, role)
    return projects.data_dir(project)


async def _spool_body(data: Path) -> BinaryIO:
    """Write the request body to an unnamed file in the project's data folder."""
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


def _with_file(file: BinaryIO, write: Callable[[Stream], None]) -> Callable[[Stream], None]:
    def run(sink: Stream) -> None:
        with file:
            write(sink)

    return run


def _load(data: Path, file: BinaryIO, query: ImportQuery, origin: Origin, sink: Stream) -> None:
    last, reported_at = FileProgress(0), 0.0
    try:
        with _disk_errors(), open_for_writing(data, origin=origin) as connection:
            _check(query, {fold(name) for name in read(connection)})
            steps: Iterator[FileProgress] = load(
                connection,
                file,
                query.format,
                table=query.table,
                replace=query.replace,
                stopped=lambda: sink.disconnected,
            )
            with closing(steps):  # type: ignore[type-var]
                for last in steps:
                    sink.check()
                    if time.monotonic() - reported_at > PROGRESS_SECONDS:
                        sink.write(_line(last, done=False))
                        reported_at = time.monotonic()
    except SvcError as error:
        if not reported_at:
            raise
        members = {"title": error.message, "code": error.code, "hint": error.hint}
        sink.write(ndjson.line({"error": members}))
        return
    sink.write(_line(last, done=True))


def _check(query: ImportQuery, existing: set[str]) -> None:
    if query.format in _MULTI_TABLE_FORMATS:
        return
    if query.create and fold(query.table) in existing:
        raise TablesError(
            f"table {query.table} already exists",
            "Omit --create to append the rows, or pass --replace to replace the existing ones.",
            code="conflict",
        )
    if not query.create and query.table and fold(query.table) not in existing:
        raise TablesError(
            f"table {query.table} does not exist",
            "Pass --create to create it with inferred column types; --preview shows them first.",
        )


def _line(progress: FileProgress, *, done: bool) -> bytes:
    return ndjson.line({"done": done} | asdict(progress))


def _preview(file: BinaryIO, query: PreviewQuery, sink: Stream) -> None:
    inferred = (
        preview_pasted(file, query.header, query.rows)
        if query.format == "tsv"
        else preview(file, query.format)
    )
    columns = [
        {"name": column.name, "type": column.type, "primary_key": column.primary_key}
        for column in inferred.columns
    ]
    rows = inferred.rows[: query.rows]
    document = {"columns": columns, "rows": rows, "count": inferred.count, "header": inferred.header}
    with sink.buffered() as output:
        output.write(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))


def _save(data: Path, save: Save, sink: Stream) -> None:
    output = sink.buffered()
    try:
        with open_for_reading(data) as connection:
            for _ in save(connection, output, lambda: sink.disconnected):
                pass
        output.flush()
    except BaseException:
        sink.discard()  # Buffered data would be the first chunk of a successful response.
        raise
    finally:
        output.detach()
