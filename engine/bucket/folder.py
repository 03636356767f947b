"""The embedded bucket: a folder that one process opens exclusively."""

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import apsw

from engine.bucket import layout
from engine.bucket.blobs import FolderBlobs
from engine.bucket.layout import lock
from engine.bucket.protocols import (
    BucketClosed,
    BucketError,
    DiskError,
    StaleRevision,
    VersionedValue,
    check_name,
    check_value,
    disk_errors,
    is_disk_full,
)
from engine.files.write_ahead_log import lost_commits

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
"""

_END = "\U0010ffff"
"""Sorts after every character allowed in a key."""

_GET = "select value, revision from cell where key = ? and value is not null"
_SET = (
    "insert into cell values (?, ?, (select coalesce(max(revision), 0) + 1 from cell))"
    " on conflict do update set value = excluded.value, revision = excluded.revision returning revision"
)
_LIST = "select * from cell where key >= ? and key < ? and value is not null order by key"


@dataclass(frozen=True, slots=True)
class _QueuedWork:
    """A queued request. Only those with `writes` need a transaction."""

    work: Callable[[Execute], Any]
    writes: bool
    result: "Future[Any]"


class Database:
    """One open control database. Implements `engine.bucket.protocols.KeyValue` as its rows.

    A change's revision is the highest revision plus one. A removed key leaves a row without a value, so that
    its revision is never used again.

    A thread runs all transactions. Requests that arrive during a transaction run together in the next one
    (group commit). Each writes by one statement at most, which SQLite rolls back alone if it fails. Results
    are returned once they are durable. Methods may be called from any event loop on any thread.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or create it. Raises `BucketError`."""
        self._path = path
        self._jobs: queue.SimpleQueue[_QueuedWork | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        connection = None
        try:
            connection = apsw.Connection(str(path))
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            for setting in ("journal_mode=wal", "synchronous=full", "fullfsync=1"):
                connection.execute(f"pragma {setting}").fetchall()
            if (problems := connection.execute("pragma quick_check(1)").fetchall()) != [("ok",)]:
                raise apsw.CorruptError(str(problems[0][0]))
            connection.execute(_SCHEMA)
        except (apsw.Error, OSError) as error:
            if connection is not None:
                connection.close()
            raise self._error(error) from error
        self._connection = connection
        self._thread = threading.Thread(target=self._work, name="bucket", daemon=True)
        self._thread.start()

    async def get(self, key: str) -> VersionedValue | None:
        check_name(key)
        rows = await self._submit(lambda run: run(_GET, key), writes=False)
        return VersionedValue(key, *rows[0]) if rows else None

    async def cas(self, key: str, value: bytes | None, revision: int | None) -> int | StaleRevision:
        """See the protocol. Raises `TooLarge`."""
        check_value(key, value)

        def work(run: Execute) -> int | StaleRevision:
            rows = run(_GET, key)
            current = rows[0][1] if rows else None
            if current != revision:
                return StaleRevision(current)
            return int(run(_SET, key, value)[0][0])

        return await self._submit(work, writes=True)

    async def _submit(self, work: Callable[[Execute], T], *, writes: bool) -> T:
        """Return the result of `work`, atomically if it `writes`. Raises its errors, and `BucketError`."""
        result: Future[T] = Future()
        with self._closing:
            if self._closed:
                raise BucketClosed
            self._jobs.put(_QueuedWork(work, writes, result))
        return await asyncio.wrap_future(result)

    async def aclose(self) -> None:
        """Finish queued requests and close the file."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        ended = False
        while not ended:
            jobs = [self._jobs.get()]
            while len(jobs) < MAX_BATCH and not self._jobs.empty():
                jobs.append(self._jobs.get())
            ended = jobs[-1] is None
            self._do([job for job in jobs if job is not None and job.result.set_running_or_notify_cancel()])
        self._connection.close()

    def _do(self, jobs: list[_QueuedWork]) -> None:
        answers: list[Any] = []
        writes = any(job.writes for job in jobs)
        try:
            if writes:
                self._connection.execute("begin immediate")
            for job in jobs:
                try:
                    answers.append(job.work(self._run))
                except apsw.Error as error:
                    if job.writes and not self._connection.in_transaction:
                        raise  # A full disk rolls back the whole transaction.
                    answers.append(self._error(error))
            if writes:
                self._connection.execute("commit")
        except Exception as error:
            with suppress(apsw.Error):
                self._connection.execute("rollback")
            answers = [self._error(error)] * len(jobs)
        for job, answer in zip(jobs, answers, strict=True):
            if isinstance(answer, BucketError):
                job.result.set_exception(answer)
            else:
                job.result.set_result(answer)

    def _run(self, sql: str, *values: str | int | bytes | None) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

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
            full=isinstance(error, apsw.FullError) or (isinstance(error, OSError) and is_disk_full(error)),
        )

    async def list(self, prefix: str) -> list[VersionedValue]:
        first = check_name(prefix) if prefix else ""
        rows = await self._submit(lambda run: run(_LIST, first, first + _END), writes=False)
        return [VersionedValue(*row) for row in rows]


class FolderBucket:
    """Implements `engine.bucket.protocols.Bucket`."""

    def __init__(self, root: Path, opened_by: str = "svc") -> None:
        """Open a bucket, or create one in a missing or empty folder. Blocks for milliseconds.

        `opened_by` is shown to other processes that try to open it. Raises `BucketInUse` and `BucketError`.
        """
        self.root = root
        with disk_errors(root):
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
        layout.check_format(root)
        self._lock = lock(root, opened_by)
        try:
            layout.prepare(root)
            self.lost_commits = lost_commits(root / layout.CONTROL)
            """Transactions that a damaged write-ahead log has lost."""
            self.kv = Database(root / layout.CONTROL)
        except BaseException:
            os.close(self._lock)
            raise
        self.blobs = FolderBlobs(root)
        self._open = True

    async def aclose(self) -> None:
        if self._open:
            self._open = False
            await self.blobs.aclose()
            await self.kv.aclose()
            os.close(self._lock)
