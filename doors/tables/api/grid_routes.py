"""The routes of grids: a sorted and filtered table, read in windows of rows.

The format of cells is in `doors/tables/types/grid_cell.py`. Reading needs the role viewer.
"""

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field
from quart import Response
from quart_schema import document_response

from doors.tables.api.file_routes import MEDIA_TYPES, Transfers, export_response, require_data_dir
from doors.tables.files.exporter import save
from doors.tables.files.format import ROWS, RowsFormat
from doors.tables.grid.grid import Grid, RefreshResult, RowVersion
from doors.tables.grid.view_sql import GridQuery
from doors.tables.replication.history import Write, require_keys, tables_at
from doors.tables.sqlite.catalog import Column
from doors.tables.sqlite.errors import TablesError, quoted
from doors.tables.sqlite.owner import database_path, open_for_reading
from doors.tables.types.json import encode
from engine.control.app import Routes
from engine.control.errors import NotFound
from engine.control.projects import Projects
from engine.control.schemas import QueryModel, StrictModel
from engine.errors import SvcError
from engine.stepwise_json import exact_decoder

IDLE_SECONDS = 600.0
"""Time without use after which a grid is closed."""
MAX_OPEN = 64
MAX_OPEN_PER_PROJECT = 16
_T = TypeVar("_T")


@dataclass(slots=True)
class _OpenGrid:
    data: Path
    thread: ThreadPoolExecutor
    grid: Grid | None = None
    _: KW_ONLY
    resources: ExitStack = field(default_factory=ExitStack)
    """Closes the grid, and removes the copy of the tables at a moment."""
    close_timer: asyncio.TimerHandle | None = None
    in_use: int = 0


class Grids:
    """The open grids of an engine. Used on the control API's event loop.

    Each has its own thread and is closed after ten minutes without use.
    """

    def __init__(self) -> None:
        self._open: dict[str, _OpenGrid] = {}

    async def open(self, data: Path, view: GridQuery) -> "GridOpened":
        """Open a grid on the database in a data folder.

        Raises `TablesError`, and `SvcError` with the code `unavailable` if too many grids are open.
        """
        count = sum(each.data == data for each in self._open.values())
        if count >= MAX_OPEN_PER_PROJECT or len(self._open) >= MAX_OPEN:
            full = f"{count} grids of this project" if count >= MAX_OPEN_PER_PROJECT else f"{MAX_OPEN} grids"
            hint = f"Close one; an unused grid is closed after {IDLE_SECONDS / 60:.0f} minutes."
            raise SvcError(f"{full} are already open", hint, code="unavailable")
        id = secrets.token_hex(8)
        entry = _OpenGrid(data, ThreadPoolExecutor(1, thread_name_prefix="tables-grid"))
        self._open[id] = entry

        def others() -> int:
            grids = [each.grid for each in list(self._open.values()) if each.data == data]
            return sum(grid.temporary_bytes for grid in grids if grid is not None and grid is not entry.grid)

        def open_grid() -> GridOpened:
            path, moment = database_path(data), None
            if view.at is not None:
                with open_for_reading(data) as connection:
                    require_keys(connection, f"SELECT * FROM {quoted(view.table)}")
                    copy = tables_at(connection, view.at, view.table)
                    path, moment = entry.resources.enter_context(copy)
            grid = entry.grid = Grid(path, view, others)
            entry.resources.callback(grid.close)
            grid.moment = moment
            grid.open()
            return _opened(id, grid)

        try:
            return await self._run(id, entry, open_grid)
        except BaseException:
            self._close(id)
            raise

    async def use(self, data: Path, id: str, work: Callable[[Grid], _T]) -> _T:
        """Return the result of `work` on the grid's thread. Raises `NotFound`, and the errors of `work`."""
        entry, grid = self._find(data, id)
        return await self._run(id, entry, lambda: work(grid))

    def close(self, data: Path, id: str) -> None:
        """Close a grid. Raises `NotFound`."""
        self._find(data, id)
        self._close(id)

    async def _run(self, id: str, entry: _OpenGrid, work: Callable[[], _T]) -> _T:
        loop = asyncio.get_running_loop()
        if entry.close_timer is not None:
            entry.close_timer.cancel()
        entry.in_use += 1
        try:
            return await loop.run_in_executor(entry.thread, work)
        except asyncio.CancelledError:
            if entry.grid is not None:
                entry.grid.interrupt()
            raise
        except TablesError:
            if id not in self._open:
                raise _closed() from None
            raise
        finally:
            entry.in_use -= 1
            if not entry.in_use and id in self._open:
                entry.close_timer = loop.call_later(IDLE_SECONDS, self._close, id)

    def _find(self, data: Path, id: str) -> tuple[_OpenGrid, Grid]:
        entry = self._open.get(id)
        if entry is None or entry.data != data or entry.grid is None:
            raise _closed()
        return entry, entry.grid

    def _close(self, id: str) -> None:
        entry = self._open.pop(id, None)
        if entry is None:
            return
        if entry.close_timer is not None:
            entry.close_timer.cancel()
        if entry.grid is not None:
            entry.grid.stop()
        entry.thread.submit(entry.resources.close)
        entry.thread.shutdown(wait=False)


