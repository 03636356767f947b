"""Backup of a service that runs: each second, what has changed goes to the store. Writes never wait for it.

Tables go as snapshots of their files and the entries of their journals after them. A snapshot is stored after
a gap in a journal, after 512 MiB of entries, and each day. Values are stored after the blobs that they name.
"""

import asyncio
import json
import secrets
import shutil
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from doors.tables.replication.entry import Entry
from doors.tables.replication.errors import CannotApply, storage_failure
from doors.tables.replication.journal import (
    FOLDER,
    JournalEntry,
    begin_again,
    read_segment,
    remove_before,
    segments,
)
from doors.tables.replication.log_position import LogPosition, read_log_position
from doors.tables.replication.registry import set_journaled
from doors.tables.replication.snapshots import save_snapshot
from doors.tables.sqlite.connections import (
    DATABASE_NAME,
    Error,
    close_owner,
    is_replica,
    open_owner,
    open_replica,
)
from engine.bucket.protocols import BlobMissing, Bucket
from engine.cancellation import cancel
from engine.errors import SvcError
from engine.files.atomic import write_atomic
from engine.files.temporary import temporary_folder
from svc_tui.backup.names import (
    BLOBS,
    SERVICE,
    TABLES,
    VALUES,
    Entries,
    Snapshot,
    blob_name,
    parse_blobs,
    parse_tables,
    values_name,
    values_times,
)
from svc_tui.backup.store import BackupDamaged, BackupStore, BackupTaken, write_file

SECONDS = 1.0
"""Interval of the backup."""
MAX_RETRY_SECONDS = 60.0
ALERT_SECONDS = 300.0
CHECK_SECONDS = 60.0
"""How often the store is asked whether it is still that of this service."""
BEGIN_SECONDS = 15.0
"""How long the start of the service waits for the store."""
END_SECONDS = 10.0
"""How long the end of the service waits for what is not stored yet."""
SNAPSHOT_BYTES = 512 << 20
SNAPSHOT_SECONDS = 24 * 3600.0
"""Bytes of entries, and time, after which a snapshot is due."""
GAP_SECONDS = 60.0
"""Minimum time between two snapshots because of gaps."""
MAX_JOURNAL_BYTES = 1 << 30
"""Maximum size of a project's journal while the store does not answer."""
MAX_PARTS = 600
"""Objects with entries that are then joined to one."""
PART_BYTES = 64 << 20
DAYS = 7
"""Days that can be restored to any moment."""
_PRUNE_SECONDS = 3600.0
_ID_FILE = "backup.json"


@dataclass(slots=True, kw_only=True)
class StoredTables:
    """The part of a project's tables that the store has."""

    journal: str = ""
    sequence: int = 0
    bytes: int = 0
    parts: list[Entries] = field(default_factory=list)
    snapshot_ns: int = 0
    gap: bool = False
    seen: object = None
    """State of the files at which all was shipped."""


