"""Backup of a service that runs: each second, what has changed goes to the store. Writes never wait for it.

Tables go as snapshots of their files and the entries of their journals after them. A snapshot is stored after
a gap in a journal, after 512 MiB of entries, and each day. Values are stored after the blobs that they name.
Each is stored beside the others: what takes longer than a second delays none of them.
"""

import asyncio
import json
import math
import secrets
import threading
import time
from base64 import b64encode
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from quart import Blueprint

from doors.tables.migrations import applied
from doors.tables.replication.copy import LogPosition, read_log_position, still_file, write_stepwise
from doors.tables.replication.entry import Assembler
from doors.tables.replication.errors import storage_failure
from doors.tables.replication.journal import DAYS, FOLDER, Part, begin_again, logged, read_parts
from doors.tables.replication.registry import find_replica
from doors.tables.sqlite.connections import (
    DATABASE_NAME,
    Error,
    close_owner,
    is_replica,
    open_owner,
    open_replica,
)
from engine.bucket.protocols import BlobMissing, Bucket, KeyValue
from engine.cancellation import cancel, finish
from engine.confinement import yield_to_loop
from engine.control.app import Routes
from engine.control.projects import Projects
from engine.control.schemas import StrictModel
from engine.deploy.gc import needed_blobs
from engine.errors import SvcError
from engine.files.atomic import write_atomic
from engine.files.database_files import database_stamps
from engine.files.temporary import remove_abandoned, temporary_folder
from engine.fleet.tables_log import TablesLog
from engine.service.removals import removal_times
from engine.service.secrets import KEY_FILE
from svc_tui.backup.restore import (
    NOW_NS,
    VERIFY_SECONDS,
    replace_tables,
    restore_tables,
    text,
    verify_tables,
)
from svc_tui.backup.store import (
    ID_FILE,
    SERVICE,
    TABLES,
    VALUES,
    VERIFIED,
    BackupDamaged,
    BackupError,
    BackupStore,
    BackupTaken,
    Entries,
    Snapshot,
    StoredBucket,
    blob_name,
    parse_marks,
    parse_tables,
    values_name,
    values_times,
)
from svc_tui.terminal.units import parse_moment

SECONDS = 1.0
"""Interval of the backup."""
MAX_RETRY_SECONDS = 60.0
ALERT_SECONDS = 300.0
CHECK_SECONDS = 60.0
"""How often the store is asked whether it is still that of this service. It is silent after twice as long."""
BEGIN_SECONDS = 15.0
"""How long the start of the service waits for the store."""
END_SECONDS = 10.0
"""How long the end of the service waits for what is not stored yet."""
SNAPSHOT_BYTES = 512 << 20
SNAPSHOT_SECONDS = 24 * 3600.0
"""Bytes of entries, and time, after which a snapshot is due."""
GAP_SECONDS = 60.0
"""Minimum time between two snapshots because of gaps."""
MAX_PARTS, MAX_LOG_PARTS = 600, 6000
"""Objects with entries that are then joined to one; of a fleet, a snapshot replaces them."""
_CLAIM = "backup"
"""Record of a fleet with the lease of the node that stores the backup."""
THREADS, SNAPSHOT_THREADS = 4, 2
_DAY_NS = 24 * 3600 * 10**9
VERIFY_NS = _DAY_NS
"""How often the tables of each project are verified."""
_VERIFY_AGAIN_NS = 3600 * 10**9
"""When a verification without success is repeated."""
BLOBS_SECONDS = 10.0
"""Time between two looks for new blobs of files while no value changes."""
PRUNE_SECONDS = 3600.0
"""How often objects that nothing needs are removed."""
_T = TypeVar("_T")


