"""The replica of one project's tables on this node: reads of its copy, and appends to the log.

One node writes to the tables, while it holds the lease that the last entry of kind `lease` names. Others send
requests of guests to it, and ask it for the last entry before a fresh read. For a transaction of an owner, a
node becomes the writer. An entry is stored only after the one that its node expects.

Asynchronous methods run on the event loop of the log, the blocking ones on other threads.
"""

import asyncio
import json
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from doors.tables.replication import registry
from doors.tables.replication.copy import LogPosition
from doors.tables.replication.entry import Assembler, Entry, messages_of
from doors.tables.replication.errors import Conflict, ReplicationError, storage_failure
from doors.tables.replication.follower import CopyFollower
from doors.tables.replication.journal import JournalEntry, logged
from doors.tables.sqlite.connections import DATABASE_NAME, Error
from engine.cancellation import cancel
from engine.door import Caller, DoorRequest, DoorResponse, Session
from engine.errors import SvcError
from engine.replication import CALL_SECONDS, ReplicatedLog

WAIT_SECONDS = 5.0
"""How long a transaction of an owner waits for those on another node, as it waits for writers of its file."""
WRITER_SECONDS = 15.0
"""How long a request waits for a writer: longer than the end of a lease and an election of the cluster."""
REPEAT_SECONDS = 6.0
"""After which time without an answer of the writer a question may be repeated: it was lost."""
PAUSE_SECONDS = 0.1
COPIES, MAJORITY = 3, 2
"""A check compares so many copies; those that are equal to each other are sound."""
DIGEST_SECONDS = 600.0
CHECK_SECONDS = 3600.0
CHECK_PAUSE_SECONDS = 1.0
"""Time for more nodes to open their copies before a check, as after a start of all."""
_log = logging.getLogger("svc.tables")
Execute = Callable[[DoorRequest], Awaitable[DoorResponse]]
_T = TypeVar("_T")


