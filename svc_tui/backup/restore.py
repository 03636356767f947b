"""Restore of a backup to a new data directory, as of a moment."""

import asyncio
import io
import json
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from doors.tables.replication.copy import Copy
from doors.tables.replication.entry import LAST, Entry
from doors.tables.replication.errors import CannotApply
from doors.tables.replication.journal import JournalEntry, read_frames
from doors.tables.sqlite.connections import DATABASE_NAME, Error, close_owner, open_owner
from engine.bucket import durable
from engine.bucket.copy import CopyReport, copy_bucket
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import BlobInfo, Digest, VersionedValue, disk_error
from engine.deploy.deployment import RECORDS
from engine.deploy.verify import Finding, verify_bucket
from engine.files.atomic import write_atomic
from engine.files.temporary import temporary_folder
from engine.replication import LogMessage, LogSnapshot
from engine.service.secrets_key import KEY_FILE, SecretsKey
from svc_tui.backup.names import (
    BLOBS,
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
from svc_tui.backup.store import BackupDamaged, BackupError, BackupStore

NOW_NS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RestoredTables:
    """Tables of a project. `last_ns` is the time of their last transaction or snapshot.

    `problem` says why later transactions of the backup are missing, or is empty.
    """

    project: str
    last_ns: int
    transactions: int
    problem: str


@dataclass(frozen=True, slots=True)
class Restored:
    """A finished restore. `values_ns` is the time of the accounts, secrets and deployments.

    `findings` are objects that its deployments need, and that the backup lacks.
    """

    report: CopyReport
    findings: list[Finding]
    values_ns: int
    tables: list[RestoredTables]


class _StoredValues:
    """The values of a backup before a time, as far as `copy_bucket` reads them."""

    def __init__(self, store: BackupStore, time_ns: int) -> None:
        """Read them. Raises `BackupError`."""
        times = values_times(each.name for each in store.list(VALUES))
        if not (earlier := [each for each in times if each <= time_ns]):
            since = f"begins at {text(min(times))}" if times else "has no deployments and accounts"
            raise BackupError(f"the backup at {store.url} {since}", "Name a later time, or check the URL.")
        self.time_ns = max(earlier)
        document = json.loads(store.get(values_name(self.time_ns)))
        self._values = [VersionedValue(key, b64decode(value), 1) for key, value in document.items()]

    async def list(self, prefix: str) -> list[VersionedValue]:
        """See `KeyValue`."""
        return [each for each in self._values if each.key.startswith(prefix)]


class _StoredBlobs:
    """The blobs of a backup, as far as `copy_bucket` reads them."""

    def __init__(self, store: BackupStore) -> None:
        self._store = store
        self._sizes: dict[str, int] = {}

    async def list(self) -> AsyncGenerator[BlobInfo, None]:
        """See `Blobs`."""
        self._sizes = parse_blobs(each.name for each in await asyncio.to_thread(self._store.list, BLOBS))
        for digest, size in self._sizes.items():
            yield BlobInfo(Digest(digest), size, 0)

    async def read(self, digest: Digest) -> AsyncGenerator[bytes, None]:
        """See `Blobs`."""
        pieces = self._store.read(blob_name(digest, self._sizes[digest]))
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece


@dataclass(frozen=True, slots=True)
class _StoredBucket:
    kv: _StoredValues
    blobs: _StoredBlobs


def text(time_ns: int) -> str:
    """Return a time in UTC, in seconds, as `--at` takes it."""
    return f"{datetime.fromtimestamp(time_ns / 1e9, UTC):%Y-%m-%dT%H:%M:%SZ}"


async def restore(
    store: BackupStore,
    key: SecretsKey,
    target: Path,
    time_ns: int = NOW_NS,
    deployment: str = "",
    projects: Collection[str] = (),
    progress: Callable[[CopyReport], None] = lambda report: None,
) -> Restored:
    """Restore a backup as of a time, or of the moment before a deployment, into a missing or empty folder.

    `projects` limits whose tables are restored, empty for all. The folder is complete once it has its name.
    Raises `SvcError`.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BackupError(f"{target} is not empty", "Name a new folder: --data DIR")
    if deployment:
        time_ns = await _time_before(store, deployment)
    values = await asyncio.to_thread(_StoredValues, store, time_ns)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(".svc-restore-", target.parent) as work:
            data = work / "data"
            bucket = FolderBucket(data, "svc restore")
            try:
                source: Any = _StoredBucket(values, _StoredBlobs(store))
                report = await copy_bucket(source, bucket, progress)
                _, findings = await verify_bucket(bucket, lambda report: None)
            finally:
                await bucket.aclose()
            write_atomic(data / KEY_FILE, key.text.encode(), sync=True)
            tables = await asyncio.to_thread(_restore_tables, store, data / "projects", time_ns, projects)
            report.tables = len(tables)
            target.rmdir() if target.exists() else None
            durable.rename(data, target)
    except OSError as error:
        raise disk_error(target, error) from error
    return Restored(report, findings, values.time_ns, tables)


async def _time_before(store: BackupStore, deployment: str) -> int:
    """Return the time of a deployment, whose id begins with it. Raises `BackupError`."""
    stored = await (await asyncio.to_thread(_StoredValues, store, NOW_NS)).list(RECORDS)
    try:
        if deployment not in {each.key.rpartition("/")[2] for each in stored}:
            raise ValueError(deployment)
        moment = datetime.strptime(deployment[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        raise BackupError(
            f"the backup at {store.url} has no deployment {deployment}", "`svc deployments` lists the ids."
        ) from None
    return int(moment.timestamp()) * 10**9


def _restore_tables(
    store: BackupStore, folder: Path, time_ns: int, projects: Collection[str]
) -> list[RestoredTables]:
    snapshots, entries = parse_tables(each.name for each in store.list(TABLES))
    names = sorted({each.project for each in snapshots})
    if missing := set(projects) - set(names):
        raise BackupError(
            f"the backup at {store.url} has no tables of {', '.join(sorted(missing))}",
            f"It has those of {', '.join(names)}." if names else "",
        )
    restored = []
    for project in dict.fromkeys(projects) or names:
        own = sorted((each for each in snapshots if each.project == project), key=lambda each: each.time_ns)
        earlier = [each for each in own if each.time_ns <= time_ns]
        if not earlier:
            problem = f"the backup of its tables begins at {text(own[0].time_ns)}"
            restored.append(RestoredTables(project, 0, 0, problem))
            continue
        parts = [each for each in entries if each.project == project and each.journal == earlier[-1].journal]
        path = folder / project / "tables" / DATABASE_NAME
        try:
            restored.append(_restore_file(store, path, earlier[-1], parts, time_ns))
        except (Error, CannotApply) as error:
            raise BackupDamaged(f"the tables of {project} cannot be restored: {error}") from error
    return restored


def _restore_file(
    store: BackupStore, path: Path, snapshot: Snapshot, parts: Sequence[Entries], time_ns: int
) -> RestoredTables:
    """Restore a database. Raises `BackupError`, `CannotApply`, SQLite's errors and OSError."""
    path.parent.mkdir(parents=True, mode=0o700)
    with path.open("wb") as file:
        for piece in store.read(snapshot.name):
            file.write(piece)
    stored = LogSnapshot(sequence=snapshot.sequence, schema=snapshot.schema, logged=0, digest="", size=0)
    copy = Copy.restored(path, snapshot.journal, stored)
    sequence, last_ns, problem = snapshot.sequence, snapshot.time_ns, ""
    try:
        for entry in _following(store, snapshot, parts):
            if entry.time_ns > time_ns:
                break
            if entry.sequence != sequence + 1:
                problem = f"the transactions {sequence + 1} to {entry.sequence - 1} are missing in the backup"
                break
            if Entry.decode(entry.content).kind == "gap":
                at = text(entry.time_ns)
                problem = f"a transaction at {at} had no record, and no snapshot was stored after it"
                break
            copy.apply([LogMessage(entry.sequence, LAST + entry.content)], sequence, lambda *_: None)
            sequence, last_ns = entry.sequence, entry.time_ns
    finally:
        copy.close()
    close_owner(open_owner(path))
    return RestoredTables(path.parents[1].name, last_ns, sequence - snapshot.sequence, problem)


def _following(store: BackupStore, snapshot: Snapshot, parts: Sequence[Entries]) -> Iterator[JournalEntry]:
    """Yield the entries after a snapshot. Objects may have the same ones."""
    last = snapshot.sequence
    for part in sorted(parts, key=lambda each: (each.first, -each.last)):
        if part.last > last:
            for entry in read_frames(io.BytesIO(store.get(part.name))):
                if entry.sequence > last:
                    yield entry
                    last = entry.sequence