class Backup:
    """Backs up a service with a folder as its bucket. Create it on the event loop."""

    def __init__(
        self, store: BackupStore, data: Path, bucket: Bucket, log: Callable[[str, str], None]
    ) -> None:
        """`log` takes a level and a line for the service's log."""
        self._store, self._data, self._bucket, self._log = store, data, bucket, log
        self._projects = data / "projects"
        self._shipped: dict[str, StoredTables] = {}
        self._blobs: set[str] = set()
        self._values: list[tuple[str, int]] | None = None
        self._pruned = 0.0
        self._has_begun = False
        self._own, self._checked = "", 0.0
        self.alert: Callable[[str], None] = lambda text: None
        """Gets the problem of a backup that waits for `ALERT_SECONDS`, and an empty text otherwise."""
        self._problem, self._stored = "", time.monotonic()

    @classmethod
    @asynccontextmanager
    async def running(
        cls, store: BackupStore, data: Path, bucket: Bucket, log: Callable[[str, str], None]
    ) -> AsyncIterator["Backup"]:
        """Back up within the context; store what is left at its end. Raises `BackupError`."""
        backup = cls(store, data, bucket, log)
        set_journaled(backup._projects, journaled=True)
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                await asyncio.to_thread(backup._begin)
        except TimeoutError:
            log("warning", f"the backup at {store.url} does not answer; the service starts without waiting")
        except (SvcError, OSError) as error:
            if isinstance(error, BackupTaken):
                raise
            log("error", f"the backup waits: {_problem(error)}")
        running = asyncio.create_task(backup._run())
        try:
            yield backup
        finally:
            await cancel([running])
            with suppress(SvcError, Error, OSError, TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await backup._ship()

    def _begin(self) -> None:
        """Check that the store has no other service's backup, and read what it has. Raises `BackupError`."""
        path = self._data / _ID_FILE
        try:
            own = json.loads(path.read_text())["service"] if path.exists() else secrets.token_hex(8)
        except (ValueError, KeyError, TypeError) as error:
            raise BackupTaken(
                f"{path} is damaged",
                "Remove it, and the object 'service' of the backup if it is of this service.",
            ) from error
        if not self._store.create(SERVICE, own.encode()) and self._owner() != own:
            raise BackupTaken(
                f"{self._store.url} has the backup of another service",
                f"Use another URL. If it is an earlier one of this service, remove its object {SERVICE!r}.",
            )
        write_atomic(path, json.dumps({"service": own}).encode(), sync=True)
        self._own, self._checked = own, time.monotonic()
        self._blobs = set(parse_blobs(each.name for each in self._store.list(BLOBS)))
        self._shipped, self._values = {}, None
        snapshots, entries = parse_tables(each.name for each in self._store.list(TABLES))
        for snapshot in sorted(snapshots, key=lambda each: each.time_ns):
            self._shipped[snapshot.project] = StoredTables(
                journal=snapshot.journal, sequence=snapshot.sequence, snapshot_ns=snapshot.time_ns
            )
        for each in entries:
            shipped = self._shipped.get(each.project)
            if shipped is not None and each.journal == shipped.journal and each.first == shipped.sequence + 1:
                shipped.sequence = each.last
                shipped.parts.append(each)
                shipped.gap = shipped.gap or bool(each.gaps)
        self._has_begun = True

    def _owner(self) -> str:
        """Return the id of the service whose backup the store has, empty if it has none of this key."""
        try:
            return self._store.get(SERVICE).decode()
        except BackupDamaged:
            return ""

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                await self._ship()
            except Exception as error:
                failures += 1
                problem = _problem(error)
                if problem != self._problem:
                    self._log("error", f"the backup waits: {problem}")
                self._problem = problem
                with suppress(OSError):
                    await asyncio.to_thread(self._limit_journals)
            else:
                if failures:
                    self._log("info", "the backup is complete again")
                failures, self._problem, self._stored = 0, "", time.monotonic()
            waits = time.monotonic() - self._stored > ALERT_SECONDS
            self.alert(f"the backup waits: {self._problem}" if waits else "")
            await asyncio.sleep(min(SECONDS * 2**failures, MAX_RETRY_SECONDS))

    async def _ship(self) -> None:
        """Store everything that has changed. Raises `SvcError`, SQLite's errors and OSError."""
        if self._has_begun and time.monotonic() > self._checked + CHECK_SECONDS:
            self._checked = time.monotonic()
            self._has_begun = await asyncio.to_thread(self._owner) == self._own
        if not self._has_begun:
            await asyncio.to_thread(self._begin)
        failures: list[Exception] = []
        await self._ship_values()
        for path in await asyncio.to_thread(lambda: sorted(self._projects.glob(f"*/tables/{DATABASE_NAME}"))):
            try:
                await asyncio.to_thread(self._ship_tables, path)
            except (SvcError, Error, OSError, CannotApply) as error:
                failures.append(error)
        if failures:
            raise failures[0]
        if time.monotonic() > self._pruned + _PRUNE_SECONDS:
            await asyncio.to_thread(self._prune)
            self._pruned = time.monotonic()
            self._has_begun = False  # Objects may have been removed: the store is read again.

    async def _ship_values(self) -> None:
        values = await self._bucket.kv.list("")
        revisions = [(each.key, each.revision) for each in values]
        if revisions == self._values:
            return
        with temporary_folder("svc-backup-", self._data) as folder:
            async for info in self._bucket.blobs.list():
                if info.digest not in self._blobs:
                    try:
                        await write_file(self._bucket.blobs.read(info.digest), folder / info.digest)
                    except BlobMissing:
                        continue
                    name = blob_name(info.digest, info.size)
                    await asyncio.to_thread(self._store.put_file, name, folder / info.digest)
                    (folder / info.digest).unlink()
                    self._blobs.add(info.digest)
        document = json.dumps({each.key: b64encode(each.value).decode() for each in values}).encode()
        await asyncio.to_thread(self._store.put, values_name(time.time_ns()), document)
        self._values = revisions

    def _ship_tables(self, path: Path) -> None:
        project = path.parent.parent.name
        shipped = self._shipped.setdefault(project, StoredTables())
        seen = _seen(path)
        if seen == shipped.seen:
            return
        position = _position(path)
        journal = path.parent / FOLDER
        if position.log == shipped.journal and position.sequence < shipped.sequence:
            position = begin_again(path)  # The file was replaced by an older copy.
        elif position.log == shipped.journal:
            self._ship_entries(project, shipped, journal / position.log, position.sequence)
        age_ns = time.time_ns() - shipped.snapshot_ns
        due = age_ns > GAP_SECONDS * 1e9 if shipped.gap else age_ns > SNAPSHOT_SECONDS * 1e9
        if shipped.journal != position.log or shipped.bytes > SNAPSHOT_BYTES or due:
            self._ship_snapshot(project, shipped, path)
        elif len(shipped.parts) >= MAX_PARTS:
            self._join(project, shipped, journal / position.log)
        remove_before(journal, shipped.journal, shipped.parts[0].first if shipped.parts else shipped.sequence)
        shipped.seen = None if shipped.gap else seen

    def _ship_entries(self, project: str, shipped: StoredTables, journal: Path, last: int) -> None:
        """Store the entries up to one that is committed. A gap in them demands a snapshot."""
        for entries in _batches(_entries(journal, shipped.sequence, last)):
            if entries[0].sequence != shipped.sequence + 1:
                break
            part = self._put_entries(project, journal.name, entries)
            shipped.parts.append(part)
            shipped.sequence = part.last
            shipped.bytes += sum(len(each.content) for each in entries)
            shipped.gap = shipped.gap or bool(part.gaps)
        if shipped.sequence < last:
            shipped.journal = ""  # The journal lacks transactions: a snapshot has them.

    def _put_entries(self, project: str, journal: str, entries: Sequence[JournalEntry]) -> Entries:
        gaps = sum(Entry.decode(each.content).kind == "gap" for each in entries)
        part = Entries(project, journal, entries[0].sequence, entries[-1].sequence, entries[0].time_ns, gaps)
        self._store.put(part.name, b"".join(each.frame() for each in entries))
        return part

    def _ship_snapshot(self, project: str, shipped: StoredTables, path: Path) -> None:
        with temporary_folder("svc-backup-", path.parent) as folder:
            file = folder / path.name
            saved = save_snapshot(path, file)
            with closing(open_replica(file)) as connection:
                journal = read_log_position(connection).log
                connection.execute("pragma journal_mode = delete")
            snapshot = Snapshot(project, journal, saved.sequence, time.time_ns(), saved.schema)
            self._store.put_file(snapshot.name, file)
        shipped.journal, shipped.sequence, shipped.snapshot_ns = journal, saved.sequence, snapshot.time_ns
        shipped.bytes, shipped.gap, shipped.parts = 0, False, []

    def _join(self, project: str, shipped: StoredTables, journal: Path) -> None:
        """Replace many objects with entries by few."""
        last = before = shipped.parts[0].first - 1
        parts = list[Entries]()
        for entries in _batches(_entries(journal, before, shipped.sequence)):
            if entries[0].sequence == last + 1:
                parts.append(self._put_entries(project, journal.name, entries))
                last = parts[-1].last
        if last == shipped.sequence:
            self._store.delete({each.name for each in shipped.parts} - {each.name for each in parts})
        shipped.parts = []

    def _limit_journals(self) -> None:
        """Remove journals that are too large while the store does not take them. A snapshot comes later."""
        for folder in self._projects.glob(f"*/tables/{FOLDER}"):
            if sum(each.stat().st_size for each in folder.glob("*/*")) > MAX_JOURNAL_BYTES:
                shutil.rmtree(folder)

    def _prune(self) -> None:
        """Remove what no moment of the last days needs."""
        since_ns = time.time_ns() - DAYS * 24 * 3600 * 10**9
        snapshots, entries = parse_tables(each.name for each in self._store.list(TABLES))
        bases = {
            each.project: each
            for each in sorted(snapshots, key=lambda each: each.time_ns)
            if each.time_ns <= since_ns
        }
        old = [each.name for each in snapshots if each.time_ns < _base_ns(bases, each.project)]
        old += [
            each.name
            for each in entries
            if each.time_ns < _base_ns(bases, each.project)
            and (each.journal != bases[each.project].journal or each.last <= bases[each.project].sequence)
        ]
        times = values_times(each.name for each in self._store.list(VALUES))
        before = [each for each in times if each <= since_ns]
        old += [values_name(each) for each in before[:-1]]
        self._store.delete(old)


def _problem(error: Exception) -> str:
    if isinstance(error, SvcError):
        return error.text
    return storage_failure(error) if isinstance(error, Error | OSError) else repr(error)


def _base_ns(bases: dict[str, Snapshot], project: str) -> int:
    return bases[project].time_ns if project in bases else 0


def _seen(path: Path) -> object:
    """Return what changes when a database does."""
    log = path.with_name(f"{path.name}-wal")
    return [(each.stat().st_mtime_ns, each.stat().st_size) for each in (path, log) if each.exists()]


def _position(path: Path) -> LogPosition:
    """Return the position of a database. If it has none, begin its journal. Raises SQLite's errors."""
    while True:
        with closing(open_replica(path)) as connection:
            if is_replica(connection):
                return read_log_position(connection)
        close_owner(open_owner(path))


def _entries(journal: Path, after: int, last: int) -> Iterator[JournalEntry]:
    files = segments(journal)
    for segment, following in zip(files, [*files[1:], None], strict=False):
        if following is None or int(following.name) > after + 1:
            yield from (each for each in read_segment(segment) if after < each.sequence <= last)


def _batches(entries: Iterable[JournalEntry]) -> Iterator[list[JournalEntry]]:
    """Divide consecutive entries into parts of bounded size."""
    batch: list[JournalEntry] = []
    size = 0
    for each in entries:
        if batch and (size + len(each.content) > PART_BYTES or each.sequence != batch[-1].sequence + 1):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += len(each.content)
    if batch:
        yield batch
