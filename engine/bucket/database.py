"""The control database: one thread that runs all transactions, and subscriptions to changes.

Requests that arrive during a transaction run together in the next one, each in its own savepoint (group
commit). A failing request is rolled back alone. Results are returned once they are durable.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import apsw

from engine.bucket.errors import BucketClosed, BucketError, DiskError

T = TypeVar("T")
Execute = Callable[..., list[Any]]
"""`execute(sql, *values)` returns the rows."""

BUSY_TIMEOUT_MS = 5000
"""Maximum time a write waits for another process that reads or copies the file."""
MAX_BATCH = 64

_SCHEMA = """
create table if not exists cell (
  key text primary key,
  value blob,
  revision integer not null unique
) strict;
create table if not exists log (
  name text primary key,
  last integer not null
) strict;
create table if not exists entry (
  name text not null,
  seq integer not null,
  content blob not null,
  primary key (name, seq)
) strict;
"""


@dataclass(frozen=True, slots=True)
class _Job:
    """A queued request. Subscribers of `topic` are notified when it is done; empty for reads."""

    work: Callable[[Execute], Any]
    topic: str
    done: "Future[Any]"


class Database:
    """One open control database. Methods may be called from any event loop on any thread."""

    def __init__(self, path: Path) -> None:
        """Open the file, or create it. Raises `BucketError`."""
        self._path = path
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._waiting: set[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = set()
        connection = None
        try:
            connection = apsw.Connection(str(path))
            self._prepare(connection)
        except (apsw.Error, OSError) as error:
            if connection is not None:
                connection.close()
            raise self._error(error) from error
        self._connection = connection
        self._thread = threading.Thread(target=self._work, name="bucket", daemon=True)
        self._thread.start()

    @staticmethod
    def _prepare(connection: apsw.Connection) -> None:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        for setting in ("journal_mode=wal", "synchronous=full", "fullfsync=1"):
            connection.execute(f"pragma {setting}").fetchall()
        if (problems := connection.execute("pragma quick_check(1)").fetchall()) != [("ok",)]:
            raise apsw.CorruptError(str(problems[0][0]))
        connection.execute(_SCHEMA)

    async def read(self, work: Callable[[Execute], T]) -> T:
        """Return the result of `work`, which must not write. Raises its errors, and `BucketError`."""
        return await self._ask(work, "")

    async def write(self, work: Callable[[Execute], T], topic: str) -> T:
        """Run `work` atomically, then notify subscribers of `topic`. Raises as `read` does."""
        return await self._ask(work, topic)

    async def _ask(self, work: Callable[[Execute], T], topic: str) -> T:
        done: Future[T] = Future()
        with self._closing:
            if self._closed:
                raise BucketClosed
            self._jobs.put(_Job(work, topic, done))
        return await asyncio.wrap_future(done)

    @contextmanager
    def subscribe(self, topic: str) -> Iterator[asyncio.Event]:
        """Yield an event of the running loop, set at each change of a topic and on close."""
        waiting = (topic, asyncio.get_running_loop(), asyncio.Event())
        with self._closing:
            self._waiting.add(waiting)
        try:
            yield waiting[2]
        finally:
            with self._closing:
                self._waiting.discard(waiting)

    async def aclose(self) -> None:
        """Finish queued requests, close the file and wake all subscribers."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        ended = False
        while not ended:
            job = self._jobs.get()
            jobs = []
            while job is not None:
                jobs.append(job)
                if len(jobs) == MAX_BATCH:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            ended = job is None
            self._do([job for job in jobs if job.done.set_running_or_notify_cancel()])
        self._connection.close()
        self._wake(None)

    def _do(self, jobs: list[_Job]) -> None:
        """Run jobs in one transaction and set their results."""
        answers: list[tuple[Any, Exception | None]] = []
        topics = {job.topic for job in jobs if job.topic}
        try:
            if topics:
                self._connection.execute("begin immediate")
            answers = [self._one(job) for job in jobs]
            if topics:
                self._connection.execute("commit")
        except (apsw.Error, BucketError) as error:
            with suppress(apsw.Error):
                self._connection.execute("rollback")
            all_failed = error if isinstance(error, BucketError) else self._error(error)
            answers = [(None, all_failed)] * len(jobs)
        self._wake(topics)
        for job, (answer, failure) in zip(jobs, answers, strict=True):
            if failure is not None:
                job.done.set_exception(failure)
            else:
                job.done.set_result(answer)

    def _one(self, job: _Job) -> tuple[Any, Exception | None]:
        if not job.topic:
            return self._guarded(job)
        self._connection.execute("savepoint job")
        answer, failure = self._guarded(job)
        if failure is not None:
            if not self._connection.in_transaction:  # A full disk rolls back the whole transaction.
                raise failure
            self._connection.execute("rollback to job")
        self._connection.execute("release job")
        return answer, failure

    def _guarded(self, job: _Job) -> tuple[Any, Exception | None]:
        try:
            return job.work(self._run), None
        except apsw.Error as error:
            return None, self._error(error)
        except Exception as error:
            return None, error

    def _run(self, sql: str, *values: str | int | bytes | None) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    def _wake(self, topics: set[str] | None) -> None:
        """Wake the subscribers of these topics; `None` for all."""
        with self._closing:
            waiting = [
                (loop, event) for topic, loop, event in self._waiting if topics is None or topic in topics
            ]
        for loop, event in waiting:
            with suppress(RuntimeError):  # The loop was closed.
                loop.call_soon_threadsafe(event.set)

    def _error(self, error: Exception) -> BucketError:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            return BucketError(
                f"{self._path} is corrupt: {reason}",
                "Restore it from a backup. If you move it away, svc creates an empty one:"
                " blobs remain, deployments are lost.",
                code="bucket-damaged",
                public_message=f"the service's control database is corrupt: {reason}",
            )
        return DiskError(
            self._path,
            str(reason),
            "Check that the user running svc can write to the folder and that its disk has space.",
        )