class Replica:
    """One replica."""

    refuses = True
    """Whether a transaction that cannot be recorded fails. Otherwise its entry is a gap."""

    def __init__(self, log: ReplicatedLog, name: str, data: Path, threads: Executor) -> None:
        """`data` is the data folder of the project, `threads` runs SQLite."""
        self._log, self._name = log, name
        self.node = log.node
        self._loop = asyncio.get_running_loop()
        self._taking, self._checking = asyncio.Lock(), asyncio.Lock()
        """`_taking` is held while this node appends a lease, and while it learns that it is the writer."""
        self._asking: asyncio.Task[int] | None = None
        self._published = 0
        self._doubtful = False
        """Whether the log may have an entry after that of the copy although this node has the lease."""
        self._owners = 0
        """Transactions of owners, during which no other node becomes the writer."""
        self._without_owners = asyncio.Event()
        self._without_owners.set()
        self._opened: set[str] = set()
        """Nodes that have opened their copy since the last check."""
        self._asked_to_check = asyncio.Event()
        self._differing: tuple[int, str] | None = None
        """Since when the last comparison found no two equal copies, and what helps."""
        self.execute: Execute | None = None
        """Runs the requests of guests on other nodes."""
        path = data / "tables" / DATABASE_NAME
        self.copy = CopyFollower(log, name, path, threads, self)
        self.copy.spawn(self._check_regularly())

    @property
    def written(self) -> int:
        """Sequence of the last entry that this node has stored or applied."""
        return max(self.copy.position, self._published)

    @property
    def trouble(self) -> tuple[int, str] | None:
        return self.copy.trouble or self._differing

    async def reach(self, sequence: int) -> None:
        """Wait until the copy has an entry. Raises `ReplicationError`."""
        self.copy.announce(sequence)
        await self.copy.until(lambda: self.copy.position >= sequence)

    # -- reading -----------------------------------------------------------------------------------------

    async def open(self, *, fresh: bool, written: int = 0) -> bool:
        """Wait until the copy exists. If `fresh`, or if it lacks the entry `written`, wait for all entries.

        The log may lack that entry: a client can name any. While the copy may be damaged, returns False if
        the read is to be fresh, because the writer can answer it; others wait a while for the comparison,
        which needs a majority. Raises `ReplicationError`.
        """
        await self.copy.until(lambda: self.copy.opened)
        if not self.copy.verified:
            if fresh:
                return False
            if (rest := self.copy.opened_at + WRITER_SECONDS - self._loop.time()) > 0:
                with suppress(ReplicationError):
                    await self.copy.until(lambda: self.copy.verified, rest)
                await self.copy.until(lambda: self.copy.opened)
        if (fresh or written > self.copy.position) and not (self.writes and self._is_settled()):
            await self.reach(await self._last())
        return True

    async def _last(self) -> int:
        """Return the sequence of the last entry that was stored before this call, or of a later one."""
        if self._asking is not None:
            # A question asked before now may miss an entry that was stored before now.
            await asyncio.wait([self._asking])
        if self._asking is None or self._asking.done():
            self._asking = self._loop.create_task(self._ask_for_last())
            # All that wait may have been canceled.
            self._asking.add_done_callback(lambda asked: asked.cancelled() or asked.exception())
        return await asyncio.shield(self._asking)

    async def _ask_for_last(self) -> int:
        while True:
            answer = await self._ask_writer({"call": "last"}, repeatable=True)
            sequence = int(answer[0]["sequence"]) if answer is not None else await self._last_as_writer()
            if sequence is not None:
                return sequence

    def _is_settled(self) -> bool:
        return not self.copy.writing and self.copy.position >= self._published

    async def _last_as_writer(self) -> int | None:
        """Return the sequence of the last entry; None if this node is not the writer."""
        before = self.copy.position
        await self.copy.until(lambda: self._is_settled() or self.copy.position > before)
        position = self.copy.position
        return position if self._leads else None

    # -- the writer --------------------------------------------------------------------------------------

    @property
    def writes(self) -> bool:
        """True while this node is the writer, and no other can have become it. Use it on any thread."""
        return self.copy.verified and self._leads

    @property
    def _leads(self) -> bool:
        """True as `writes`, also for a writer whose copy was not compared yet: it does not use it."""
        return self.copy.opened and not self._doubtful and self._log.holds(self.copy.log_position.lease)

    async def _ask_writer(
        self, question: dict[str, Any], body: bytes = b"", *, repeatable: bool
    ) -> tuple[dict[str, Any], bytes] | None:
        """Return the answer of the writer, which this node becomes if there is none; None if it is this node.

        Raises `ReplicationError`: without an answer to a question that is not `repeatable`, for one.
        """
        end, failure = self._loop.time() + WRITER_SECONDS, "no node has the lease"
        await self.copy.until(lambda: self.copy.position >= 0)
        while not self._leads:
            lease, answer = self.copy.log_position.lease, None
            node = lease.partition(".")[0]
            try:
                if node not in ("", self.node):
                    asking = self._log.lease if self.copy.verified else ""
                    content = _encode({**question, "lease": asking}, body)
                    seconds = REPEAT_SECONDS if repeatable else CALL_SECONDS
                    answer = await self._log.send(node, self._name, content, seconds)
            except SvcError as error:
                if not repeatable:
                    raise ReplicationError(
                        "unavailable",
                        f"the node {node} did not answer the write, which may be stored or not:"
                        f" {error.message}",
                        "Repeat it with its idempotency key, or check first.",
                    ) from error
                failure = error.message
            if answer is not None:
                document, rest = _decode(answer)
                if "after" not in document:
                    return document, rest
                if document["after"] > self.copy.position:
                    await self.reach(document["after"])
                    continue
            try:
                doubtful = self._doubtful and lease == self._log.lease
                if not lease or doubtful or await self._log.is_over(lease):
                    await self._take(lease)
                    continue
            except SvcError as error:
                failure = error.message
            if self._loop.time() > end:
                what = "write" if question["call"] in ("write", "lease") else "read"
                message = f"the fleet does not answer the {what}: {failure}"
                raise ReplicationError("unavailable", message, "Retry.")
            await asyncio.sleep(PAUSE_SECONDS)
        return None

    async def _take(self, former: str) -> None:
        """Become the writer after a lease, unless another node was first. Raises `SvcError`."""
        async with self._taking:
            lease = self._log.lease
            if not lease:
                await asyncio.sleep(PAUSE_SECONDS)
                return
            expected = self.copy.log_position.lease == former and (self._doubtful or former != lease)
            if expected and await self._append_lease(lease) is not None:
                self._doubtful = False

    async def _append_lease(self, lease: str, *, check: bool = False) -> int | None:
        """Make the node with a lease the writer, unless the log has entries that the copy lacks.

        Returns once the copy has the entry, or one that it lacked. Raises `SvcError`.
        """
        log_position = self.copy.log_position
        entry = Entry(kind="lease", previous=log_position.chain, node=self.node, lease=lease, check=check)
        sequence = await self._log.append(self._name, messages_of(entry.encode()), log_position.sequence)
        await self.reach(sequence or log_position.sequence + 1)
        return sequence

    async def forward(self, request: DoorRequest, *, repeatable: bool) -> DoorResponse | None:
        """Run a request on the writer, or return None: this node is the writer.

        Without an answer of the writer, a `repeatable` request is sent again. Raises `ReplicationError`.
        """
        caller = [request.caller.resource, request.caller.request_id]
        question: dict[str, Any] = {"call": "write", "path": request.path, "caller": caller}
        question["deployment"] = request.caller.deployment
        question["trusted"] = request.trusted
        while not self.writes:
            answer = await self._ask_writer(question, request.body, repeatable=repeatable)
            document, body = answer or ({}, b"")
            if "status" in document:
                request.session.written = max(request.session.written, document["written"])
                headers = tuple((name, value.encode("latin-1")) for name, value in document["headers"])
                return DoorResponse(document["status"], body, headers)
            await self._receive(document)
        return None

    async def answer(self, content: bytes) -> bytes:
        question, body = _decode(content)
        try:
            if self._doubtful and self.copy.log_position.lease == self._log.lease:
                await self._take(self._log.lease)
            match question["call"]:
                case "last":
                    if (sequence := await self._last_as_writer()) is not None:
                        return _encode({"sequence": sequence})
                case "write" if self.execute is not None and self.writes:
                    resource, request_id = question["caller"]
                    caller = Caller(resource, request_id, deployment=question["deployment"])
                    path, trusted = question["path"], question["trusted"]
                    request = DoorRequest(
                        "POST", path, query="", headers=(), body=body, caller=caller, trusted=trusted
                    )
                    response = await self.execute(request)
                    headers = [(name, value.decode("latin-1")) for name, value in response.headers]
                    head = {"status": response.status, "headers": headers, "written": self.written}
                    return _encode(head, response.body)
                case "digest":
                    return _encode(await self._answer_digest(question["at"]))
                case "compared":
                    equal, decided = question["equal"], question["decided"]
                    self.copy.on_compared(question["at"], equal=equal, decided=decided)
                    return _encode({})
                case "snapshot" if self.copy.verified and self.copy.position > question["after"]:
                    await self.copy.take_snapshot()
                    return _encode({"stored": True})
                case "check" if self._leads:
                    self._opened.add(question["node"])
                    self._asked_to_check.set()
                    return _encode({})
                case "lease" | "write" if question["lease"]:
                    if (sequence := await self._give(question["lease"])) is not None:
                        return _encode({"given": sequence})
        except TimeoutError:
            return _encode({"busy": True})
        except SvcError:
            pass
        return _encode({"after": self.copy.position})

    async def _give(self, lease: str, *, check: bool = False) -> int | None:
        """Make the node with a lease the writer; None if this node is not the writer.

        Raises `TimeoutError` and `SvcError`.
        """
        async with self._taking:
            async with asyncio.timeout(WAIT_SECONDS):
                while self._owners:
                    await self._without_owners.wait()
            if not self._leads:
                return None
            self._doubtful = True
            await self.copy.until(self._is_settled)
            sequence = await self._append_lease(lease, check=check)
            if sequence is not None and lease == self._log.lease:
                self._doubtful = False
            return sequence

    async def _receive(self, document: dict[str, Any]) -> None:
        """Wait until this node has the `given` entry and can write. Raises `ReplicationError`."""
        if "busy" in document:
            message = "another node of the fleet is changing the tables; nothing was changed"
            raise ReplicationError("busy", message, "Retry.")
        if "given" in document:
            await self.reach(document["given"])
            async with self._taking:
                self._doubtful = self._doubtful and self.copy.log_position.lease != self._log.lease
        await self.copy.until(lambda: self.writes or not self._leads)

    # -- comparing the copies ----------------------------------------------------------------------------

    async def check(self) -> bool:
        """Compare this copy and those of two other nodes at an entry; return whether two are equal.

        A copy that differs from the other two is built again, from a snapshot that is taken now. If no two
        are equal, those that are not `verified` are built again. Does nothing if another node writes. Raises
        `SvcError`, SQLite's errors and OSError.
        """
        async with self._checking:
            sequence = await self._give(self._log.lease, check=True)
            if sequence is None:
                return False
            # Nodes that have just opened their copy come first, the others by chance: each has its turn.
            others = sorted(self._log.others(), key=lambda node: (node not in self._opened, random.random()))
            nodes = [self.node, *others[: COPIES - 1]]
            self._opened -= set(nodes)
            compared = await self._digests_of(nodes, sequence)
            digests = {node: digest for node, (digest, _) in compared.items()}
            [(digest, equal)] = Counter(filter(None, digests.values())).most_common(1) or [("", 0)]
            odd = [node for node, each in digests.items() if each != digest]
            decided = equal >= MAJORITY
            self._differing = None
            if odd and not decided:
                _log.error("the copies of the tables of %s differ, and no two are equal", self._name)
                self._differing = time.time_ns(), "the copies of the nodes differ, and no two are equal"
            elif odd and self.node not in odd:
                await self.copy.take_snapshot()
            if odd or decided:
                verdicts = {node: decided and node not in odd for node in digests}
                for node in verdicts.keys() - {self.node}:
                    await self._report(node, sequence, equal=verdicts[node], decided=decided)
                if decided and self.node in odd:
                    await self._give(next(lease for node, (_, lease) in compared.items() if verdicts[node]))
                if self.node in verdicts:
                    self.copy.on_compared(sequence, equal=verdicts[self.node], decided=decided)
            return decided

    async def verify(self) -> None:
        """Request comparisons of this copy until it is known to be equal to others, or built again."""
        while not self.copy.verified:
            with suppress(SvcError, Error, OSError):
                if await self._ask_writer({"call": "check", "node": self.node}, repeatable=True) is None:
                    await self.check()
            await asyncio.sleep(CHECK_PAUSE_SECONDS)

    async def _report(self, node: str, sequence: int, *, equal: bool, decided: bool) -> None:
        """Report the result of a comparison to a node, if it answers."""
        verdict = {"at": sequence, "equal": equal, "decided": decided}
        with suppress(SvcError):
            await self._log.send(node, self._name, _encode({"call": "compared", **verdict}))

    async def offer(self, *, commit: bool) -> list[str]:
        """Return the nodes whose copies differ from this one; `commit`: replace them by this one.

        Raises `SvcError`, SQLite's errors, OSError and `TimeoutError`.
        """
        await self._acquire()
        self._release()
        async with self._checking:
            if (sequence := await self._give(self._log.lease, check=True)) is None:
                raise Conflict
            others = self._log.others()
            # Others do not wait for a slow copy, but this one has been chosen.
            own, compared = await asyncio.gather(
                self._digest_of(self.node, sequence), self._digests_of(others, sequence)
            )
            if own is None or not own[0]:
                raise ReplicationError(
                    "storage", f"the copy of {self.node} is damaged", "Choose another one."
                )
            digests = {node: digest for node, (digest, _) in compared.items()}
            differing = [node for node in others if digests.get(node) != own[0]]
            if commit and differing:
                await self.copy.take_snapshot()
                for node in differing:
                    await self._report(node, sequence, equal=False, decided=True)
            self._differing = self._differing if differing and not commit else None
            return differing

    async def ask_for_snapshot(self) -> None:
        """Ask a node whose copy has more entries to store a snapshot. Raises `ReplicationError`."""
        question = _encode({"call": "snapshot", "after": self.copy.position})
        for node in self._log.others():
            with suppress(SvcError):
                answer = await self._log.send(node, self._name, question)
                if answer is not None and "stored" in _decode(answer)[0]:
                    return
        raise ReplicationError("unavailable", f"no node has the entries after {self.copy.position}", "Retry.")

    async def _digests_of(self, nodes: Sequence[str], sequence: int) -> dict[str, tuple[str, str]]:
        """Return the digests and the leases of nodes at the entry of a check.

        A node is left out if it needs twice as long as two nodes whose copies are equal.
        """
        began = self._loop.time()
        tasks = {asyncio.ensure_future(self._digest_of(node, sequence)): node for node in nodes}
        waiting, end = set(tasks), began + DIGEST_SECONDS
        found = dict[str, tuple[str, str]]()
        while waiting and (left := end - self._loop.time()) > 0:
            done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            found |= {tasks[task]: answer for task in done if (answer := task.result()) is not None}
            if len({digest for digest, _ in found.values() if digest}) < len(found):
                end = min(end, 2 * self._loop.time() - began + CHECK_PAUSE_SECONDS)
        await cancel(waiting)
        return found

    async def _digest_of(self, node: str, sequence: int) -> tuple[str, str] | None:
        """Return the digest of a node's copy at the entry of a check, and its lease; None if it has none."""
        question = _encode({"call": "digest", "at": sequence})
        while True:
            with suppress(SvcError):  # It needs longer than a call.
                answer = await (
                    self.answer(question) if node == self.node else self._log.send(node, self._name, question)
                )
                document = _decode(answer)[0] if answer is not None else {}
                return (document["digest"], document["lease"]) if "digest" in document else None
            await asyncio.sleep(PAUSE_SECONDS)

    async def _answer_digest(self, sequence: int) -> dict[str, Any]:
        await self.reach(sequence)
        await self.copy.until(
            lambda: self.copy.digest[0] != sequence or self.copy.digest[1] is not None, DIGEST_SECONDS
        )
        at, digest = self.copy.digest
        return {"digest": digest, "lease": self._log.lease} if at == sequence else {}

    async def _check_regularly(self) -> None:
        """As the writer, compare the copies each hour, and when nodes have opened theirs."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._asked_to_check.wait()
            self._asked_to_check.clear()
            await asyncio.sleep(CHECK_PAUSE_SECONDS)
            try:
                await self.check()
            except (SvcError, Error, OSError, TimeoutError) as error:
                _log.warning("the copies of the tables of %s were not compared: %s", self._name, error)

    # -- writing, on other threads -----------------------------------------------------------------------

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def refresh(self, stale: Session | None = None) -> None:
        """Wait until the copy has all entries of the log. Raises `ReplicationError`.

        For a stale read, wait as `open` does.
        """
        self._call(self._refresh() if stale is None else self.open(fresh=False, written=stale.written))

    async def _refresh(self) -> None:
        await self.copy.until(lambda: self.copy.verified)
        await self.open(fresh=True)

    def entries(self) -> list[JournalEntry]:
        """Return the entries that the log has. Raises `SvcError`."""
        entries, assembler = list[JournalEntry](), Assembler()
        assembler.restart(self._call(self._log.snapshots(self._name)).trimmed)
        while messages := self._call(self._log.read(self._name, assembler.after)):
            entries += logged(messages, assembler)
        return entries

    def acquire(self) -> None:
        """Become the writer until `release`. Raises `ReplicationError`."""
        self._call(self._acquire())

    async def _acquire(self) -> None:
        while not self.writes:
            answer = await self._ask_writer({"call": "lease"}, repeatable=True)
            await self._receive(answer[0] if answer is not None else {})
        self._owners += 1
        self._without_owners.clear()

    async def write_here(self) -> None:
        """Become the writer after another node. Raises `ReplicationError`."""
        if self.copy.verified and self.copy.log_position.lease and not self._leads:
            await self._acquire()
            self._release()

    def release(self) -> None:
        """Allow other nodes to become the writer."""
        self._loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        self._owners -= 1
        if not self._owners:
            self._without_owners.set()

    def publish(self, content: bytes, log_position: LogPosition) -> LogPosition:
        """Append an entry after a position, and return that of the entry.

        Raises `Conflict` and `ReplicationError`.
        """
        messages = messages_of(content)
        if len(messages) > self._log.max_messages:
            raise ReplicationError(
                "too-large",
                f"the changes have {len(content) >> 20} MiB, more than a transaction of a fleet can have",
                "Import or change the rows in several steps.",
            )
        return log_position.after(self._call(self._publish(messages, log_position)), content)

    async def _publish(self, messages: Sequence[bytes], log_position: LogPosition) -> int:
        # A transaction that was permitted may have waited for the file while another node became the writer.
        if log_position.lease != self._log.lease:
            raise Conflict
        # The thread that applied an entry may not have reported it yet.
        await self.copy.until(lambda: self.copy.position >= log_position.sequence)
        self.copy.begin_write()
        try:
            sequence = await self._log.append(self._name, messages, log_position.sequence)
        except BaseException as error:
            self._doubtful = True
            self.copy.end_write(None)
            if not isinstance(error, SvcError):
                raise
            raise ReplicationError(
                "unavailable",
                f"the fleet did not confirm the write, which may be stored or not: {error.message}",
                error.hint,
            ) from error
        if sequence is None:
            self.copy.end_write(None)
            raise Conflict
        self._published = sequence
        return sequence

    def on_written(self, log_position: LogPosition | None) -> None:
        """Note the end of a publication. The position is None if the file lacks it."""
        self._loop.call_soon_threadsafe(self.copy.end_write, log_position)

    def close(self) -> None:
        """Do nothing: other connections use the replica."""


def _encode(document: dict[str, Any], body: bytes = b"") -> bytes:
    return json.dumps(document).encode() + b"\n" + body


def _decode(content: bytes) -> tuple[dict[str, Any], bytes]:
    line, _, body = content.partition(b"\n")
    return json.loads(line), body


THREADS = 8
RETRY_SECONDS = 1.0
BESIDE_SECONDS = 30.0
"""How often a node asks whether the leader of the logs is beside it, so that it should be the writer."""


class Replicas:
    """Use on one event loop, `of` on any thread."""

    def __init__(self, log: ReplicatedLog, projects: Path) -> None:
        """`projects` has the data folder of each project."""
        self._log, self._projects = log, projects
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tables-apply")
        self.opened: dict[str, Replica] = {}
        """The replicas that were used since the start, by project."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Replicate the tables of this process from now on."""
        registry.active[self._projects] = self
        self._tasks = [
            self._loop.create_task(each) for each in (self._take_part(), self._write_beside_leader())
        ]

    async def _take_part(self) -> None:
        while True:
            with suppress(SvcError):
                async with self._log.take_part(self._answer):
                    await asyncio.Event().wait()
            await asyncio.sleep(RETRY_SECONDS)

    async def _answer(self, name: str, content: bytes) -> bytes:
        return await self.of(self._projects / name).answer(content)

    async def _write_beside_leader(self) -> None:
        """While the leader of the logs is beside this node, be the writer of the tables that it has open."""
        while True:
            await asyncio.sleep(BESIDE_SECONDS)
            with suppress(SvcError):
                if await self._log.leader() == self._log.node:
                    for replica in list(self.opened.values()):
                        await replica.write_here()

    async def offer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Compare the copy of a `project` with those of others; `commit`: they take it. Raises `SvcError`."""
        replica = self.of(self._projects / question["project"])
        try:
            return {"differing": await replica.offer(commit=question["commit"])}
        except TimeoutError:
            raise ReplicationError("busy", "an owner is changing the tables") from None
        except (Error, OSError) as error:
            raise ReplicationError("storage", storage_failure(error)) from error

    def of(self, data: Path) -> Replica:
        """Return the replica of a project's data folder."""
        replica = self.opened.get(data.name)
        if replica is None and asyncio._get_running_loop() is self._loop:
            replica = self.opened[data.name] = Replica(self._log, data.name, data, self._threads)
        if replica is not None:
            return replica

        async def create() -> Replica:
            return self.of(data)

        return asyncio.run_coroutine_threadsafe(create(), self._loop).result()

    async def remove(self, name: str) -> None:
        if (replica := self.opened.pop(name, None)) is not None:
            await replica.copy.aclose()

    async def aclose(self) -> None:
        """Stop following the logs. Writing connections must be closed."""
        registry.active.pop(self._projects, None)
        await cancel(self._tasks)
        for replica in self.opened.values():
            await replica.copy.aclose()
        self._threads.shutdown()