@dataclass(slots=True, kw_only=True)
class StoredTables:
    """The part of a project's tables that the store has."""

    journal: str = ""
    sequence: int = 0
    end: int = 0
    """Where the entry of `sequence` ends in its segment, 0 if unknown."""
    bytes: int = 0
    parts: list[Entries] = field(default_factory=list)
    snapshot_ns: int = 0
    snapshot_end: float = -math.inf
    """When one was stored by this process (monotonic)."""
    gap: int = 0
    """Sequence of an entry with or after a gap that no snapshot follows, 0 for none."""
    seen: object = None
    """State of the files at which all was shipped."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def snapshot_due(self) -> bool:
        """Return whether a snapshot is due, because of the entries or of the time after the last one."""
        if self.gap and time.monotonic() > self.snapshot_end + GAP_SECONDS:
            return True
        is_old = time.time_ns() - self.snapshot_ns > SNAPSHOT_SECONDS * 1e9
        return self.bytes > SNAPSHOT_BYTES or (is_old and not self.gap)


@dataclass(frozen=True, slots=True)
class _Failure:
    error: Exception
    count: int
    retry: float
    """When to repeat what failed (monotonic)."""


@dataclass(frozen=True, slots=True)
class LiveRestore:
    """Restored tables of a live project: the time of their last change, and transactions after a snapshot.

    `before` is the time that restores the tables before. `migrations` are not applied any more.
    """

    time: str
    transactions: int
    before: str
    migrations: list[str]


@dataclass(frozen=True, slots=True)
class CanceledRestore:
    """Whether a restore was under way. It fails, unless the tables were being replaced already."""

    canceled: bool


class Backup:
    """Backs up a service with a folder as its bucket. Create it on the event loop."""

    def __init__(
        self,
        store: BackupStore,
        data: Path,
        bucket: Bucket,
        log: Callable[[str, str], None],
        *,
        days: int = DAYS,
        fleet: tuple[str, KeyValue] | None = None,
    ) -> None:
        """`log` takes a level and a line for the service's log. `days` can be restored to any moment.

        `fleet` has the id and the records of the fleet of which the service is a node.
        """
        self._store, self._data, self._bucket, self._log = store, data, bucket, log
        self._fleet, self._days_ns = fleet, days * _DAY_NS
        self.log: TablesLog | None = None
        """The log of a fleet, once the node takes part in it."""
        self._projects = data / "projects"
        self._shipped = defaultdict[str, StoredTables](StoredTables)
        self._blobs: set[str] = set()
        self._values: list[tuple[str, int]] | None = None
        self._values_ns = self._read_ns = 0
        self._stored_values: dict[str, tuple[int, bytes]] = {}
        """Those of stored objects up to `_read_ns`, with the times of their last ones."""
        self._pruned = self._blobs_pruned = self._blobs_due = -math.inf
        self._has_begun = False
        self._own, self._checked = "", 0.0
        self._begun_at: object = None
        """The place of the store when it was read."""
        self.alert: Callable[[str, str], None] = lambda project, text: None
        """Gets a project, empty for all after `ALERT_SECONDS`, and the problem of its backup, if any."""
        self._verified: dict[str, int] = {}
        """When tables of projects were last verified, or first stored (Unix time in ns)."""
        self._problem, self._stored = "", time.monotonic()
        self._beside: dict[tuple[str, str], asyncio.Task[None]] = {}
        """Work under way, by its kind and project."""
        self._failed: dict[tuple[str, str], _Failure] = {}
        self._removed: dict[str, int] = {}
        """When projects were removed, as of the last reading."""
        self.restoring: dict[str, BackupStore] = {}
        """Projects whose tables are being restored, and the store that each restore reads."""
        self._threads = ThreadPoolExecutor(THREADS, "svc-backup")
        self._slow_threads = ThreadPoolExecutor(SNAPSHOT_THREADS, "svc-backup-slow", yield_to_loop)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Back up within the context; store what is left at its end. Raises `BackupError`."""
        for folder in self._projects.glob("*/tables"):
            remove_abandoned("svc-", folder)  # A killed service leaves copies of tables.
        if self._fleet is None:
            await self._begin_soon()
        running = asyncio.create_task(self._run())
        try:
            yield
        finally:
            await cancel([running])
            with suppress(SvcError, Error, OSError, TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await self._ship(END_SECONDS, ends=True)
            self._store.ended = "the service ends"
            await cancel(self._beside.values())
            for threads in (self._threads, self._slow_threads):
                threads.shutdown(wait=False, cancel_futures=True)

    async def _begin_soon(self) -> None:
        """Begin within a limit of time. Raises `BackupTaken`."""
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                await self._read_removed(self._begin)
                self._log("info", f"the backup is stored at {self._store.url}")
        except TimeoutError:
            self._log("warning", f"the store at {self._store.url} does not answer; the service starts")
        except (SvcError, OSError) as error:
            if isinstance(error, BackupTaken):
                raise
            self._log("error", f"the backup waits: {_problem(error)}")

    async def _read_removed(self, work: Callable[..., None], *arguments: Any) -> None:
        """Run a function on a thread that uses `_removed`."""
        self._removed = removal_times({each.key: each.value for each in await self._bucket.kv.list("")})
        await self._in(self._threads, work, *arguments)

    def remove(self, project: str) -> None:
        """Begin the backup of a project's tables again if it is deployed again."""
        if (shipped := self._shipped.get(project)) is not None:
            shipped.journal, shipped.seen = "", None  # A snapshot follows.

    def _begin(self) -> None:
        """Check that the store has no other service's backup, and read what it has. Raises `BackupError`."""
        path, url, place = self._data / ID_FILE, self._store.url, self._place()
        try:
            known = json.loads(path.read_text()) if path.exists() else {"service": secrets.token_hex(8)}
            own, is_known = known["service"], known.get("url") == url
            own = self._fleet[0] if self._fleet is not None else own
        except (ValueError, KeyError, TypeError) as error:
            raise BackupTaken(
                f"{path} is damaged",
                "Remove it, and the object 'service' of the backup if it is of this service.",
            ) from error
        folder = self._store.folder
        if folder and is_known and place != self._begun_at and not (folder / SERVICE).exists():
            raise BackupError(
                f"{folder} does not have the backup of this service any more",
                f"Mount its disk. To begin another backup there, remove {path}.",
            )
        if not self._store.put(SERVICE, own.encode(), "create") and self._read(SERVICE) != own.encode():
            raise BackupTaken(
                f"{url} has the backup of another service, or of another {KEY_FILE}",
                "Use another URL, or the key of that backup. If it is an earlier one of this service and key,"
                f" stop that service, and remove its object {SERVICE!r}.",
            )
        write_atomic(path, json.dumps({"service": own, "url": url}).encode(), sync=True)
        self._own, self._checked, self._begun_at = own, time.monotonic(), self._place()
        self._store.remove_partial()
        self._blobs = set(self._store.blobs())
        self._shipped, self._values = defaultdict(StoredTables), None
        self._values_ns = max(values_times(each.name for each in self._store.list(VALUES)), default=0)
        snapshots, entries = parse_tables(each.name for each in self._store.list(TABLES))
        snapshots = [each for each in snapshots if each.time_ns > self._removed.get(each.project, 0)]
        newest_first = sorted(snapshots, key=lambda each: -each.time_ns)
        self._verified = {each.project: each.time_ns for each in newest_first}
        self._verified |= parse_marks(VERIFIED, (each.name for each in self._store.list(VERIFIED)))
        for snapshot in reversed(newest_first):
            self._shipped[snapshot.project] = StoredTables(
                journal=snapshot.journal, sequence=snapshot.sequence, snapshot_ns=snapshot.time_ns
            )
        for each in entries:
            shipped = self._shipped.get(each.project)
            if (
                shipped is not None
                and each.journal == shipped.journal
                and each.first <= shipped.sequence + 1 <= each.last
            ):
                shipped.sequence = each.last
                shipped.parts.append(each)
                shipped.gap = each.last if each.gaps else shipped.gap
        self._has_begun = True

    def _place(self) -> object:
        """Return what identifies the folder of the backup, None without one. A missing disk has another."""
        try:
            found = self._store.folder and self._store.folder.stat()
        except OSError:
            return None
        return (found.st_dev, found.st_ino) if found else None

    def _read(self, name: str) -> bytes:
        """Return the content of an object, empty if the store has none of this key."""
        try:
            return self._store.get(name)
        except BackupDamaged:
            return b""

    async def _run(self) -> None:
        while True:
            end = time.monotonic() + SECONDS
            try:
                await self._ship()
            except Exception as error:
                problem = _problem(error)
                if problem != self._problem:
                    self._log("error", f"the backup waits: {problem}")
                self._problem = problem
            else:
                if self._problem:
                    self._log("info", "the backup is complete again")
                self._problem, self._stored = "", self._store.answered if self._beside else time.monotonic()
            waits = time.monotonic() - self._stored > ALERT_SECONDS
            self.alert("", f"the backup waits: {self._problem}" if waits else "")
            await asyncio.sleep(max(0.0, end - time.monotonic()))

    async def _ship(self, seconds: float = SECONDS, *, ends: bool = False) -> None:
        """Store what has changed, only that if the service `ends`. Longer work continues beside.

        What fails is repeated by later calls, after a while. Raises the first failure of those.
        """
        end = time.monotonic() + seconds
        if self._fleet is not None and not await self._leads(self._fleet[1]):
            self._has_begun = False
            return
        self._has_begun = self._has_begun and await self._in(self._threads, self._place) == self._begun_at
        if not self._has_begun:
            if not (self._beside or self.restoring):
                self._start("begin", "", self._read_removed(self._begin))
            await self._wait(end)
        if self._has_begun:
            projects, changed = await self._in(self._threads, self._changed)
            for path in changed:
                self._start("tables", path.parent.parent.name, self._ship_tables(path))
            self._start("values", "", self._ship_values())
            if time.monotonic() > self._checked + CHECK_SECONDS:
                self._start("check", "", self._check())
            if not ends:
                self._start_verification(projects)
                if time.monotonic() > self._pruned + PRUNE_SECONDS:
                    self._start("prune", "", self._read_removed(self._prune, time.time_ns() - self._days_ns))
            self._failed = {key: each for key, each in self._failed.items() if key[1] in projects}
            await self._wait(end)
        if self._failed:
            raise self._failed[min(self._failed)].error
        if self._beside and time.monotonic() > self._store.answered + 2 * CHECK_SECONDS:
            raise BackupError(f"the store at {self._store.url} does not answer")

    async def _leads(self, records: KeyValue) -> bool:
        """Return whether this node stores the backup of its fleet. It does once another's lease is over."""
        if self.log is None or not (own := self.log.lease):
            return False
        value = await records.get(_CLAIM)
        holder, revision = (value.value.decode(), value.revision) if value is not None else ("", None)
        if holder == own:
            for project in await self.log.names():
                find_replica(self._projects / project / "tables" / DATABASE_NAME)  # It follows the log.
            return self.log.holds(own)
        if holder and not await self.log.is_over(holder):
            return False
        claimed = isinstance(await records.cas(_CLAIM, own.encode(), revision), int)
        if claimed:
            self._log("info", "this node stores the backup of the fleet")
        return claimed

    def _start_verification(self, projects: set[str]) -> None:
        """Begin to verify the tables of a project, if it is due and no other is verified now."""
        due_ns = time.time_ns() - VERIFY_NS
        due = [each for each, time_ns in self._verified.items() if each in projects and time_ns < due_ns]
        due = [each for each in due if not self._shipped[each].gap]
        if due and not any(kind == "verification" for kind, _ in self._beside):
            project = min(due, key=lambda each: self._verified[each])
            self._start("verification", project, self._verify(project))

    async def _verify(self, project: str) -> None:
        path = self._projects / project / "tables" / DATABASE_NAME
        now, problem = time.time_ns(), ""
        self._verified[project] = now - VERIFY_NS + _VERIFY_AGAIN_NS
        try:
            if await self._in(self._slow_threads, verify_tables, self._store, path, VERIFY_SECONDS):
                return
            await self._in(self._threads, self._store.mark, VERIFIED, project, now)
            self._verified[project] = now
        except BackupDamaged as error:
            problem = error.message
            self._log("error", problem)
            self._shipped[project].journal, self._shipped[project].seen = "", None  # A snapshot follows.
        self.alert(project, problem)

    async def _check(self) -> None:
        self._checked = time.monotonic()
        self._has_begun = await self._in(self._threads, self._read, SERVICE) == self._own.encode()

    def _start(self, kind: str, project: str, work: Coroutine[Any, Any, None]) -> None:
        """Begin work unless it is under way, or failed a short while ago."""
        key = kind, project
        failure = self._failed.get(key)
        if key in self._beside or (failure is not None and time.monotonic() < failure.retry):
            work.close()
        else:
            self._beside[key] = asyncio.create_task(work)
            # Work that ends a moment after `_wait` begins again in the next interval.
            self._beside[key].add_done_callback(partial(self._ended, key))

    def _ended(self, key: tuple[str, str], task: "asyncio.Task[None]") -> None:
        del self._beside[key]
        failure = self._failed.pop(key, None)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            count = failure.count + 1 if failure is not None else 0
            retry = time.monotonic() + min(SECONDS * 2**count, MAX_RETRY_SECONDS)
            self._failed[key] = _Failure(error, count, retry)

    async def _wait(self, end: float) -> None:
        """Wait until all work has ended, or until a time (monotonic)."""
        while self._beside and (seconds := end - time.monotonic()) > 0:
            await asyncio.wait(self._beside.values(), timeout=seconds)

    async def _in(self, threads: Executor, work: Callable[..., _T], *arguments: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(threads, work, *arguments)

    def _changed(self) -> tuple[set[str], list[Path]]:
        """Return the projects, empty for the service itself, and the databases that have changed."""
        paths = sorted(self._projects.glob(f"*/tables/{DATABASE_NAME}"))
        projects = {path.parent.parent.name for path in paths}
        return {"", *projects}, [
            each for each in paths if database_stamps(each) != self._shipped[each.parent.parent.name].seen
        ]

    async def _ship_values(self) -> None:
        if self._blobs_pruned < self._pruned:
            await self._prune_blobs()
        values = await self._bucket.kv.list("")
        revisions = [(each.key, each.revision) for each in values]
        if revisions == self._values and time.monotonic() < self._blobs_due:
            return
        self._blobs_due = time.monotonic() + BLOBS_SECONDS
        with temporary_folder("svc-backup-", self._data) as folder:
            async for info in self._bucket.blobs.list():
                if info.digest not in self._blobs:
                    try:
                        await self._bucket.blobs.copy_to(info.digest, folder / info.digest)
                    except BlobMissing:
                        continue
                    name = blob_name(info.digest, info.size)
                    await self._in(self._threads, self._store.put_file, name, folder / info.digest)
                    (folder / info.digest).unlink()
                    self._blobs.add(info.digest)
        if revisions == self._values:
            return
        document = json.dumps({each.key: b64encode(each.value).decode() for each in values}).encode()
        self._values_ns = max(time.time_ns(), self._values_ns + 1)  # The clock may have been put back.
        await self._in(self._threads, self._store.put, values_name(self._values_ns), document)
        self._values = revisions

    async def _ship_tables(self, path: Path) -> None:
        project = path.parent.parent.name
        while True:
            begin = time.monotonic()
            log = self.log
            ship = self._ship_log(log, path) if log else self._in(self._threads, self._ship_journal, path)
            if await ship:
                self._start("snapshot", project, self._in(self._slow_threads, self._ship_snapshot, path))
            elif not log and len(parts := list(self._shipped[project].parts)) >= MAX_PARTS:
                self._start("join", project, self._in(self._slow_threads, self._join, path, parts))
            if time.monotonic() < begin + SECONDS:
                return
            # Changes since then have waited for a second already.

    async def _ship_log(self, log: TablesLog, path: Path) -> bool:
        """Store the entries of the log of a fleet; return whether a snapshot is due."""
        project, seen, assembler = path.parent.parent.name, database_stamps(path), Assembler()
        shipped = self._shipped[project]
        if shipped.journal != log.id or (await log.snapshots(project)).trimmed > shipped.sequence:
            return True
        assembler.restart(shipped.sequence)
        while messages := await log.read(project, assembler.after):
            if entries := [*logged(messages, assembler)]:
                first, last, time_ns = shipped.sequence + 1, entries[-1].sequence, entries[0].time_ns
                part = Entries(project, log.id, first, last, time_ns, 0)
                frames = b"".join(each.frame() for each in entries)
                await self._in(self._threads, self._store.put, part.name, frames)
                with shipped.lock:
                    shipped.parts.append(part)
                    shipped.sequence, shipped.bytes = part.last, shipped.bytes + len(frames)
        if shipped.snapshot_due or len(shipped.parts) > MAX_LOG_PARTS:
            return True
        shipped.seen = seen
        return False

    def _ship_journal(self, path: Path) -> bool:
        """Store the entries of a journal; return whether a snapshot is due."""
        project = path.parent.parent.name
        shipped, seen, journal = self._shipped[project], database_stamps(path), path.parent / FOLDER
        with shipped.lock:
            shipped.seen = None
            position = _position(path)
            if position.log == shipped.journal and position.sequence < shipped.sequence:
                begin_again(path)  # The file was replaced by an older copy.
                return True
            if position.log == shipped.journal:
                self._ship_entries(project, shipped, journal / position.log, position.sequence)
            if position.log != shipped.journal or shipped.snapshot_due:
                return True
            shipped.seen = None if shipped.gap else seen
            return False

    def _ship_entries(self, project: str, shipped: StoredTables, journal: Path, last: int) -> None:
        """Store the entries up to one that is committed. A gap in them demands a snapshot."""
        for part in () if shipped.end else shipped.parts[-1:]:
            own = b"".join(each.frames for each in read_parts(journal, part.first - 1, part.last))
            if self._read(part.name) != own:  # The data is that of an earlier time: a snapshot follows.
                shipped.journal = ""
                return
        for read in read_parts(journal, shipped.sequence, last, shipped.end):
            part = self._put_part(project, journal.name, read)
            shipped.parts.append(part)
            shipped.sequence, shipped.end = part.last, read.end
            shipped.bytes += len(read.frames)
            shipped.gap = part.last if part.gaps else shipped.gap
        if shipped.sequence < last:
            shipped.journal = ""  # The journal lacks transactions: a snapshot has them.

    def _put_part(self, project: str, journal: str, read: Part) -> Entries:
        part = Entries(project, journal, read.first, read.last, read.time_ns, read.gaps)
        self._store.put(part.name, read.frames)
        return part

    def _ship_snapshot(self, path: Path) -> None:
        """Store a snapshot, while entries are stored on other threads."""
        project = path.parent.parent.name
        shipped = self._shipped[project]
        with temporary_folder("svc-backup-", path.parent) as folder:
            with still_file(path) as (position, schema, pieces):
                snapshot_ns, before = max(time.time_ns(), shipped.snapshot_ns + 1), shipped.bytes
                name = Snapshot(project, position.log, position.sequence, snapshot_ns, schema).name
                write_stepwise(folder / path.name, self._store.sealed(name, pieces))
            self._store.put_file(name, folder / path.name, is_sealed=True)
        with shipped.lock:
            shipped.snapshot_ns, shipped.snapshot_end = snapshot_ns, time.monotonic()
            self._verified.setdefault(project, snapshot_ns)
            if shipped.journal == position.log and shipped.sequence >= position.sequence:
                shipped.parts = [each for each in shipped.parts if each.last > position.sequence]
                shipped.bytes -= before
            else:
                shipped.journal, shipped.sequence, shipped.end = position.log, position.sequence, 0
                shipped.parts, shipped.bytes, shipped.gap = [], 0, 0
            if shipped.gap <= position.sequence:
                shipped.gap = 0

    def _join(self, path: Path, joined: list[Entries]) -> None:
        """Replace many objects with entries by few, while later entries are stored on other threads."""
        shipped = self._shipped[path.parent.parent.name]
        journal, last = path.parent / FOLDER / joined[0].journal, joined[-1].last
        parts = [
            self._put_part(joined[0].project, journal.name, each)
            for each in read_parts(journal, joined[0].first - 1, last)
        ]
        with shipped.lock:
            shipped.parts = [each for each in shipped.parts if each not in joined]
        if parts and parts[-1].last == last:
            self._store.delete({each.name for each in joined} - {each.name for each in parts})

    async def restore(self, project: str, time_ns: int, deployment: str) -> LiveRestore:
        """Replace the tables of a project by those of a time, or of the moment before a deployment.

        What they were before is stored first. After a failure they are as they were, also if the caller is
        canceled before they are replaced. Raises `SvcError`.
        """
        if self._fleet is not None:
            raise BackupError(
                "the tables of a fleet cannot be replaced",
                "Restore them to a new folder, and import what you need: svc tables import",
            )
        if project in self.restoring or not self._has_begun:
            reason = f"the tables of {project} are being restored" if self._has_begun else "the backup waits"
            hint = "Try again later." if self._has_begun else "The log of the service says why."
            raise SvcError(reason, hint, code="unavailable")
        store = self.restoring[project] = copy(self._store)
        try:
            work = self._in(self._slow_threads, self._restore_live, store, project, time_ns, deployment)
            return await finish(asyncio.ensure_future(work), store.give_up)
        except (Error, OSError) as error:
            raise BackupError(
                f"the tables of {project} were not changed: {storage_failure(error)}",
                "Check the disk of the service. Put a corrupt file aside before you restore its tables.",
            ) from error
        finally:
            del self.restoring[project]

    def _restore_live(self, store: BackupStore, project: str, time_ns: int, deployment: str) -> LiveRestore:
        path = self._projects / project / "tables" / DATABASE_NAME
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with temporary_folder("svc-restore-", path.parent) as folder:
            tables, source = restore_tables(store, folder, project, time_ns, deployment)
            _position(path)
            with closing(open_replica(source)) as new, closing(open_replica(path)) as old:
                migrations = sorted(applied(old).keys() - applied(new).keys())
            before_ns = replace_tables(path, source, partial(self._store_before, path, store))
        moment, before = text(tables.last_ns), text(before_ns, exact=True)
        way_back = f"svc restore --service --project {project} --at {before}"
        self._log("info", f"replaced the tables of {project} by those of {moment}; to go back: {way_back}")
        return LiveRestore(moment, tables.transactions, before, migrations)

    def _store_before(self, path: Path, store: BackupStore) -> int:
        """Store what the backup lacks of tables that do not change; return a time that restores them."""
        self._ship_journal(path)
        shipped, now = self._shipped[path.parent.parent.name], time.time_ns()
        newest = max([shipped.snapshot_ns, *(each.time_ns for each in shipped.parts)])
        if shipped.gap or newest > now or _position(path)[:2] != (shipped.journal, shipped.sequence):
            self._ship_snapshot(path)
            now = shipped.snapshot_ns
        shipped.snapshot_ns = max(shipped.snapshot_ns, -(-now // 1000) * 1000)  # Later ones have later times.
        store.check_ended()
        return now

    async def _prune_blobs(self) -> None:
        """Remove artifacts that neither the service has nor a stored deployment needs."""
        self._blobs_pruned = self._pruned
        stored = await self._in(self._threads, self._store.blobs)
        if not self._blobs <= stored.keys():
            self._blobs, self._values = set(stored), None
        unused = stored.keys() - {info.digest async for info in self._bucket.blobs.list()}
        if unused:
            own = {each.key for each in await self._bucket.kv.list("")}
            try:
                others = await self._in(self._threads, self._other_values, own)
                source: Any = StoredBucket(self._store, others, stored)
                unused -= await needed_blobs(source)
            except SvcError as error:
                self._log("warning", f"artifacts stay in the backup: {error.message}")
                return
            await self._in(
                self._threads, self._store.delete, [blob_name(each, stored[each]) for each in unused]
            )

    def _other_values(self, own: set[str]) -> dict[str, bytes]:
        """Return the stored values of all times but those that the service still has."""
        times = values_times(each.name for each in self._store.list(VALUES))
        for time_ns in times:
            if time_ns > self._read_ns:
                values = self._store.values(values_name(time_ns))
                self._stored_values |= {key: (time_ns, value) for key, value in values.items()}
                self._read_ns = time_ns
        found, oldest = self._stored_values.items(), min(times, default=0)
        return {key: value for key, (last, value) in found if key not in own and last >= oldest}

    def _prune(self, since_ns: int) -> None:
        """Remove what no moment since then needs. What others have removed is stored again."""
        before = [(*each, each[1].journal, set(each[1].parts)) for each in list(self._shipped.items())]
        values_ns = self._values_ns
        snapshots, entries = parse_tables(each.name for each in self._store.list(TABLES))
        bases_of, listed = {each[:2] for each in snapshots}, set(entries)
        for project, shipped, journal, parts in before:
            with shipped.lock:
                lacking = (parts - listed).intersection(shipped.parts)
                if shipped.journal == journal and (lacking or (project, journal) not in bases_of):
                    shipped.journal, shipped.seen = "", None  # A snapshot follows.
        bases = {
            each.project: each
            for each in sorted(snapshots, key=lambda each: each.time_ns)
            if each.time_ns <= since_ns
        }
        stored: list[Snapshot | Entries] = [*snapshots, *entries]
        old = [each.name for each in stored if each.time_ns < self._removed.get(each.project, 0) <= since_ns]
        old += [
            each.name
            for each in stored
            if (base := bases.get(each.project)) is not None
            and each.time_ns < base.time_ns
            and (isinstance(each, Snapshot) or each.journal != base.journal or each.last <= base.sequence)
        ]
        times = values_times(each.name for each in self._store.list(VALUES))
        if values_ns not in times:
            self._values = None
        earlier = [each for each in times if each <= since_ns]
        old += [values_name(each) for each in earlier[:-1]]
        self._store.delete(set(old))
        self._pruned = time.monotonic()


def _problem(error: Exception) -> str:
    if isinstance(error, SvcError):
        return error.text
    return storage_failure(error) if isinstance(error, Error | OSError) else repr(error)


def _position(path: Path) -> LogPosition:
    """Return the position of a database. If it has none, begin its journal. Raises SQLite's errors."""
    while True:
        with closing(open_replica(path)) as connection:
            if is_replica(connection):
                return read_log_position(connection)
        close_owner(open_owner(path))


class RestoreRequest(StrictModel):
    """The moment to restore: a time in ISO 8601, or that before a deployment; by default the last one."""

    at: str = ""
    before_deployment: str = ""


def blueprint(projects: Projects, backup: Backup | None) -> Blueprint:
    """Return the route. It raises `SvcError` in a service without a backup."""
    routes = Routes("restore", __name__)

    @routes.post("/v1/projects/<project>/restore", "owner")
    async def restore(project: str, data: RestoreRequest) -> LiveRestore:
        """Replace the tables of a project by those of a moment; needs the role owner."""
        projects.data_dir(project)
        if backup is None:
            raise BackupError("this service has no backup", "It needs --backup URL when it starts.")
        time_ns = parse_moment(data.at) if data.at else NOW_NS
        return await backup.restore(project, time_ns, data.before_deployment)

    @routes.delete("/v1/projects/<project>/restore", "owner")
    async def cancel_restore(project: str) -> CanceledRestore:
        """Cancel the restore of a project's tables, unless they are being replaced; needs the role owner."""
        store = backup.restoring.get(project) if backup is not None else None
        if store is not None:
            store.ended = f"canceled; the tables of {project} were not changed"
        return CanceledRestore(store is not None)

    return routes
