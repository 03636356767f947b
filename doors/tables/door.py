"""The tables Door: SQL over HTTP, on the tables of the caller's Project and no other's.

Which Project that is the engine decided when it opened the Door; nothing in a request can name another.
"""

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path

from doors.tables.guest.open_database import OpenDatabase
from doors.tables.guest.problem import Problem
from doors.tables.guest.protocol import Request, read_request
from doors.tables.sqlite.connections import DATABASE_NAME, MAX_BYTES
from engine.door import DoorContext, DoorRequest, DoorResponse, LogEntry

MAX_OPEN = 64
"""How many Projects' files are kept open."""


class TablesDoor:
    """The Door `tables`. It implements `engine.door.Door`."""

    name: str = "tables"
    variables: tuple[str, ...] = ("SVC_TABLES_ENDPOINT",)
    max_body: int = 8 << 20

    def __init__(self, *, max_bytes: int = MAX_BYTES, max_open: int = MAX_OPEN) -> None:
        """A Project's file grows to `max_bytes`; `max_open` files are kept open, the rest opened anew."""
        self._max_bytes = max_bytes
        self._max_open = max_open
        self._open: set[ProjectTables] = set()
        self.turn = 0
        """Counts files as they are opened; a Project notes the turn in which it was last asked."""

    def open(self, place: DoorContext) -> "ProjectTables":
        """Open the Door for one Project; its file is opened by the first request."""
        return ProjectTables(self, place, self._max_bytes)

    def opened(self, tables: "ProjectTables") -> None:
        """Take note that a Project's file is open; let go of those that were not asked for longest."""
        self.turn += 1
        idle = sorted((each for each in self._open if each.idle), key=lambda each: each.asked)
        self._open.add(tables)
        for other in idle[: max(0, len(self._open) - self._max_open)]:
            other.let_go()

    def closed(self, tables: "ProjectTables") -> None:
        """Take note that a Project's file is closed."""
        self._open.discard(tables)


class ProjectTables:
    """The Door, opened for one Project. It implements `engine.door.OpenDoor`."""

    def __init__(self, door: TablesDoor, place: DoorContext, max_bytes: int) -> None:
        self._door = door
        self._place = place
        self._max_bytes = max_bytes
        self._store: OpenDatabase | None = None
        self._opening: asyncio.Future[OpenDatabase] | None = None
        self._closing: set[asyncio.Future[None]] = set()
        self._reported = ""
        self.asked = 0
        """The Door's turn in which the last request came."""

    @property
    def path(self) -> Path:
        """The file of the tables."""
        return self._place.folder / DATABASE_NAME

    @property
    def idle(self) -> bool:
        """Whether the file is open, and nothing is under way."""
        return self._store is not None and not self._store.under_way

    def answer(self, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        """Answer a request: a short read at once, others when they are done."""
        try:
            self.asked = self._door.turn
            wanted = read_request(request)
            if self._store is None:
                return self._open_and_answer(wanted, request)
            answer = self._store.answer(wanted)
        except Problem as problem:
            return self._refuse(problem, request)
        return answer if isinstance(answer, DoorResponse) else self._finish(answer, request)

    async def _open_and_answer(self, wanted: Request, request: DoorRequest) -> DoorResponse:
        try:
            store = self._store or await self._opened()
            answer = store.answer(wanted)
            return answer if isinstance(answer, DoorResponse) else await answer
        except Problem as problem:
            return self._refuse(problem, request)

    async def _finish(self, answer: Awaitable[DoorResponse], request: DoorRequest) -> DoorResponse:
        try:
            return await answer
        except Problem as problem:
            return self._refuse(problem, request)

    async def _opened(self) -> OpenDatabase:
        if self._opening is None:
            if self._closing:
                await asyncio.wait(self._closing)
            loop = asyncio.get_running_loop()
            self._opening = loop.run_in_executor(None, OpenDatabase, self.path, self._max_bytes)
            self._opening.add_done_callback(self._keep)
        return await asyncio.shield(self._opening)

    def _keep(self, opening: "asyncio.Future[OpenDatabase]") -> None:
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            self._store = opening.result()
            self._door.opened(self)

    def _refuse(self, problem: Problem, request: DoorRequest) -> DoorResponse:
        if (
            problem.code in ("storage-damaged", "storage", "storage-full")
            and problem.detail != self._reported
        ):
            self._reported = problem.detail
            self._report(problem, request)
        if problem.code == "storage-damaged":
            self.let_go()
        return problem.response(request.caller.request_id)

    def _report(self, problem: Problem, request: DoorRequest) -> None:
        """Tell the developer, who may know where the file is, what a guest only hears the kind of."""
        body = f"{problem.detail}; the file is {self.path}, and it was left as it is"
        if problem.code == "storage-damaged":
            body += ". Move it away and put a copy that is whole in its place, or import an export"
        self._place.log(LogEntry(time.time_ns(), "ERROR", body, {"door": "tables"}, request.caller))

    def let_go(self) -> None:
        """Close the file in the background, after what is under way; the next request opens it anew."""
        store, self._store = self._store, None
        if store is None:
            return
        self._door.closed(self)
        closing = asyncio.get_running_loop().run_in_executor(None, store.close)
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Finish what is being written, stop what reads, and let go of the file."""
        if self._opening is not None:
            await asyncio.wait([self._opening])
        self.let_go()
        if self._closing:
            await asyncio.wait(self._closing)