def _closed() -> NotFound:
    return NotFound("the grid is closed", "Open it again.")


MAX_ROWS = 1000
"""Maximum rows of a window, and of a refresh request."""
_MAX_START = 2**53


@dataclass(frozen=True, slots=True)
class GridOpened:
    """An open grid: its id, its row count, and its columns in the order of the cells of a row.

    `key` names the columns that identify a row, and is empty if none do. If rows cannot be changed,
    `editable` is false and `reason` completes a sentence that begins with the table: "is a view: …".
    `at` is the last entry of a moment before now.
    """

    grid: str
    table: str
    _: KW_ONLY
    count: int
    key: list[str]
    editable: bool
    reason: str
    columns: tuple[Column, ...]
    at: Write | None = None


class GridWindowQuery(QueryModel):
    """The first row, from 0, and the number of rows."""

    start: int = Field(ge=0, le=_MAX_START)
    n: int = Field(ge=1, le=MAX_ROWS)


@dataclass(frozen=True, slots=True)
class GridRows:
    """Rows of a grid and their keys. Both are null for a row that was deleted meanwhile.

    A key has the values of the columns in `key`; without such columns, one number that is valid for this
    grid. A version changes with the cells of its row. `stale` is true if the database was written since the
    grid was opened or refreshed, so that rows may be missing.
    """

    start: int
    rows: list[list[Any] | None]
    keys: list[list[Any] | None]
    versions: list[str]
    stale: bool


class CellQuery(QueryModel):
    """A cell: the key of its row as JSON text (`[12]`), and its column."""

    key: str
    column: str


@dataclass(frozen=True, slots=True)
class GridCell:
    """One complete cell."""

    value: Any


class GridExport(QueryModel):
    """Options of an export."""

    format: RowsFormat


class RefreshQuery(StrictModel):
    """The rows whose state to report."""

    rows: list[RowVersion] = Field(default=[], max_length=MAX_ROWS)


@dataclass(frozen=True, slots=True)
class GridState:
    """The row count of a grid, and whether the database was written since it was opened or refreshed."""

    count: int
    stale: bool


