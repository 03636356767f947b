"""The replica of one project's tables on this node: follows the log, and appends to it.

Its asynchronous methods run on the event loop of the log, the blocking ones on other threads.
"""

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from doors.tables.replication.copy import Copy
from doors.tables.replication.entry import Entry, messages_of
from doors.tables.replication.errors import CannotApply, Conflict, ReplicationError
from doors.tables.replication.place import Place
from doors.tables.replication.recorder import Recorder
from doors.tables.sqlite.connections import DATABASE_NAME, Connection, Error
from engine.cancellation import cancel
from engine.errors import SvcError
from engine.files.database_files import move_database, remove_database
from engine.replication import ReplicatedLog

NEWS_SECONDS = 5.0
"""How often a replica reads the log without news, which may be lost."""
RETRY_SECONDS = 1.0
WAIT_SECONDS = 5.0
"""How long a write waits for the claim of another node, as one waits for another writer of a file."""
APPLY_SECONDS = 10.0
CLAIM_SECONDS = 60.0
"""After this time the claim of a node that is present is void."""
CLAIM_CHECK_SECONDS = 0.5
CONFLICT_PAUSE_SECONDS = 0.01
_log = logging.getLogger("svc.tables")
_T = TypeVar("_T")


class Replica:
    """One replica. `open` starts it."""

    def __init__(self, log: ReplicatedLog, name: str, data: Path, threads: Executor) -> None:
        """`data` is the data folder of the project, `threads` runs SQLite."""
        self._log, self._name = log, name
        self.node = log.node
        self._path = data / "tables" / DATABASE_NAME
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._copy: Copy | None = None
        self._place: Place | None = None
        self._opened = asyncio.Event()
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._announced = self._publishing = 0
        self._claims: dict[str, tuple[str, float]] = {}
        """Node and time of the claims that no entry has ended, by id."""
        self._turn = asyncio.Lock()
        """Held while a transaction of this node has a claim: another claim would conflict with it."""
        self._asking: asyncio.Task[int] | None = None
        self._rebuilt_at = 0.0
        self._failure = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._spawn(self._follow())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Stop following, and close the file."""
        await cancel(self._tasks)
        if self._copy is not None:
            await self._in_thread(self._copy.close)

    async def _in_thread(self, work: Callable[..., _T], *arguments: Any) -> _T:
        return await self._loop.run_in_executor(self._threads, work, *arguments)

    # -- following the log -------------------------------------------------------------------------------

    async def _follow(self) -> None:
        reported = ""
        while True:
            try:
                async with self._log.news(self._name, self._on_news):
                    while True:
                        self._wake.clear()
                        if not self._publishing:
                            await self._catch_up()
                            reported = self._failure = ""
                        with suppress(TimeoutError):
                            async with asyncio.timeout(NEWS_SECONDS):
                                await self._wake.wait()
            except SvcError as error:
                failure = error.message
            except Error as error:
                failure = f"SQLite: {error}"
            except CannotApply as error:
                failure = str(error)
                await self._rebuild_or_wait(failure)
            except Exception as error:
                _log.exception("the tables of %s cannot be replicated", self._name)
                failure = repr(error)
            if failure != reported:
                _log.warning("the tables of %s are not up to date: %s", self._name, failure)
            reported = self._failure = failure
            self._notify()
            await asyncio.sleep(RETRY_SECONDS)

    def _on_news(self, sequence: int) -> None:
        self._announced = max(self._announced, sequence)
        if not self._publishing and (self._announced > self._position):
            self._wake.set()

    async def _catch_up(self) -> None:
        copy = self._copy
        if copy is None:
            copy = self._copy = await self._in_thread(self._open_file)
        if self._place is None:
            await self._check(copy)
        while messages := await self._log.read(self._name, max(self._position, copy.after)):
            await self._in_thread(copy.apply, messages, self._position, self._on_entry_in_thread)
        if not self._opened.is_set():
            self._opened.set()
            self._notify()

    def _open_file(self) -> Copy:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return Copy(self._path, self._log.id)
        except Error as error:
            _log.error("the tables of %s are put aside and built from the log: %s", self._name, error)
            move_database(self._path, self._path.with_name(self._path.name + _aside()))
            return Copy(self._path, self._log.id)

    async def _check(self, copy: Copy) -> None:
        """Compare the place of the file with the log; rebuild the file unless the log continues there."""
        last = await self._log.last(self._name)
        if copy.place is None:
            await self._rebuild("the file does not belong to this fleet")
        elif copy.place.sequence > last:
            await self._rebuild(f"the file is at {copy.place.sequence}, the log ends at {last}")
        self._place = copy.place

    @property
    def _position(self) -> int:
        """Sequence of the last entry in the file; -1 until it is open."""
        return self._place.sequence if self._place is not None else -1

    def _on_entry_in_thread(self, place: Place, entry: Entry) -> None:
        self._loop.call_soon_threadsafe(self._on_entry, place, entry)

    def _on_entry(self, place: Place, entry: Entry) -> None:
        if place.sequence > self._position:
            self._place = place
        if entry.kind == "claim":
            self._claims[entry.claim] = entry.node, time.monotonic()
        else:
            self._claims.pop(entry.claim, None)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _rebuild_or_wait(self, reason: str) -> None:
        if time.monotonic() - self._rebuilt_at < 60:
            return
        with suppress(SvcError, Error, CannotApply):
            await self._rebuild(reason)

    async def _rebuild(self, reason: str) -> None:
        """Put a copy of the file aside, and build its content from the log."""
        copy = self._copy
        assert copy is not None
        self._rebuilt_at = time.monotonic()
        aside = self._path.with_name(self._path.name + _aside())
        _log.error(
            "the tables of %s are put aside as %s and built from the log: %s", self._name, aside, reason
        )
        new = self._path.with_name(self._path.name + ".new")
        remove_database(new)
        built = await self._in_thread(Copy, new, self._log.id)
        try:
            while messages := await self._log.read(self._name, built.after):
                await self._in_thread(built.apply, messages, 0, lambda *_: None)
            await self._in_thread(copy.save_aside, aside)
            await self._in_thread(copy.become, built)
        finally:
            await self._in_thread(built.close)
            remove_database(new)
        self._place = copy.place
        self._notify()

    # -- reading -----------------------------------------------------------------------------------------

    async def open(self, *, fresh: bool) -> None:
        """Wait until the copy exists or, if `fresh`, has all entries. Raises `ReplicationError`."""
        await self._until(self._opened.is_set)
        if fresh:
            await self._fresh()

    async def _fresh(self) -> None:
        if self._asking is not None:
            # A question asked before now may miss an entry that was stored before now.
            await asyncio.wait([self._asking])
        if self._asking is None or self._asking.done():
            self._asking = self._loop.create_task(self._log.last(self._name))
        try:
            last = await asyncio.shield(self._asking)
        except SvcError as error:
            raise _unavailable(error) from error
        self._announced = max(self._announced, last)
        await self._until(lambda: self._position >= last)

    async def _until(self, condition: Callable[[], bool]) -> None:
        end = self._loop.time() + APPLY_SECONDS
        while not condition():
            self._wake.set()
            changed = self._changed
            try:
                async with asyncio.timeout_at(end):
                    await changed.wait()
            except TimeoutError:
                raise ReplicationError(
                    "unavailable",
                    f"the tables on this node are not up to date: {self._failure or 'entries are missing'}",
                    "Retry.",
                ) from None

    # -- writing, on other threads -----------------------------------------------------------------------

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def refresh(self) -> None:
        """Wait until the copy has all entries of the log. Raises `ReplicationError`."""
        self._call(self.open(fresh=True))

    def record(self, connection: Connection, *, exclusive: bool) -> None:
        """Send the transactions of a connection to the log."""
        Recorder(connection, self, exclusive=exclusive)

    def before_write(self, *, exclusive: bool) -> str:
        """Wait for claims of other nodes; if `exclusive`, claim the tables and return the id of the claim.

        Raises `ReplicationError`.
        """
        return self._call(self._prepare_write(exclusive)) if exclusive or self._claims else ""

    async def _prepare_write(self, exclusive: bool) -> str:
        end = self._loop.time() + WAIT_SECONDS
        if not exclusive:
            await self._until_unclaimed(end)
            return ""
        try:
            async with asyncio.timeout_at(end):
                await self._turn.acquire()
        except TimeoutError:
            raise _busy("another transaction") from None
        try:
            return await self._acquire_claim(end)
        except BaseException:
            self._turn.release()
            raise

    async def _acquire_claim(self, end: float) -> str:
        claim = secrets.token_hex(8)
        while True:
            await self._fresh()
            await self._until_unclaimed(end)
            if await self._append_control("claim", claim):
                return claim
            await asyncio.sleep(random.random() * CONFLICT_PAUSE_SECONDS)

    async def _until_unclaimed(self, end: float) -> None:
        """Wait until no other node has a claim, until a time of the event loop. Raises `ReplicationError`."""
        while self._is_claimed():
            if self._loop.time() > end:
                raise _busy("another node of the fleet")
            changed = self._changed
            with suppress(TimeoutError):
                async with asyncio.timeout(CLAIM_CHECK_SECONDS):
                    await changed.wait()

    def _is_claimed(self) -> bool:
        """Return whether another node has a claim that holds."""
        oldest = time.monotonic() - CLAIM_SECONDS
        return any(
            node != self.node and since > oldest and self._log.present(node)
            for node, since in self._claims.values()
        )

    async def _append_control(self, kind: Literal["claim", "release"], claim: str) -> bool:
        """Append a claim or its end, and wait until it is applied here. Return False after a conflict."""
        place = self._place
        assert place is not None
        content = Entry(kind=kind, previous=place.chain, node=self.node, claim=claim).encode()
        try:
            sequence = await self._log.append(self._name, messages_of(content), place.sequence)
        except SvcError as error:
            raise _unavailable(error) from error
        if sequence is None:
            return False
        self._announced = max(self._announced, sequence)
        await self._until(lambda: self._position >= sequence)
        return True

    def publish(self, content: bytes, place: Place, claim: str) -> int:
        """Append an entry after a place, with a claim or none, and return its sequence.

        Raises `Conflict` and `ReplicationError`.
        """
        messages = messages_of(content)
        if len(messages) > self._log.max_messages:
            raise ReplicationError(
                "too-large",
                f"the changes have {len(content) >> 20} MiB, more than a transaction of a fleet can have",
                "Import or change the rows in several steps.",
            )
        return self._call(self._publish(messages, place, claim))

    async def _publish(self, messages: Sequence[bytes], place: Place, claim: str) -> int:
        # The thread that applied an entry, perhaps a claim, may not have reported it yet.
        await self._until(lambda: self._position >= place.sequence)
        if claim not in self._claims and self._is_claimed():
            raise Conflict
        self._publishing += 1
        try:
            sequence = await self._log.append(self._name, messages, place.sequence)
        except SvcError as error:
            self._publishing -= 1
            self._wake.set()
            raise ReplicationError(
                "unavailable",
                f"the fleet did not confirm the write, which may be stored or not: {error.message}",
                error.hint,
            ) from error
        if sequence is None:
            self._publishing -= 1
            self._wake.set()
            raise Conflict
        return sequence

    def on_written(self, place: Place | None, claim: str) -> None:
        """Note the end of a publication, and of its claim. The place is None if the file lacks it."""
        self._loop.call_soon_threadsafe(self._on_written, place, claim)

    def _on_written(self, place: Place | None, claim: str) -> None:
        self._publishing -= 1
        self._claims.pop(claim, None)
        if claim:
            self._turn.release()
        if place is None:
            self._wake.set()
        else:
            if place.sequence > self._position:
                self._place = place
            self._on_news(0)
            self._notify()

    def release(self, claim: str) -> None:
        """End a claim whose transaction changed nothing."""
        self._loop.call_soon_threadsafe(lambda: self._spawn(self._release(claim)))

    async def _release(self, claim: str) -> None:
        try:
            while claim in self._claims:
                with suppress(SvcError):
                    if not await self._append_control("release", claim):
                        await self._fresh()
                await asyncio.sleep(CONFLICT_PAUSE_SECONDS)
        finally:
            self._turn.release()

    def settle(self) -> None:
        """Wait after a conflict until the entry of the other node is applied. Raises `ReplicationError`."""
        time.sleep(random.random() * CONFLICT_PAUSE_SECONDS)
        self.refresh()


def _busy(writer: str) -> ReplicationError:
    return ReplicationError("busy", f"{writer} is changing the tables; nothing was changed", "Retry.")


def _unavailable(error: SvcError) -> ReplicationError:
    return ReplicationError("unavailable", f"the fleet does not answer: {error.message}", error.hint)


def _aside() -> str:
    return time.strftime(".aside-%Y%m%d-%H%M%S", time.gmtime())
