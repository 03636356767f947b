"""Execution of writes: one thread per open file, one transaction for all queued requests (group commit).

A response is sent once its transaction is on disk. Each request is atomic and fails alone: if an error rolls
back the whole transaction, the other requests of the group run again, one by one. A request that takes longer
than a turn while others wait is rolled back and deferred: it runs again when no other waits, or after
`MAX_DEFERRED_SECONDS`, and then to its time limit.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from pathlib import Path
from time import perf_counter_ns

from doors.tables.guest.errors import GUEST_ERRORS, to_problem
from doors.tables.guest.problem import GuestProblem
from doors.tables.guest.protocol import SqlRequest, describe, response
from doors.tables.guest.session import MAX_RESULT, GuestSession, never
from doors.tables.replication.errors import Conflict, ReplicationError
from doors.tables.sqlite.catalog import ANSWERS
from doors.tables.sqlite.connections import Clock, close_owner, limit_size, max_size, open_writer, recorder_of
from engine.door import DoorResponse, DoorTables
from engine.files.reserve import shortage

TIMEOUT_SECONDS = 5.0
"""Time limit of a request, during which other writers wait."""
TURN_SECONDS = 0.25
MAX_DEFERRED_SECONDS = 5.0
MAX_GROUP = 64
"""Maximum requests in one transaction."""
MAX_APART = 8
"""Maximum requests in a transaction whose rows are recorded apart."""
MAX_WAITING = 2048
MAX_WAITING_BYTES = 64 << 20
"""Maximum queued requests, and bytes of them. Further requests are refused as busy."""
THREAD_SECONDS = 5.0
"""Time without a write after which the thread ends. The next write starts another one."""
_SPACE_SECONDS = 0.25
"""Time between two checks of the disk."""

STORED_SECONDS = 24 * 3600
MAX_ANSWER = 64 << 10
_CREATE = f"""CREATE TABLE {ANSWERS} (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, request TEXT NOT NULL, answer BLOB NOT NULL,
    at INTEGER NOT NULL
)"""
_EXISTS = "SELECT 1 FROM sqlite_schema WHERE name = ?"
_FIND = f"SELECT request, answer FROM {ANSWERS} WHERE key = ?"
_INSERT = f"INSERT INTO {ANSWERS} (key, request, answer, at) VALUES (?, ?, ?, unixepoch())"
_EXPIRE = f"""DELETE FROM {ANSWERS} WHERE at < unixepoch() - {STORED_SECONDS}
    AND id IN (SELECT id FROM {ANSWERS} ORDER BY id LIMIT 2)"""
"""Two for each answer that is stored, so that the table becomes smaller after many requests."""

Answer = DoorResponse | BaseException
Refuse = Callable[[GuestProblem], DoorResponse]
"""Returns the response to a problem, on the event loop's thread."""


@dataclass(slots=True, eq=False)
class _QueuedWrite:
    request: SqlRequest
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[DoorResponse]"
    refuse: Refuse
    _: KW_ONLY
    answer: Answer | None = None
    deferred_at: float | None = None
    """When it was deferred, in seconds of `monotonic`."""
    committed: bool = False
    """Whether its own transaction has ended."""


