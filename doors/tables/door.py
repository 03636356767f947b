"""The tables Door: SQL over HTTP on the tables of the calling project.

The engine fixes the project when it opens the Door; no request can name another one.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from doors.tables.guest.errors import explain_full
from doors.tables.guest.problem import KINDS, GuestProblem
from doors.tables.guest.protocol import SqlRequest, has_many_values, read_request
from doors.tables.guest.reader import MAX_WAITING, PER_FILE, THREADS, NotAQuery, Reader, TooSlow
from doors.tables.guest.session import GuestSession
from doors.tables.guest.writer import Refuse, Writer
from doors.tables.replication.errors import Conflict, ReplicationError
from doors.tables.replication.registry import active, find_replica
from doors.tables.sqlite.connections import DATABASE_NAME, DISPLAY_PATH, Clock, first_value, set_storage_quota
from doors.tables.sqlite.errors import Error, wrap_error
from doors.tables.sqlite.owner import measure
from doors.tables.sqlite.replay_time import ReplayTime
from engine.door import Caller, Door, DoorContext, DoorRequest, DoorResponse, DoorTables, LogEntry
from engine.fair_threads import FairThreads
from engine.files.reserve import share_of_files, shortage
from engine.files.statement_limit import MAX_WRITTEN_BYTES, written_bytes
from engine.files.write_ahead_log import lost_commits
from engine.grant import Grant
from engine.quota import Quota, change_command

if TYPE_CHECKING:
    from doors.tables.replication.replica import Replica

MAX_OPEN = 64
"""Number of open database files above which idle ones are closed."""
FILES = 7
"""Open files of a project's tables, with those of SQLite's log."""
IDLE_SECONDS = 60.0
"""A file without a request for this time, or up to twice of it, is closed."""
_CHECK_SECONDS = 0.05


class TablesDoor(Door):
    """The Door `tables`."""

    name = "tables"
    purpose = "an SQLite database for each project"
    pages = ("guides/build/tables.md", "reference/tables-api.md", "reference/sql.md")
    unit = "table"
    variables = ("SVC_TABLES_ENDPOINT",)
    max_body = 8 << 20
    problems = KINDS

    def __init__(
        self,
        *,
        replay: ReplayTime | None = None,
        tables: Sequence[DoorTables] = (),
        counts: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`replay` is the time of statements in a replay.

        `tables` are those of other Doors, `counts` the tables of them that `measure` reads.
        """
        self.replay, self.tables = replay, tables
        self.new_clock = Clock if replay is None else replay.clock
        self.measure = partial(measure, counts=counts)
        self._open: set[ProjectTables] = set()
        self.freed = asyncio.Event()
        """Wakes the projects that wait in `make_room`."""
        self.clock = self._idle_before = 0
        """The clock of the least-recently-used order, and its time when idle files were looked for."""
        self._timer: asyncio.TimerHandle | None = None
        self.threads = FairThreads(THREADS, PER_FILE, MAX_WAITING, ThreadPoolExecutor(THREADS, "tables-read"))

    def open(self, context: DoorContext) -> "ProjectTables":
        """Open the Door for one project, and log commits that it lost. The first request opens its file."""
        return ProjectTables(self, context)

    async def make_room(self, tables: "ProjectTables") -> None:
        """Register a file that is about to be opened. Close the least recently used ones beyond the limit.

        While none is idle and the limit of open files is near, wait for the end of a request.
        """
        most = share_of_files(FILES)
        while len(self._open) >= min(MAX_OPEN, most):
            idle = (each for each in self._open if each.idle)
            if (oldest := min(idle, key=lambda each: each.last_used, default=None)) is not None:
                oldest.close_in_background()
            elif len(self._open) < most:
                break
            else:
                self.freed.clear()
                await self.freed.wait()
        self.clock += 1
        self._open.add(tables)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        """Close the files without a request since the last call."""
        for each in [each for each in self._open if each.idle and each.last_used < self._idle_before]:
            each.close_in_background()
        self.clock += 1
        self._idle_before = self.clock
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(IDLE_SECONDS, self._close_idle) if self._open else None

    def on_closed(self, tables: "ProjectTables") -> None:
        """Unregister a closed file."""
        self._open.discard(tables)
        self.freed.set()


