"""The replica of one project's tables on this node: reads of its copy, and appends to the log.

Its asynchronous methods run on the event loop of the log, the blocking ones on other threads.
"""

import asyncio
import secrets
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from doors.tables.replication.entry import Entry, messages_of
from doors.tables.replication.errors import Conflict, ReplicationError
from doors.tables.replication.follower import CopyFollower
from doors.tables.replication.forwarding import Execute, Forwarding
from doors.tables.replication.log_position import LogPosition
from doors.tables.replication.recorder import Recorder
from doors.tables.sqlite.connections import DATABASE_NAME, Connection
from engine.door import DoorRequest, DoorResponse
from engine.errors import SvcError
from engine.replication import ReplicatedLog

WAIT_SECONDS = 5.0
"""How long a write waits for the claim of another node, as one waits for another writer of a file."""
CLAIM_SECONDS = 60.0
"""After this time the claim of a node that is present is void."""
CLAIM_CHECK_SECONDS = 0.5
RELEASE_PAUSE_SECONDS = 0.01
_T = TypeVar("_T")


class Replica:
    """One replica."""

    def __init__(self, log: ReplicatedLog, name: str, data: Path, threads: Executor) -> None:
        """`data` is the data folder of the project, `threads` runs SQLite."""
        self._log, self._name = log, name
        self.node = log.node
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        """Held while a transaction of this node has a claim: another claim would conflict with it."""
        self._asking: asyncio.Task[int] | None = None
        self.forwarding = Forwarding(log, name)
        path = data / "tables" / DATABASE_NAME
        self._copy = CopyFollower(log, name, path, threads)

    async def aclose(self) -> None:
        """Stop following, and close the file."""
        await self._copy.aclose()

    @property
    def position(self) -> int:
        """Sequence of the last entry in the copy; -1 until it is open."""
        return self._copy.position

    async def reach(self, sequence: int) -> None:
        """Wait until the copy has an entry. Raises `ReplicationError`."""
        await self._copy.until(lambda: self._copy.position >= sequence)

    def repair(self, reason: str) -> None:
        """Build the file of the copy again, which turned out to be damaged."""
        self._copy.repair(reason)

    # -- reading -----------------------------------------------------------------------------------------

    async def open(self, *, fresh: bool) -> None:
        """Wait until the copy exists or, if `fresh`, has all entries. Raises `ReplicationError`."""
        await self._copy.until(lambda: self._copy.opened)
        if fresh:
            await self._fresh()

    async def _fresh(self) -> None:
        last = await self._last()
        self._copy.announce(last)
        await self._copy.until(lambda: self._copy.position >= last)

    async def _last(self) -> int:
        """Return the sequence of the last entry that was stored before this call."""
        if self._asking is not None:
            # A question asked before now may miss an entry that was stored before now.
            await asyncio.wait([self._asking])
        if self._asking is None or self._asking.done():
            self._asking = self._loop.create_task(self._log.last(self._name))
        try:
            return await asyncio.shield(self._asking)
        except SvcError as error:
            raise _unavailable(error) from error

    # -- writes of guests on other nodes -----------------------------------------------------------------

    async def forward(
        self, request: DoorRequest, *, repeatable: bool, after: int | None = None
    ) -> DoorResponse | None:
        """Run a request on the node that writes to the tables, or return None: then run it here.

        Without an answer of that node, a `repeatable` request runs here too. `after` is that of a conflict.
        Raises `ReplicationError`.
        """
        if after is not None:
            await self._until_after(after)
        node = self.forwarding.target(self._copy.last_writer, request.body)
        if not node:
            return None
        try:
            return await self.forwarding.send(node, request)
        except ReplicationError:
            if not repeatable:
                raise
            return None

    def execute_with(self, execute: Execute | None) -> None:
        """Set the function that runs the requests that other nodes forward."""
        self.forwarding.execute = execute

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
        return self._call(self._prepare_write(exclusive)) if exclusive or self._copy.claims else ""

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
            await self._until_unclaimed(end)
            position = self._copy.position
            if await self._append_control("claim", claim):
                return claim
            await self._until_after(position)

    async def _until_after(self, sequence: int) -> None:
        await self._copy.until(lambda: self._copy.position > sequence)

    async def _until_unclaimed(self, end: float) -> None:
        """Wait until no other node has a claim, until a time of the event loop. Raises `ReplicationError`."""
        while self._is_claimed():
            if self._loop.time() > end:
                raise _busy("another node of the fleet")
            changed = self._copy.changed
            with suppress(TimeoutError):
                async with asyncio.timeout(CLAIM_CHECK_SECONDS):
                    await changed.wait()

    def _is_claimed(self) -> bool:
        """Return whether another node has a claim that holds."""
        oldest = time.monotonic() - CLAIM_SECONDS
        return any(
            node != self.node and since > oldest and self._log.present(node)
            for node, since in self._copy.claims.values()
        )

    async def _append_control(self, kind: Literal["claim", "release"], claim: str) -> bool:
        """Append a claim or its end, and wait until it is applied here. Return False after a conflict."""
        log_position = self._copy.log_position
        assert log_position is not None
        content = Entry(kind=kind, previous=log_position.chain, node=self.node, claim=claim).encode()
        try:
            sequence = await self._log.append(self._name, messages_of(content), log_position.sequence)
        except SvcError as error:
            raise _unavailable(error) from error
        if sequence is None:
            return False
        self._copy.announce(sequence)
        await self._copy.until(lambda: self._copy.position >= sequence)
        return True

    def is_behind(self, log_position: LogPosition) -> bool:
        """Return whether the log has entries after a position. Raises `ReplicationError`."""
        return log_position.sequence < self._call(self._last())

    def publish(self, content: bytes, log_position: LogPosition, claim: str) -> int:
        """Append an entry after a position, with a claim or none, and return its sequence.

        Raises `Conflict` and `ReplicationError`.
        """
        messages = messages_of(content)
        if len(messages) > self._log.max_messages:
            raise ReplicationError(
                "too-large",
                f"the changes have {len(content) >> 20} MiB, more than a transaction of a fleet can have",
                "Import or change the rows in several steps.",
            )
        return self._call(self._publish(messages, log_position, claim))

    async def _publish(self, messages: Sequence[bytes], log_position: LogPosition, claim: str) -> int:
        # The thread that applied an entry, perhaps a claim, may not have reported it yet.
        await self._copy.until(lambda: self._copy.position >= log_position.sequence)
        if claim not in self._copy.claims and self._is_claimed():
            raise Conflict
        self._copy.begin_write()
        try:
            sequence = await self._log.append(self._name, messages, log_position.sequence)
        except SvcError as error:
            self._copy.end_write(None)
            raise ReplicationError(
                "unavailable",
                f"the fleet did not confirm the write, which may be stored or not: {error.message}",
                error.hint,
            ) from error
        if sequence is None:
            self._copy.end_write(None)
            self.forwarding.on_conflict()
            raise Conflict(after=log_position.sequence)
        return sequence

    def on_written(self, log_position: LogPosition | None, claim: str) -> None:
        """Note the end of a publication, and of its claim. The position is None if the file lacks it."""
        self._loop.call_soon_threadsafe(self._on_written, log_position, claim)

    def _on_written(self, log_position: LogPosition | None, claim: str) -> None:
        if claim:
            self._turn.release()
        self._copy.end_write(log_position, claim)

    def release(self, claim: str) -> None:
        """End a claim whose transaction changed nothing."""
        self._loop.call_soon_threadsafe(lambda: self._copy.spawn(self._release(claim)))

    async def _release(self, claim: str) -> None:
        try:
            while claim in self._copy.claims:
                with suppress(SvcError):
                    if not await self._append_control("release", claim):
                        await self._fresh()
                await asyncio.sleep(RELEASE_PAUSE_SECONDS)
        finally:
            self._turn.release()

    def wait_for_entry(self, sequence: int) -> None:
        """Wait until the copy has an entry after a sequence, which the log has. Raises `ReplicationError`."""
        self._call(self._until_after(sequence))


def _busy(writer: str) -> ReplicationError:
    return ReplicationError("busy", f"{writer} is changing the tables; nothing was changed", "Retry.")


def _unavailable(error: SvcError) -> ReplicationError:
    return ReplicationError("unavailable", f"the fleet does not answer: {error.message}", error.hint)