class Writer:
    """The writer of one file. `write` is called on event loops, `close` on any thread."""

    def __init__(
        self, path: Path, clock: Clock, tables: Sequence[DoorTables], on_done: Callable[[int], None]
    ) -> None:
        """Open or create the file, which can have `tables` of Doors. Raises `GuestProblem`.

        `on_done` is called on the event loop with the number of requests that were answered.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = open_writer(path, clock)
        except OSError as error:
            raise GuestProblem(
                "storage", f"cannot create the tables of this project: {error.strerror}"
            ) from error
        except GUEST_ERRORS as error:
            raise to_problem(error, "") from error
        self._path, self._on_done = path, on_done
        self._short = False
        self._space_checked = 0.0
        self.session = GuestSession(connection, clock, writes=True, tables=tables)
        self._recorder = recorder_of(connection)
        self._own = _OwnTables(self.session)
        self._waiting: deque[_QueuedWrite] = deque()
        self._deferred: deque[_QueuedWrite] = deque()
        self._group_rest = 0
        self.session.yield_to(lambda: bool(self._waiting or self._group_rest))
        self._bytes = 0
        self._queued = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def write(self, request: SqlRequest, refuse: Refuse) -> "asyncio.Future[DoorResponse]":
        """Queue a write. The future gets the response once the write is on disk. Raises `GuestProblem`.

        Canceling the future stops the write, unless it is being committed.
        """
        loop = asyncio.get_running_loop()
        work = _QueuedWrite(request, loop, loop.create_future(), refuse)
        with self._queued:
            if self._closed:
                raise GuestProblem("busy", "the service is stopping")
            if (
                len(self._waiting) + len(self._deferred) >= MAX_WAITING
                or self._bytes + request.size > MAX_WAITING_BYTES
            ):
                raise GuestProblem("busy", "too many requests wait to write")
            self._waiting.append(work)
            self._bytes += request.size
            if self._thread is None:
                self._thread = threading.Thread(target=self._run_thread, name="tables-write", daemon=True)
                self._thread.start()
            self._queued.notify()
        return work.future

    def close(self) -> None:
        """Run the queued writes, wait for the thread and close the file."""
        with self._queued:
            self._closed, thread = True, self._thread
            self._queued.notify()
        if thread is not None:
            thread.join()
        close_owner(self.session.connection)

    def _run_thread(self) -> None:
        self.session.thread = threading.get_native_id()
        while group := self._next_group():
            try:
                self._run_together(group)
            except Conflict as conflict:
                self._fail(group, conflict)
            except ReplicationError as error:
                self._fail(group, GuestProblem(error.code, error.message, error.hint))
            except BaseException as error:
                self._fail(group, error)
            deferred = [work for work in group if work.answer is None]
            with self._queued:
                self._deferred += deferred
                self._bytes += sum(work.request.size for work in deferred)
            answered = [work for work in group if work.answer is not None]
            for loop in {work.loop for work in answered}:
                with suppress(RuntimeError):  # The loop is closed, so the future has no reader.
                    loop.call_soon_threadsafe(self._resolve, [each for each in answered if each.loop is loop])

    def _resolve(self, group: Sequence[_QueuedWrite]) -> None:
        for work in group:
            if isinstance(work.answer, DoorResponse) and work.request.on_committed is not None:
                work.request.on_committed()
            if work.future.done():
                continue
            if isinstance(work.answer, DoorResponse):
                work.future.set_result(work.answer)
            elif isinstance(work.answer, GuestProblem):
                work.future.set_result(work.refuse(work.answer))
            else:
                work.future.set_exception(work.answer or RuntimeError("a write was not answered"))
        self._on_done(len(group))

    def _next_group(self) -> list[_QueuedWrite]:
        """Wait for requests; return an empty list to end the thread."""
        with self._queued:
            while not (self._waiting or self._deferred or self._closed):
                if not self._queued.wait(THREAD_SECONDS) and not self._waiting:
                    self._thread = None
                    return []
            if self._deferred and (not self._waiting or _is_overdue(self._deferred[0])):
                group = [self._deferred.popleft()]
            else:
                group = [self._waiting.popleft() for _ in range(min(MAX_GROUP, len(self._waiting)))]
            self._bytes -= sum(work.request.size for work in group)
        return group

    def _fail(self, group: Sequence[_QueuedWrite], error: BaseException) -> None:
        for work in group:
            if not work.committed:
                work.answer = error
        self._end()

    def _run_together(self, group: Sequence[_QueuedWrite]) -> None:
        if len(group) > 1 and self._own.missing(work.request for work in group):
            self._run_each(group)  # One whose table does not fit into the file fails alone.
            return
        if not self._begin(group):
            return
        for number, work in enumerate(group, 1):
            self._group_rest = len(group) - number
            if not self._run_request(work, len(group)):
                # Its error rolled back the other requests, so they run again.
                self._run_each([each for each in group if each is not work])
                return
        if (problem := self._commit()) is not None:
            if len(group) > 1:
                self._run_each(group)
            else:
                group[0].answer = problem

    def _run_each(self, group: Sequence[_QueuedWrite]) -> None:
        for number, work in enumerate(group, 1):
            self._group_rest = len(group) - number
            if self._begin([work]) and self._run_request(work):
                work.answer = self._commit() or work.answer
                work.committed = True

    def _limit_size(self) -> None:
        """Adjust the maximum size of the file to the free space of its disk."""
        now = time.monotonic()
        if now - self._space_checked < _SPACE_SECONDS:
            return
        self._space_checked = now
        with suppress(OSError):
            short = bool(shortage(self._path.parent))
            if short is not self._short:
                self._short = short
                with self.session.unbounded():
                    limit_size(self.session.connection, self._path, max_size(self._path))

    def _begin(self, group: Sequence[_QueuedWrite]) -> bool:
        try:
            self._limit_size()
            self.session.execute("begin immediate")
            self.session.refresh_schema()
            if missing := self._own.missing(work.request for work in group):
                self._own.create(missing)
            if self._recorder is not None:
                self._recorder.begin_rows()
        except GuestProblem as problem:
            self._end()
            for work in group:
                work.answer = problem
            return False
        return True

    def _commit(self) -> GuestProblem | None:
        """Commit; on failure, roll back and return the problem."""
        try:
            if self._recorder is not None:
                with self.session.unbounded():
                    self._recorder.commit()
            if self.session.connection.in_transaction:
                self.session.execute("commit")
        except GuestProblem as problem:
            return problem
        finally:
            self._end()
        return None

    def _end(self) -> None:
        """End the transaction, which is rolled back unless it was committed."""
        if self._recorder is not None:
            self._recorder.end_rows()
        if self.session.connection.in_transaction:
            self.session.execute("rollback")

    def _run_request(self, work: _QueuedWrite, shared: int = 1) -> bool:
        """Run a request; return whether the transaction is still open.

        Several statements run in a savepoint. SQLite undoes a single one that fails, unless it says OR FAIL
        or has a result that is too large: then all is rolled back. `shared` is the number of requests in the
        transaction.
        """
        session, began = self.session, perf_counter_ns()
        single = len(work.request.statements) == 1 and not work.request.idempotency_key
        if work.future.cancelled():
            work.answer = GuestProblem("busy", "the client has disconnected")
            return True
        session.begin(TIMEOUT_SECONDS, TURN_SECONDS if work.deferred_at is None else math.inf)
        session.watch(work.future.cancelled)
        if (call := work.request.call) is not None and call.capture is not None:
            call.capture.time_ns = time.time_ns()
        before = session.connection.total_changes()
        try:
            if self._recorder is not None:
                self._recorder.write_as(work.request.origin, apart=shared <= MAX_APART)
            if not single:
                session.execute("savepoint request")
            session.trust(work.request.trusted)
            work.answer = self._own.run(work.request)
            if not single:
                session.execute("release request")
            session.end()
            describe(work.request, session.row_count, began, "write", shared)
        except GuestProblem as problem:
            session.watch(never)
            if session.end() and problem.code == "time-limit":
                work.deferred_at, work.answer = time.monotonic(), None
            else:
                work.answer = problem
            partial = single and session.connection.total_changes() != before
            if partial or not session.connection.in_transaction:
                self._end()
                return False
            if not single:
                session.execute("rollback to request")
                session.execute("release request")
        finally:
            session.trust(False)
            session.watch(never)
        return True


class _OwnTables:
    """Tables of svc in the file: those of Doors, and answers to writes with an idempotency key.

    Such an answer is stored in the transaction of the write. So a repeated request is answered and not run
    again, on any node of a fleet and after a restart.
    """

    def __init__(self, session: GuestSession) -> None:
        self.session = session

    def missing(self, requests: Iterable[SqlRequest]) -> Sequence[str]:
        """Return what creates the tables that requests need and do not find. Raises `GuestProblem`."""
        needed: dict[str, tuple[str, ...]] = {}
        for each in requests:
            if each.idempotency_key:
                needed[ANSWERS] = (_CREATE,)
            if each.tables is not None:
                needed[each.tables.prefix] = each.tables.create
        return [sql for name in needed if self.session.row(_EXISTS, name) is None for sql in needed[name]]

    def create(self, statements: Sequence[str]) -> None:
        """Create tables and commit, in a new transaction, and begin another one. Raises `GuestProblem`.

        A fleet cannot replicate a transaction of which a savepoint takes back a change of the schema.
        """
        for statement in (*statements, "commit", "begin immediate"):
            self.session.execute(statement)
        self.session.refresh_schema()

    def run(self, request: SqlRequest) -> DoorResponse:
        """Run a request in the current transaction, or return the stored answer. Raises `GuestProblem`."""
        if not request.idempotency_key:
            return response(request.kind, self.session.run(request, MAX_RESULT))
        digest = sha256(repr((request.kind, request.statements)).encode("utf-8", "surrogatepass")).hexdigest()
        session = self.session
        if (stored := session.row(_FIND, request.idempotency_key)) is not None:
            if stored[0] != digest:
                raise GuestProblem(
                    "key-reused",
                    f"the idempotency key {request.idempotency_key!r} was used for another request",
                    "Use a new key for each write, and repeat a write with its own statements.",
                )
            return DoorResponse(200, stored[1])
        answer = response(request.kind, session.run(request, MAX_RESULT))
        if len(answer.body) > MAX_ANSWER:
            raise GuestProblem(
                "too-large",
                f"the answer to a write with an idempotency key has more than {MAX_ANSWER >> 10} KiB",
                "Return fewer rows.",
            )
        session.row(_INSERT, request.idempotency_key, digest, answer.body)
        session.execute(_EXPIRE)
        return answer


def _is_overdue(work: _QueuedWrite) -> bool:
    return work.deferred_at is not None and time.monotonic() - work.deferred_at > MAX_DEFERRED_SECONDS
