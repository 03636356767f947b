"""The local copy of one project's tables, which follows the log. A copy that does not fit is built again."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from doors.tables.replication.copy import CLOSED, Content, Copy, LogPosition, save_snapshot
from doors.tables.replication.entry import Entry
from doors.tables.replication.errors import CannotApply, ReplicationError, storage_failure
from doors.tables.sqlite.connections import Error, apsw
from engine.cancellation import cancel, finish, spawn
from engine.errors import SvcError
from engine.files.database_files import move_database, remove_database
from engine.replication import LogSnapshots, ReplicatedLog

if TYPE_CHECKING:
    from doors.tables.replication.replica import Replica

SNAPSHOT_BYTES = 16 << 20
"""Size of the log since the last snapshot at which another one is taken, or half the size of the file.

The node whose entry makes the log so large takes it. All nodes observe the same sizes.
"""
LATE_MS = 5000
"""A copy that is behind for so long is reported."""
NEWS_SECONDS = 5.0
"""How often a copy reads the log without news, which may be lost."""
RETRY_SECONDS = 1.0
APPLY_SECONDS = 10.0
REBUILD_SECONDS = 60.0
"""Minimum time between two builds of a copy that did not fit."""
DIFFERS = "it differs from the copies of other nodes"
_log = logging.getLogger("svc.tables")
_T = TypeVar("_T")


class CopyFollower:
    """Use on the event loop of the log."""

    def __init__(
        self, log: ReplicatedLog, name: str, path: Path, threads: Executor, replica: "Replica"
    ) -> None:
        """`threads` runs SQLite. `replica` compares the copy with others."""
        self._log, self._name, self._path = log, name, path
        self._new, self._snapshot = (path.with_name(path.name + suffix) for suffix in (".new", ".snapshot"))
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._copy: Copy | None = None
        self.log_position = CLOSED
        self.digest: tuple[int, str | None] = 0, None
        """The last check: the sequence of its entry, and the digest there.

        The digest is empty for a damaged file, None until it is known.
        """
        self.verified = False
        """Whether the file was built from the log, or found equal to others, since it was opened."""
        self.opened_at = 0.0
        """When the copy was first opened (time of the event loop), 0 before."""
        self._content: Content | None = None
        """The content that is or was compared last."""
        self._announced = 0
        self.writing = 0
        """Transactions of this node that are being stored."""
        self._behind_since = time.monotonic()
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._rebuilt_at = -math.inf
        self._has_snapshot = False
        """Whether another node stored a snapshot because the log could not be applied."""
        self._damage = self._failure = ""
        self._failing_ns = 0
        """Unix time since which the copy is not up to date, 0 while it is."""
        self._snapshot_due = math.inf
        """Size of the log from which this node takes a snapshot."""
        self._storing = asyncio.Lock()
        self._replica = replica
        self._tasks: set[asyncio.Task[None]] = set()
        self.spawn(self._follow())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine until it ends or the follower closes."""
        return spawn(self._tasks, work)

    async def aclose(self) -> None:
        while self._tasks:  # The last entry may start another one.
            if self._content is not None:
                self._content.interrupt()
            await cancel(self._tasks)
        if self._copy is not None:
            await self.in_thread(self._copy.close)

    async def in_thread(self, work: Callable[..., _T], *arguments: Any) -> _T:
        """Run a function that uses SQLite on another thread. A canceled caller waits: the file is in use."""
        return await finish(self._loop.run_in_executor(self._threads, work, *arguments))

    @property
    def opened(self) -> bool:
        return self.opened_at > 0 and not self._damage

    @property
    def position(self) -> int:
        """Sequence of the last entry in the file; -1 until it is open."""
        return self.log_position.sequence

    @property
    def lag_ms(self) -> int:
        """For how many ms the copy has lacked an entry of which it knows, or was not open."""
        lacks = self.position < max(self._announced, 0)
        return int((time.monotonic() - self._behind_since) * 1000) if lacks else 0

    @property
    def trouble(self) -> tuple[int, str] | None:
        """Since when (Unix time in ns) the copy is not up to date, and why; None while it is."""
        if self._damage:
            return self._failing_ns, f"it is built again: {self._damage}"
        if self._failing_ns:
            return self._failing_ns, self._failure
        late = self.lag_ms >= LATE_MS
        return (time.time_ns() - self.lag_ms * 1_000_000, "it is behind") if late else None

    # -- following ---------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            try:
                async with self._log.news(self._name, self.announce):
                    while True:
                        self._wake.clear()
                        if not self.writing:
                            await self._catch_up()
                            self._failure, self._failing_ns = "", 0
                        with suppress(TimeoutError):
                            async with asyncio.timeout(NEWS_SECONDS):
                                await self._wake.wait()
            except Exception as error:
                failure = await self._handle(error)
            if failure != self._failure:
                _log.warning("the tables of %s are not up to date: %s; svc retries", self._name, failure)
            self._failure = failure
            self._failing_ns = self._failing_ns or time.time_ns()
            self._notify()
            await asyncio.sleep(RETRY_SECONDS)

    async def _handle(self, error: Exception) -> str:
        """Repair the copy if the error says that it does not fit; return why it is not up to date."""
        try:
            match error:
                case apsw.NotADBError():
                    copy, self._copy, self.log_position = self._copy, None, CLOSED
                    if copy is not None:  # The file is opened and checked again.
                        await self.in_thread(copy.close)
                case apsw.CorruptError() | UnicodeDecodeError() | CannotApply():
                    if self.position < (await self._log.snapshots(self._name)).trimmed:
                        await self._rebuild()
                        return ""
                    reason = str(error) if isinstance(error, CannotApply) else f"the file is damaged: {error}"
                    if time.monotonic() - self._rebuilt_at < REBUILD_SECONDS:
                        if self._has_snapshot:
                            return self._failure or reason
                        await self._replica.ask_for_snapshot()
                        self._has_snapshot = True
                    else:
                        self._has_snapshot = False
                    await self._rebuild(reason)
        except Exception as failed:
            error = failed
        if isinstance(error, SvcError | Error | OSError | CannotApply):
            return storage_failure(error)
        _log.error("the tables of %s cannot be replicated", self._name, exc_info=error)
        return repr(error)

    def announce(self, sequence: int) -> None:
        """Note that the log has an entry with a sequence, or more."""
        if self._announced <= self.position < sequence:
            self._behind_since = time.monotonic()
        self._announced = max(self._announced, sequence)
        if not self.writing and self._announced > self.position:
            self._wake.set()

    async def _catch_up(self) -> None:
        copy = self._copy
        if copy is None:
            copy = self._copy = await self.in_thread(self._open_file)
            self.digest = 0, None
            self.verified = copy.log_position is not None and not copy.after
            if not self.verified:
                self.spawn(self._replica.verify())
        if self.position < 0:
            await self._check(copy)
        if self._damage:
            raise CannotApply(self._damage)
        while messages := await self._log.read(self._name, max(self.position, copy.after)):
            await self.in_thread(copy.apply, messages, self.position, self._on_entry_in_thread)
        if not self.opened_at:
            self.opened_at = self._loop.time()
            self._notify()

    def _open_file(self) -> Copy:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        for leftover in (self._new, self._snapshot):
            remove_database(leftover)
        try:
            return Copy(self._path, self._log.id)
        except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
            aside = self._aside()
            move_database(self._path, aside)
            self._report_aside(aside, f"the file is damaged: {error}")
            return Copy(self._path, self._log.id)

    async def _check(self, copy: Copy) -> None:
        """Compare the file with the log; build the file again unless the log continues it."""
        snapshots = await self._log.snapshots(self._name)
        last = await self._log.last(self._name)
        self._announced = max(self._announced, last)
        if copy.log_position is None:
            await self._rebuild("the file does not belong to this fleet")
        elif copy.log_position.sequence > last:
            await self._rebuild(f"the file is at {copy.log_position.sequence}, the log ends at {last}")
        elif copy.log_position.sequence < snapshots.trimmed:
            await self._rebuild()
        self.log_position = copy.log_position or CLOSED
        self._snapshot_due = _logged(snapshots) + self._interval()

    def _on_entry_in_thread(self, *entry: Any) -> None:
        self._loop.call_soon_threadsafe(self._on_entry, *entry)

    def _on_entry(self, log_position: LogPosition, entry: Entry, content: Content | None) -> None:
        self._after_entry(log_position, entry.node)
        if content is not None:
            if self._content is not None:
                self._content.interrupt()
            self.digest, self._content = (log_position.sequence, None), content
            task = self.spawn(self._take_digest(content, log_position.sequence))
            task.add_done_callback(lambda _: content.close())  # Also if it never began.
        self._notify()

    async def _take_digest(self, content: Content, sequence: int) -> None:
        with suppress(apsw.InterruptError):  # The copy is being closed, or compared again.
            digest = await self.in_thread(content.digest)
            if content is self._content:
                self.digest = sequence, digest
        self._notify()

    def _after_entry(self, log_position: LogPosition, node: str) -> None:
        if log_position.sequence > self.position:
            self.log_position = log_position
        if node == self._log.node and log_position.logged >= self._snapshot_due:
            self._snapshot_due = math.inf
            self.spawn(self._take_snapshot_if_due(log_position.logged))

    def _interval(self) -> int:
        try:
            return max(SNAPSHOT_BYTES, self._path.stat().st_size // 2)
        except OSError:
            return SNAPSHOT_BYTES

    async def _take_snapshot_if_due(self, logged: int) -> None:
        """Store a snapshot, unless another node has done so or no other copy is equal to this. Log errors."""
        due = logged + self._interval() // 2
        try:
            last = _logged(await self._log.snapshots(self._name))
            if logged - last >= self._interval() and await self._replica.check():
                last = await self.take_snapshot()
            due = last + self._interval()
        except (SvcError, Error, OSError, TimeoutError) as error:
            reason = storage_failure(error)
            _log.warning("no snapshot of the tables of %s could be taken: %s", self._name, reason)
        finally:
            self._snapshot_due = due

    async def take_snapshot(self) -> int:
        """Store a snapshot now, and return the size of the log up to there.

        Raises `SvcError`, SQLite's errors and OSError.
        """
        async with self._storing:
            try:
                snapshot = await self.in_thread(save_snapshot, self._path, self._snapshot)
                await self._log.add_snapshot(self._name, snapshot, self._snapshot)
                return snapshot.logged
            finally:
                with suppress(OSError):
                    await self.in_thread(remove_database, self._snapshot)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # -- building the copy again -------------------------------------------------------------------------

    def on_compared(self, sequence: int, *, equal: bool, decided: bool) -> None:
        """Note whether the file was equal to that of another node at an entry.

        If not, build it again, and a `verified` file only if it is `decided` which one is right.
        """
        if equal and self.digest[0] == sequence:
            self.verified = True
            self._notify()
        elif not equal and (decided or not self.verified):
            self.repair(DIFFERS)

    def repair(self, reason: str) -> None:
        """Build the file again, which turned out to be damaged. Call it on the event loop."""
        self._damage = reason
        self._failing_ns = self._failing_ns or time.time_ns()
        self._wake.set()

    async def _rebuild(self, reason: str = "") -> None:
        """Build the content of the file from a snapshot and the log; put a copy of it aside for a reason."""
        copy = self._copy
        assert copy is not None
        self._rebuilt_at = time.monotonic()
        aside = self._aside()
        built = await self._begin_build(self._new)
        try:
            while messages := await self._log.read(self._name, built.after):
                await self.in_thread(built.apply, messages, 0, lambda *entry: None)
            if reason:
                await self.in_thread(copy.save_aside, aside)
            await self.in_thread(copy.become, built)
            if reason:
                self._report_aside(aside, reason)
        finally:
            await self.in_thread(built.close)
            remove_database(self._new)
        self.log_position, self._damage, self.verified = copy.log_position or CLOSED, "", True
        self._notify()

    async def _begin_build(self, path: Path) -> Copy:
        """Return a new copy, at the newest snapshot that can be read."""
        snapshots = await self._log.snapshots(self._name)
        for snapshot in snapshots.stored:
            remove_database(path)
            if await self._log.read_snapshot(self._name, snapshot, path):
                _log.info("the tables of %s begin with the snapshot at %d", self._name, snapshot.sequence)
                return await self.in_thread(Copy, path, self._log.id, snapshot)
            _log.error("the snapshot of the tables of %s at %d is corrupt", self._name, snapshot.sequence)
        if snapshots.trimmed:
            raise ReplicationError("unavailable", f"the snapshots of the tables of {self._name} are corrupt")
        remove_database(path)
        return await self.in_thread(Copy, path, self._log.id)

    def _aside(self) -> Path:
        return self._path.with_name(self._path.name + time.strftime(".aside-%Y%m%d-%H%M%S", time.gmtime()))

    def _report_aside(self, aside: Path, reason: str) -> None:
        _log.error(
            "the tables of %s were put aside as %s and built from the log: %s", self._name, aside, reason
        )

    # -- for readers and writers -------------------------------------------------------------------------

    async def until(self, condition: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until a condition holds, which changes of the state may affect. Raises `ReplicationError`.

        The default of `seconds` is `APPLY_SECONDS`.
        """
        end = self._loop.time() + (seconds or APPLY_SECONDS)
        while not condition():
            self._wake.set()
            changed = self._changed
            try:
                async with asyncio.timeout_at(end):
                    await changed.wait()
            except TimeoutError:
                compared = self.verified or not self.opened
                missing = "entries are missing" if compared else "they were not compared with other nodes yet"
                message = f"the tables on this node are not up to date: {self._failure or missing}"
                raise ReplicationError("unavailable", message, "Retry.") from None

    def begin_write(self) -> None:
        """Stop applying entries: a transaction of this node holds the file and is being stored."""
        self.writing += 1

    def end_write(self, log_position: LogPosition | None) -> None:
        """Apply entries again. `log_position` is that of the file then, None if it lacks the transaction."""
        self.writing -= 1
        if log_position is None:
            self._wake.set()
        else:
            self._after_entry(log_position, self._log.node)
            self.announce(0)
        self._notify()


def _logged(snapshots: LogSnapshots) -> int:
    return snapshots.stored[0].logged if snapshots.stored else 0
