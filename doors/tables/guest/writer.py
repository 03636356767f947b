"""Writes: one thread for each open file, one transaction for all requests that wait (group commit).

A request is answered when its transaction is on the disk. Each is all or nothing, and none feels another's
failure: where SQLite undoes a whole transaction, the others of the group are run again, one by one.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from doors.tables.guest.errors import GUEST_ERRORS, to_problem
from doors.tables.guest.problem import GuestProblem
from doors.tables.guest.protocol import SqlRequest, response, result
from doors.tables.guest.session import MAX_RESULT, GuestSession
from doors.tables.sqlite.connections import MAX_BYTES, Clock, open_writer
from engine.door import DoorResponse

TIMEOUT_SECONDS = 5.0
"""How long a request may write: others wait meanwhile."""
GROUP = 64
"""How many requests share a transaction at most."""
MAX_WAITING = 2048
MAX_WAITING_BYTES = 64 << 20
"""Maximum queued requests, and bytes of them. Further requests are refused as busy."""
_STEPS_PER_CHECK = 20_000

Answer = DoorResponse | BaseException


@dataclass(slots=True)
class _Work:
    request: SqlRequest
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[DoorResponse]"
    answer: Answer | None = None


class Writer:
    """The writer of one file. `write` is called on event loops, `close` on any thread."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        """Open the file, and make it where there is none. Raises `Problem`."""
        clock = Clock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = open_writer(path, clock, max_bytes)
        except OSError as error:
            raise GuestProblem(
                "storage", f"cannot create the tables of this project: {error.strerror}"
            ) from error
        except GUEST_ERRORS as error:
            raise to_problem(error, "") from error
        self._session = GuestSession(connection, clock, writes=True, steps=_STEPS_PER_CHECK)
        self._waiting: deque[_Work] = deque()
        self._bytes = 0
        self._some = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="tables-write", daemon=True)
        self._thread.start()

    def write(self, request: SqlRequest) -> "asyncio.Future[DoorResponse]":
        """Queue a write. The future gets the response once the write is on disk. Raises `Problem`."""
        loop = asyncio.get_running_loop()
        work = _Work(request, loop, loop.create_future())
        with self._some:
            if self._closed:
                raise GuestProblem("busy", "the service is stopping")
            if len(self._waiting) >= MAX_WAITING or self._bytes + request.size > MAX_WAITING_BYTES:
                raise GuestProblem("busy", "too many requests wait to write")
            self._waiting.append(work)
            self._bytes += request.size
            self._some.notify()
        return work.future

    def close(self) -> None:
        """Write what waits, and let go of the file. Waits for the thread."""
        with self._some:
            self._closed = True
            self._some.notify()
        self._thread.join()
        self._session.close()

    def _work(self) -> None:
        while group := self._next():
            try:
                self._together(group)
            except BaseException as error:
                for work in group:
                    work.answer = error
                self._undo()
            _deliver(group)

    def _next(self) -> list[_Work]:
        """Wait for requests; return none when there will be no more."""
        with self._some:
            while not self._waiting and not self._closed:
                self._some.wait()
            group = [self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))]
            self._bytes -= sum(work.request.size for work in group)
        return group

    def _together(self, group: Sequence[_Work]) -> None:
        if not self._began(group):
            return
        for work in group:
            if not self._one(work):
                # It undid the others' work; they are run again, and it has its answer.
                self._alone([each for each in group if each is not work])
                return
        problem = self._committed()
        if problem is None:
            return
        if len(group) > 1:
            self._alone(group)
        else:
            group[0].answer = problem

    def _alone(self, group: Sequence[_Work]) -> None:
        for work in group:
            if self._began([work]) and self._one(work):
                work.answer = self._committed() or work.answer

    def _began(self, group: Sequence[_Work]) -> bool:
        try:
            self._session.execute("begin immediate")
            self._session.current()
        except GuestProblem as problem:
            self._undo()
            for work in group:
                work.answer = problem
            return False
        return True

    def _committed(self) -> GuestProblem | None:
        """Commit; return why it failed, with everything undone, if it did."""
        try:
            self._session.execute("commit")
        except GuestProblem as problem:
            self._undo()
            return problem
        return None

    def _undo(self) -> None:
        if self._session.connection.in_transaction:
            self._session.execute("rollback")

    def _one(self, work: _Work) -> bool:
        """Run a request within a transaction; say whether the transaction is still there."""
        session = self._session
        session.begin(TIMEOUT_SECONDS)
        try:
            session.execute("savepoint request")
            work.answer = self._run(work.request)
            session.execute("release request")
        except GuestProblem as problem:
            work.answer = problem
            if not session.connection.in_transaction:
                return False
            session.execute("rollback to request")
            session.execute("release request")
        return True

    def _run(self, request: SqlRequest) -> DoorResponse:
        session, connection = self._session, self._session.connection
        results: list[bytes] = []
        room = MAX_RESULT
        try:
            for statement in request.statements:
                plan = session.plan(statement.sql)
                assert plan is not None
                connection.set_last_insert_rowid(0)
                rows = session.rows(plan, statement.params, room)
                room -= len(rows)
                changes = connection.changes() if plan.writes else 0
                results.append(result(changes, connection.last_insert_rowid(), rows if plan.names else b""))
        except GuestProblem as problem:
            if request.kind == "batch":
                problem.statement = len(results)
            raise
        return response(request.kind, results)


def _deliver(group: Sequence[_Work]) -> None:
    """Hand answers over, each on the loop that waits for it, all of a loop at once."""
    for loop in {work.loop for work in group}:
        try:
            loop.call_soon_threadsafe(_resolve, [work for work in group if work.loop is loop])
        except RuntimeError:
            continue  # The loop is closed, so the future has no reader.


def _resolve(group: Sequence[_Work]) -> None:
    for work in group:
        if work.future.done():
            continue
        if isinstance(work.answer, DoorResponse):
            work.future.set_result(work.answer)
        else:
            work.future.set_exception(work.answer or RuntimeError("a write was not answered"))