class ProjectTables:
    """The Door of one project. It implements `engine.door.OpenDoor`."""

    def __init__(self, door: TablesDoor, context: DoorContext) -> None:
        self._door = door
        self._context = context
        self.path = context.folder / DATABASE_NAME
        self._database: OpenDatabase | None = None
        self._opening: asyncio.Future[OpenDatabase] | None = None
        self._users = 0
        """Requests that wait for the file to be opened, or have opened it."""
        self._closing: set[asyncio.Future[None]] = set()
        self._reading = asyncio.Lock()
        self._is_closed = False
        self._reported = ""
        self.last_used = 0
        """The value of `TablesDoor.clock` at the last request."""
        # A replica gets its commits again, from the log of the fleet.
        if not active and (count := lost_commits(self.path)):
            body = (
                f"the write-ahead log of the tables was damaged: {count} committed transactions after the"
                f" damage could not be read and are lost; the file is {self.path}. Check the disk, and"
                " compare with a backup"
            )
            context.log(LogEntry(time.time_ns(), "ERROR", body, {"door": "tables"}, Caller("", "")))

    @property
    def idle(self) -> bool:
        """True if the file is open and no request is in progress."""
        return self._database is not None and not self._database.in_progress and not self._users

    def answer(self, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        """Answer a request, a short read synchronously."""
        try:
            self.last_used = self._door.clock
            if self._door.replay is not None:
                self._door.replay.begin(request.body)
            if has_many_values(request):
                return self._read_and_answer(request)
            return self._answer(self._read(request), request)
        except GuestProblem as problem:
            return self._refuse(problem, request)

    async def _read_and_answer(self, request: DoorRequest) -> DoorResponse:
        try:
            answer = self._answer(await self._read_in_thread(request), request)
        except GuestProblem as problem:
            return self._refuse(problem, request)
        return answer if isinstance(answer, DoorResponse) else await answer

    async def _read_in_thread(self, request: DoorRequest) -> SqlRequest:
        """Parse a request, one of the project at a time. Raises `GuestProblem`."""
        async with self._reading:
            return await asyncio.to_thread(self._read, request, stepwise=True)

    def _read(self, request: DoorRequest, *, stepwise: bool = False) -> SqlRequest:
        """Parse a request, and find the tables of a Door that it names. Raises `GuestProblem`."""
        parsed = read_request(request, stepwise=stepwise)
        for statement in parsed.statements:
            for tables in self._door.tables:
                if tables.prefix in statement.sql:
                    return parsed._replace(tables=tables, on_committed=self._context.on_work)
        return parsed

    def _answer(self, parsed: SqlRequest, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        if (replica := find_replica(self.path)) is not None:
            return self._answer_replicated(replica, parsed, request)
        if self._database is None:
            return self._open_and_answer(parsed, request)
        return self._database.answer(parsed, lambda problem: self._refuse(problem, request))

    async def _answer_replicated(
        self, replica: "Replica", parsed: SqlRequest, request: DoorRequest
    ) -> DoorResponse:
        """Answer reads on the local copy once it has all that was written, writes on the node that writes."""
        try:
            replica.execute = self._answer_forwarded
            if parsed.kind == "query" or (parsed.kind == "batch" and parsed.tables is None):
                stale_ok = request.caller.stale_reads if parsed.stale_ok is None else parsed.stale_ok
                if await replica.open(fresh=not stale_ok, written=request.session.written):
                    with suppress(NotAQuery):
                        return await self._open_and_answer(parsed, request, writes=False)
            repeatable = bool(parsed.idempotency_key) or parsed.kind == "query"
            while (response := await replica.forward(request, repeatable=repeatable)) is None:
                with suppress(Conflict):
                    response = await self._open_and_answer(parsed, request)
                    request.session.written = max(request.session.written, replica.written)
                    return response
                await replica.open(fresh=True)
        except ReplicationError as error:
            return self._refuse(GuestProblem(error.code, error.message, error.hint), request)
        if (call := request.call) is not None:
            call.details = {"transaction": "read" if parsed.kind == "query" else "write", "forwarded": 1}
            if response.status >= HTTPStatus.BAD_REQUEST:
                call.code = json.loads(response.body)["code"]
        return response

    async def _answer_forwarded(self, request: DoorRequest) -> DoorResponse:
        """Answer a request that a guest sent to another node. Raises `Conflict` and `ReplicationError`."""
        many = has_many_values(request)
        parsed = await self._read_in_thread(request) if many else self._read(request)
        if parsed.kind != "exec" and (replica := find_replica(self.path)) is not None:
            await replica.open(fresh=True)
        return await self._open_and_answer(parsed, request)

    async def _open_and_answer(
        self, parsed: SqlRequest, request: DoorRequest, *, writes: bool = True
    ) -> DoorResponse:
        self._users += 1
        try:
            database = self._database
            if database is None:
                if self._opening is None:
                    self._opening = asyncio.ensure_future(self._open())
                    self._opening.add_done_callback(self._on_opened)
                database = await asyncio.shield(self._opening)
            answer = database.answer(parsed, lambda problem: self._refuse(problem, request), writes=writes)
            return answer if isinstance(answer, DoorResponse) else await answer
        except GuestProblem as problem:
            return self._refuse(problem, request)
        finally:
            self._users -= 1
            self._door.freed.set()

    async def _open(self) -> "OpenDatabase":
        if self._closing:
            await asyncio.wait(self._closing)
        if self._is_closed:
            raise GuestProblem("unavailable", "the tables are closed: the project was removed")
        await self._door.make_room(self)
        return await asyncio.get_running_loop().run_in_executor(None, OpenDatabase, self.path, self._door)

    def _on_opened(self, opening: "asyncio.Future[OpenDatabase]") -> None:
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            self._database = opening.result()
        else:
            self._door.on_closed(self)

    async def glance(self, sql: str, *, fresh: bool = False) -> Any:
        if fresh and (replica := find_replica(self.path)) is not None:
            await replica.open(fresh=True)
        try:
            value = await asyncio.to_thread(first_value, self.path, sql)
        except Error as error:
            prefix = f"cannot read the tables of {self._context.project}"
            raise wrap_error(error, prefix, DISPLAY_PATH) from error
        if value is not None:
            find_replica(self.path)  # From now on, the copy of a node follows the log.
        return value

    def limit(self, quota: Quota) -> None:
        """Set the quota of the file; the next request opens it again."""
        set_storage_quota(self.path, None if quota.storage_mb is None else quota.storage_mb << 20)
        self.close_in_background()

    def _refuse(self, problem: GuestProblem, request: DoorRequest) -> DoorResponse:
        problem = explain_full(problem, self.path)
        if request.call is not None:
            request.call.code = problem.code
        if (
            problem.code in ("storage-damaged", "storage", "storage-full", "storage-quota")
            and problem.detail != self._reported
        ):
            self._reported = problem.detail
            self._report(problem, request)
        if problem.code == "storage-damaged":
            self.close_in_background()
            if (replica := find_replica(self.path)) is not None:
                replica.copy.repair(problem.detail)
        return problem.response(request.caller.request_id)

    def _report(self, problem: GuestProblem, request: DoorRequest) -> None:
        """Log a storage problem with the path of the file, which the guest does not get."""
        if problem.code == "storage-quota":
            command = change_command(self._context.project, "storage")
            body = f"{problem.detail}; an owner of the service can change it: {command}"
            grant = Grant("quota", command)
            self._context.log(LogEntry(time.time_ns(), "WARN", body, {}, request.caller, grant=grant))
            return
        body = f"{problem.detail}; the file is {self.path} and was not changed"
        with suppress(OSError):
            if problem.code == "storage-full" and (reason := shortage(self.path.parent)):
                body += f"; {reason}"
        if problem.code == "storage-damaged":
            body += ". Move it away and restore a backup, or import an export"
        self._context.log(LogEntry(time.time_ns(), "ERROR", body, {"door": "tables"}, request.caller))

    def close_in_background(self) -> None:
        """Close the file in the background, after the requests in progress. The next request reopens it."""
        database, self._database = self._database, None
        if database is None:
            return
        self._door.on_closed(self)
        closing = asyncio.get_running_loop().run_in_executor(None, database.close)
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Finish writes, stop reads and close the file, which is not opened again."""
        self._is_closed = True
        if (replica := find_replica(self.path)) is not None:
            replica.execute = None
        if self._opening is not None:
            await asyncio.wait([self._opening])
        self.close_in_background()
        if self._closing:
            await asyncio.wait(self._closing)


class OpenDatabase:
    """One open database. `answer` runs on the event loop's thread, `close` on any."""

    def __init__(self, path: Path, door: TablesDoor) -> None:
        """Open or create the file, which takes milliseconds. Raises `GuestProblem`."""
        self.in_progress = 0
        self._door = door
        self._written = _WrittenBytesLimit()
        self._check_timer: asyncio.TimerHandle | None = None
        self._writer = Writer(path, door.new_clock(), door.tables, self._on_done)
        try:
            self._reader = Reader(path, door.threads, door.new_clock)
        except BaseException:
            self._writer.close()
            raise

    def answer(
        self, request: SqlRequest, refuse: Refuse, *, writes: bool = True
    ) -> "DoorResponse | asyncio.Future[DoorResponse]":
        """Answer a request, a short read synchronously. Raises `GuestProblem`.

        `refuse` returns the result of the future for a later problem. Canceling the future stops the
        statement. Without `writes`, a batch that writes raises `NotAQuery`.
        """
        if request.kind == "exec" or (request.kind == "batch" and request.tables is not None):
            return self._write(request, refuse)
        try:
            return self._reader.answer(request)
        except NotAQuery:
            if not writes:
                raise
            return self._write(request, refuse)
        except TooSlow:
            reading = asyncio.ensure_future(self._read(request, refuse, writes))
            reading.add_done_callback(lambda _: self._on_done(1))
            self._begin()
            return reading

    async def _read(self, request: SqlRequest, refuse: Refuse, writes: bool) -> DoorResponse:
        """Read on a thread. A batch that turns out to write runs on the writer."""
        try:
            try:
                return await self._reader.answer_on_thread(request)
            except NotAQuery:
                if not writes:
                    raise
            return await self._write(request, refuse)
        except GuestProblem as problem:
            return refuse(problem)

    def _write(self, request: SqlRequest, refuse: Refuse) -> "asyncio.Future[DoorResponse]":
        future = self._writer.write(request, refuse)
        self._begin()
        return future

    def _begin(self) -> None:
        self.in_progress += 1
        if self._check_timer is None:
            loop = asyncio.get_running_loop()
            self._check_timer = loop.call_later(_CHECK_SECONDS, self._check_written)

    def _check_written(self) -> None:
        self._check_timer = None
        if self.in_progress:
            self._written.check([self._writer.session, *self._reader.sessions])
            loop = asyncio.get_running_loop()
            self._check_timer = loop.call_later(_CHECK_SECONDS, self._check_written)

    def _on_done(self, count: int) -> None:
        self.in_progress -= count
        if not self.in_progress:
            self._door.freed.set()

    def close(self) -> None:
        """Finish writes, stop reads and close the file."""
        self._reader.close()
        self._writer.close()


class _WrittenBytesLimit:
    """Limit of the bytes that a project's running statements write. Call it on one thread.

    SQLite has no limit for the temporary files of large sorts and groups. Each statement runs on a thread of
    its own, and Linux counts the bytes that a thread writes. Other systems have no such limit.
    """

    def __init__(self) -> None:
        self._counts: dict[GuestSession, tuple[int, int]] = {}
        """By running session: the number of its request, and what its thread had written before."""

    def check(self, sessions: Sequence[GuestSession]) -> None:
        """Stop the statement that has written most if all together exceed the limit."""
        counts, written = {}, {}
        for session in sessions:
            if session.running:
                total = written_bytes(f"self/task/{session.thread}")
                number, before = self._counts.get(session, (-1, 0))
                if number != session.request_number:
                    number, before = session.request_number, total
                counts[session], written[session] = (number, before), total - before
        self._counts = counts
        if sum(written.values()) > MAX_WRITTEN_BYTES:
            session = max(written, key=lambda each: written[each])
            session.stop_writing(counts[session][0])
