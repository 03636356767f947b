"""Execution of reads, all read-only: short ones on the event loop, longer ones on threads of all files.

A read starts on the event loop with a deadline of a few milliseconds. One that misses it is restarted on a
thread, which is safe because reads have no side effects.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter_ns

from doors.tables.guest.authorizer import writes_in_query
from doors.tables.guest.errors import GUEST_ERRORS, to_problem
from doors.tables.guest.problem import GuestProblem
from doors.tables.guest.protocol import SqlRequest, describe, response
from doors.tables.guest.session import MAX_CACHED_SQL, MAX_RESULT, GuestSession
from doors.tables.sqlite.connections import MAX_VALUE, Clock, open_reader
from engine.door import DoorResponse
from engine.fair_threads import FairThreads, QueueFull
from engine.recurring import Recurring

TIMEOUT_SECONDS = 10.0
"""Time limit of a read."""
THREADS, PER_FILE = 32, 4
"""Maximum reads on threads, and those of one file."""
MAX_WAITING = 10_000
"""Maximum reads of one file that wait for a thread."""
SESSION_SECONDS = 5.0
"""Time without a read on a thread after which the sessions of a file are closed."""
_QUICK_SECONDS = 0.002
_QUICK_STEPS = 1000
_QUICK_VALUE_BYTES = 64 << 10
_QUICK_RESULT_BYTES = 256 << 10
"""Limits of a read on the event loop: time, bytes of a value, bytes of a result."""
_ATTEMPTS = 5


class NotAQuery(Exception):
    """A batch has a statement that writes, so it has to run on the writer."""


class TooSlow(Exception):
    """A read exceeds the limits of the event loop and has to run on a thread."""


class Reader:
    """The readers of one file. Call its methods on one thread; `close` on any."""

    def __init__(self, path: Path, threads: FairThreads, new_clock: Callable[[], Clock]) -> None:
        """Open an existing file. Raises `GuestProblem`."""
        self._path = path
        self._threads = threads
        self._new_clock = new_clock
        self._quick = self._open(_QUICK_STEPS, _QUICK_VALUE_BYTES)
        self.sessions: list[GuestSession] = []
        self._idle: list[GuestSession] = []
        self._closed = False
        self._changing = threading.Condition()
        self._last_read = 0.0
        self._runs = Recurring(self._close_idle)

    def _open(self, steps: int = 0, max_value: int = MAX_VALUE) -> GuestSession:
        clock = self._new_clock()
        try:
            connection = open_reader(self._path, clock, max_value)
        except GUEST_ERRORS as error:
            raise to_problem(error, "") from error
        session = GuestSession(connection, clock, writes=False, steps=steps)
        session.refresh_schema()
        return session

    def answer(self, request: SqlRequest) -> DoorResponse:
        """Answer a query, or a batch of queries. Raises `GuestProblem`, `NotAQuery` and `TooSlow`."""
        return _run(self._quick, request, _QUICK_SECONDS, quick=True)

    async def answer_on_thread(self, request: SqlRequest) -> DoorResponse:
        """Answer a query, or a batch of queries. Raises `GuestProblem` and `NotAQuery`."""
        disconnected = threading.Event()
        read = partial(self._read, request, disconnected.is_set)
        try:
            return await self._threads.run(str(self._path), read)
        except QueueFull as error:
            raise GuestProblem("busy", "too many requests wait to read") from error
        finally:
            disconnected.set()

    def _read(self, request: SqlRequest, disconnected: Callable[[], bool]) -> DoorResponse:
        with self._changing:
            if self._closed:
                raise _stopping()
            if not self._idle:
                self._idle.append(self._open())
                self.sessions.append(self._idle[-1])
            session = self._idle.pop()
        session.thread = threading.get_native_id()
        session.watch(lambda: self._closed or disconnected())
        try:
            return _run(session, request, TIMEOUT_SECONDS, quick=False)
        except GuestProblem as problem:
            if self._closed:
                raise _stopping() from problem
            raise
        finally:
            session.end()
            with self._changing:
                self._idle.append(session)
                self._last_read = time.monotonic()
                self._changing.notify_all()
            self._runs.wake(SESSION_SECONDS)

    def _close_idle(self) -> float | None:
        """Close the sessions of the threads if no read needs them; else return when to look again."""
        with self._changing:
            rest = self._last_read + SESSION_SECONDS - time.monotonic()
            if rest > 0:
                return rest
            idle, self._idle = self._idle, []
            self.sessions = [each for each in self.sessions if each not in idle]
        for session in idle:
            session.close()
        return None

    def close(self) -> None:
        """Stop reads in progress, wait for the threads and close the file."""
        with self._changing:
            self._closed = True
            self._changing.wait_for(lambda: len(self._idle) == len(self.sessions))
        self._runs.close()
        for session in (self._quick, *self.sessions):
            session.close()


def _stopping() -> GuestProblem:
    return GuestProblem("busy", "the tables are being closed")


def _run(session: GuestSession, request: SqlRequest, seconds: float, *, quick: bool) -> DoorResponse:
    run = _query if request.kind == "query" else _batch
    began = perf_counter_ns()
    for _ in range(_ATTEMPTS):
        session.begin(seconds)
        try:
            answer = run(session, request, quick)
        except GuestProblem as problem:
            if quick and problem.code in ("time-limit", "too-large"):
                raise TooSlow from problem
            if session.refresh_schema():
                raise
        else:
            if session.refresh_schema():
                if request.call is not None:
                    describe(request, session.row_count, began, "read")
                return answer
    raise GuestProblem("busy", "the schema of the tables is changing")


def _query(session: GuestSession, request: SqlRequest, quick: bool) -> DoorResponse:
    statement = request.statements[0]
    if quick and len(statement.sql) > MAX_CACHED_SQL:
        raise TooSlow
    plan = session.plan(statement.sql)
    if plan is None or plan.writes:
        raise writes_in_query()
    if quick and plan.heavy:
        raise TooSlow
    rows = session.rows(plan, statement, _QUICK_RESULT_BYTES if quick else MAX_RESULT)
    return DoorResponse(200, b'{"rows":%b}' % rows)


def _batch(session: GuestSession, request: SqlRequest, quick: bool) -> DoorResponse:
    """Run queries on one snapshot of the tables."""
    if quick and sum(len(each.sql) for each in request.statements) > MAX_CACHED_SQL * 4:
        raise TooSlow
    for index, statement in enumerate(request.statements):
        try:
            plan = session.plan(statement.sql)
        except GuestProblem as problem:
            problem.statement = index
            raise
        if plan is None or plan.writes:
            raise NotAQuery
        if quick and plan.heavy:
            raise TooSlow
    session.execute("begin")
    try:
        return response("batch", session.run(request, _QUICK_RESULT_BYTES if quick else MAX_RESULT))
    finally:
        session.execute("rollback")