def add_routes(routes: Routes, projects: Projects, transfers: Transfers) -> None:
    """Add the routes of grids."""
    grids = Grids()

    async def use(project: str, grid: str, work: Callable[[Grid], _T]) -> _T:
        return await grids.use(require_data_dir(projects, project, "viewer"), grid, work)

    @routes.post("/v1/projects/<project>/grid")
    async def open_grid(project: str, data: GridQuery) -> GridOpened:
        """Open a grid, which is closed after ten minutes without use; needs the role viewer."""
        return await grids.open(require_data_dir(projects, project, "viewer"), data)

    @routes.get("/v1/projects/<project>/grid/<grid>")
    async def grid_state(project: str, grid: str) -> GridState:
        """Return whether the database has changed, which is cheap; needs the role viewer."""
        return await use(project, grid, lambda grid: GridState(grid.count, grid.stale()))

    @routes.delete("/v1/projects/<project>/grid/<grid>")
    async def close_grid(project: str, grid: str) -> Response:
        """Close a grid; needs the role viewer."""
        grids.close(require_data_dir(projects, project, "viewer"), grid)
        return Response(status=204)

    @routes.get("/v1/projects/<project>/grid/<grid>/rows")
    @document_response(GridRows)
    async def grid_rows(project: str, grid: str, query_args: GridWindowQuery) -> Response:
        """Read a window of rows; needs the role viewer."""
        body = await use(project, grid, lambda grid: _window(grid, query_args.start, query_args.n))
        return Response(body, content_type="application/json")

    @routes.get("/v1/projects/<project>/grid/<grid>/cell")
    @document_response(GridCell)
    async def grid_cell(project: str, grid: str, query_args: CellQuery) -> Response:
        """Read one complete cell of up to 64 MiB; needs the role viewer."""
        body = await use(project, grid, lambda grid: _cell(grid, query_args))
        return Response(body, content_type="application/json")

    @routes.get("/v1/projects/<project>/grid/<grid>/export", sends=[MEDIA_TYPES[each] for each in ROWS])
    async def export_grid(project: str, grid: str, query_args: GridExport) -> Response:
        """Export the current rows of the grid in its order; needs the role viewer."""
        folder, format = require_data_dir(projects, project, "viewer"), query_args.format
        view = await grids.use(folder, grid, _current_view)
        return await export_response(transfers, folder, format, partial(save, format=format, view=view))

    @routes.post("/v1/projects/<project>/grid/<grid>/refresh")
    async def refresh_grid(project: str, grid: str, data: RefreshQuery) -> RefreshResult:
        """Update the grid to the current rows; needs the role viewer."""
        return await use(project, grid, lambda grid: grid.refresh(data.rows))


def _opened(id: str, grid: Grid) -> GridOpened:
    table, key = grid.table, list(grid.identity.key)
    return GridOpened(
        id,
        table.name,
        count=grid.count,
        key=key,
        editable=bool(key) and grid.moment is None,
        reason=grid.identity.reason if grid.moment is None else "is shown as it was, and cannot be changed",
        columns=table.columns,
        at=grid.moment,
    )


def _current_view(grid: Grid) -> GridQuery:
    """Return the view. Raises `TablesError` for one of a moment before now."""
    if grid.view.at is not None:
        hint = "Use `svc tables at TIME query 'select …' --csv`."
        raise TablesError("the grid shows a moment before now, and only current rows are exported", hint)
    return grid.view


def _cell(grid: Grid, query: CellQuery) -> bytes:
    return encode({"value": grid.full_cell(read_key(query.key), query.column)})


def _window(grid: Grid, start: int, n: int) -> bytes:
    rows, keys, versions = grid.window(start, n)
    # Each call of the encoder holds the interpreter's lock, so rows are encoded one at a time.
    return b'{"start":%d,"rows":[%b],"keys":[%b],"versions":%b,"stale":%b}' % (
        start,
        b",".join(map(encode, rows)),
        b",".join(map(encode, keys)),
        encode(versions),
        encode(grid.stale()),
    )


def read_key(text: str) -> list[Any]:
    """Return a key that was sent as JSON text. Raises `TablesError`."""
    try:
        key = exact_decoder.decode(text)
    except (ValueError, RecursionError):
        key = None
    if not isinstance(key, list):
        raise TablesError(
            "the key is not a list in JSON", "Pass its values, such as '[12]' or '[\"x\", 12]'."
        )
    return key
