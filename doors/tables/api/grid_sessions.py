"""Registry of open grids. Each has its own thread and is closed after ten minutes without use."""

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from doors.tables.grid.grid import Grid, TemporarySpace
from doors.tables.grid.view_sql import GridQuery
from doors.tables.sqlite.errors import TablesError
from doors.tables.sqlite.owner import database_path
from engine.control.errors import NotFound
from engine.errors import SvcError

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
    close_timer: asyncio.TimerHandle | None = None
    in_use: int = 0


class Grids:
    """The open grids of an engine. Used on the control API's event loop."""

    def __init__(self) -> None:
        self._open: dict[str, _OpenGrid] = {}
        self._spaces = WeakValueDictionary[Path, TemporarySpace]()

    async def open(self, data: Path, view: GridQuery, describe: Callable[[Grid], _T]) -> tuple[str, _T]:
        """Open a grid on the database in a data folder; return its id and the result of `describe`.

        Raises `TablesError`, and `SvcError` with the code `unavailable` if too many grids are open.
        """
        self._check_limits(data)
        id = secrets.token_hex(8)
        space = self._spaces.setdefault(data, TemporarySpace())
        entry = _OpenGrid(data, ThreadPoolExecutor(1, thread_name_prefix="tables-grid"))
        self._open[id] = entry

        def open_grid() -> _T:
            grid = entry.grid = Grid(database_path(data), view, space)
            grid.open()
            return describe(grid)

        try:
            return id, await self._run(id, entry, open_grid)
        except BaseException:
            self._close(id)
            raise

    async def use(self, data: Path, id: str, work: Callable[[Grid], _T]) -> _T:
        """Return the result of `work` on the grid's thread. Raises `NotFound`, and the errors of `work`."""
        entry = self._find(data, id)

        def do() -> _T:
            assert entry.grid is not None
            return work(entry.grid)

        return await self._run(id, entry, do)

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

    def _find(self, data: Path, id: str) -> _OpenGrid:
        entry = self._open.get(id)
        if entry is None or entry.data != data or entry.grid is None:
            raise _closed()
        return entry

    def _close(self, id: str) -> None:
        entry = self._open.pop(id, None)
        if entry is None:
            return
        if entry.close_timer is not None:
            entry.close_timer.cancel()
        if entry.grid is not None:
            entry.grid.stop()
        entry.thread.submit(_close_grid, entry)
        entry.thread.shutdown(wait=False)

    def _check_limits(self, data: Path) -> None:
        count = sum(each.data == data for each in self._open.values())
        if count < MAX_OPEN_PER_PROJECT and len(self._open) < MAX_OPEN:
            return
        limit = f"{count} grids of this project" if count >= MAX_OPEN_PER_PROJECT else f"{MAX_OPEN} grids"
        raise SvcError(
            f"{limit} are already open",
            f"Close one; an unused grid is closed after {IDLE_SECONDS / 60:.0f} minutes.",
            code="unavailable",
        )


def _closed() -> NotFound:
    return NotFound("the grid is closed", "Open it again.")


def _close_grid(entry: _OpenGrid) -> None:
    if entry.grid is not None:
        entry.grid.close()
