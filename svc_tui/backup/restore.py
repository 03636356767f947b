"""Restore of a backup as of a moment: to a new data directory, or of the tables of a live project.

A check of a backup reads all objects, finds those that are missing, and compares tables with restored ones.
"""

import asyncio
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from doors.tables.replication.copy import Copy, digest_of, read_log_position, save_snapshot
from doors.tables.replication.entry import LAST, Entry
from doors.tables.replication.errors import CannotApply, storage_failure
from doors.tables.replication.journal import JournalEntry, begin_again, read_frames
from doors.tables.replication.recorder import stored_tables
from doors.tables.sqlite.connections import DATABASE_NAME, Error, apsw, close_owner, open_owner, open_replica
from engine.bucket.copy import CopyReport, copy_bucket
from engine.bucket.folder import FolderBucket
from engine.bucket.layout import CONTROL
from engine.bucket.protocols import BlobCorrupt, disk_error
from engine.cancellation import finish
from engine.deploy.deployment import RECORDS
from engine.deploy.gc import Finding, verify_bucket
from engine.errors import SvcError
from engine.files.atomic import rename_durably, write_atomic
from engine.files.temporary import remove_abandoned, temporary_folder
from engine.replication import LogMessage, LogSnapshot
from engine.service.removals import OF_PROJECTS, removal_times
from engine.service.secrets import KEY_FILE, SecretsKey
from svc_tui.backup.store import (
    BLOBS,
    TABLES,
    VALUES,
    BackupDamaged,
    BackupError,
    BackupStore,
    Entries,
    Snapshot,
    StoredBucket,
    parse_blobs,
    parse_tables,
    values_name,
    values_times,
)

NOW_NS = (1 << 63) - 1
_WORK = ".svc-restore-"
_Found = tuple[list[str], list[Snapshot], list[Entries]]
_Begin = Callable[[str], None]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class RestoredTables:
    """Tables of a project. `last_ns` is the time of their last transaction, of this `sequence`, or snapshot.

    `problem` says why later transactions of the backup are missing, or is empty.
    """

    project: str
    last_ns: int
    transactions: int
    problem: str
    sequence: int = 0


class Restored(NamedTuple):
    """A finished restore. `values_ns` is the time of the accounts, secrets and deployments.

    `findings` are objects that its deployments need, and that the backup lacks.
    """

    report: CopyReport
    findings: list[Finding]
    values_ns: int
    tables: list[RestoredTables]


def text(time_ns: int, *, exact: bool = False) -> str:
    """Return a time in UTC, in seconds or `exact` as the next microsecond, as `--at` takes it."""
    moment = _EPOCH + timedelta(microseconds=-(-time_ns // 1000))
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}" if exact else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


async def restore(
    store: BackupStore,
    key: SecretsKey,
    target: Path,
    time_ns: int = NOW_NS,
    deployment: str = "",
    projects: Collection[str] = (),
    progress: Callable[[CopyReport, str], None] = lambda report, project: None,
) -> Restored:
    """Restore a backup as of a time, or of the moment before a deployment, into a missing or empty folder.

    Only these `projects` are restored, or all. The folder is complete once it has `CONTROL`. `progress` gets
    the project whose tables are restored after blobs. Raises `SvcError`.
    """
    try:
        target = target.resolve()
        remove_abandoned(_WORK, target)
        is_folder = target.is_dir()
        if any(target.iterdir()) if is_folder else target.exists():
            problem = "not empty" if is_folder else "a file"
            raise BackupError(f"{target} is {problem}", "Name a new folder: --data DIR")
        if deployment:
            time_ns = await asyncio.to_thread(_time_before, store, deployment)
        values_ns, values = await asyncio.to_thread(_values, store, time_ns)
        for name in [each for each in values if projects and each.startswith(OF_PROJECTS)]:
            if name.split("/")[1] not in projects:
                del values[name]
        found = await asyncio.to_thread(_find_tables, store, projects)
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):
            target.chmod(0o700)
        with temporary_folder(_WORK, target if is_folder else target.parent) as work:
            data = work / "data"
            async with aclosing(FolderBucket(data, "svc restore")) as bucket:
                source: Any = StoredBucket(store, values, await asyncio.to_thread(store.blobs))
                while True:
                    with suppress(BlobCorrupt):  # The source does not list a damaged blob again.
                        report = await copy_bucket(source, bucket, lambda each: progress(each, ""))
                        break
                _, findings = await verify_bucket(bucket, lambda report: None)
            write_atomic(data / KEY_FILE, key.text.encode(), sync=True)
            folder, removed = data / "projects", removal_times(values)
            begin = partial(progress, report)
            step = asyncio.to_thread(_restore_tables, store, folder, time_ns, found, removed, begin)
            tables = await finish(asyncio.create_task(step), store.give_up)
            for project in set(projects) - {each.project for each in tables}:
                raise BackupError(
                    f"{project} was removed at {text(removed[project])}", "Name an earlier moment: --at TIME"
                )
            report.tables = sum(each.last_ns > 0 for each in tables)
            # A folder stays, which may be the mount point of a volume. Its database comes last.
            parts = sorted(data.iterdir(), key=lambda each: each.name == CONTROL) if is_folder else [data]
            for part in parts:
                rename_durably(part, target / part.name if is_folder else target)
    except OSError as error:
        raise disk_error(target, error) from error
    return Restored(report, findings, values_ns, tables)


def _values(store: BackupStore, time_ns: int) -> tuple[int, dict[str, bytes]]:
    """Return the last values until a time, and when they were stored. Raises `BackupError`."""
    times = values_times(each.name for each in store.list(VALUES))
    if not (earlier := [each for each in times if each <= time_ns]):
        since = f"begins at {text(min(times))}" if times else "has no deployments and accounts"
        raise BackupError(f"the backup at {store.url} {since}", "Name a later time, or check the URL.")
    return max(earlier), store.values(values_name(max(earlier)))


def _time_before(store: BackupStore, deployment: str) -> int:
    """Return the time of a deployment, whose id begins with it. Raises `BackupError`."""
    _, values = _values(store, NOW_NS)
    if deployment not in {key.rpartition("/")[2] for key in values if key.startswith(RECORDS)}:
        raise BackupError(f"the backup has no deployment {deployment}", "`svc deployments` lists the ids.")
    moment = datetime.strptime(deployment[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 10**9


def _find_tables(store: BackupStore, projects: Collection[str]) -> _Found:
    """Return the projects to restore, and what the backup has of tables. Raises `BackupError`."""
    snapshots, entries = parse_tables(each.name for each in store.list(TABLES))
    names = sorted({each.project for each in snapshots} | {each.project for each in entries})
    if missing := set(projects) - set(names):
        raise BackupError(
            f"the backup at {store.url} has no tables of {', '.join(sorted(missing))}",
            f"It has those of {', '.join(names)}." if names else "",
        )
    return sorted(set(projects)) or names, snapshots, entries


def _restore_tables(
    store: BackupStore, folder: Path, time_ns: int, found: _Found, removed: Mapping[str, int], begin: _Begin
) -> list[RestoredTables]:
    """Restore the tables of projects as of a time, but not from before projects were `removed`."""
    projects, snapshots, entries = found
    restored, based = list[RestoredTables](), {each[:2] for each in snapshots}
    for project in projects:
        begin(project)
        since_ns, problem = removed.get(project, 0), ""
        own = [each for each in snapshots if each.project == project and since_ns < each.time_ns <= time_ns]
        base = max(own, key=lambda each: each.time_ns, default=None)
        parts = [each for each in entries if each.project == project]
        lost = [
            each.time_ns for each in parts if each[:2] not in based and since_ns < each.time_ns <= time_ns
        ]
        if lost and (base is None or max(lost) > base.time_ns):
            problem = f"the snapshot before the transactions of {text(max(lost))} is missing"
        elif base is None and not since_ns:
            times = [each.time_ns for each in snapshots if each.project == project]
            problem = f"the backup of its tables begins at {text(min(times, default=time_ns))}"
        if base is None:
            restored += [RestoredTables(project, 0, 0, problem)] if problem else []
            continue
        path = folder / project / "tables" / DATABASE_NAME
        parts = [each for each in parts if each.journal == base.journal]
        restored.append(restore_file(store, path, base, parts, time_ns))
        if problem := restored[-1].problem or problem:
            times = sorted(each.time_ns for each in snapshots if each.project == project)
            later = (f"the next snapshot is --at {text(at, exact=True)}" for at in times if at > time_ns)
            restored[-1].problem = f"{problem}; {next(later, 'no snapshot follows')}"
        begin_again(path)  # The service that was backed up may write to its journal, too.
    return restored


def restore_tables(
    store: BackupStore, folder: Path, project: str, time_ns: int, deployment: str
) -> tuple[RestoredTables, Path]:
    """Restore the tables of a project as of a time, or of the moment before a deployment, into a folder.

    Return the file, too. Raises `BackupError` also if the backup lacks transactions until then, and OSError.
    """
    if deployment:
        time_ns = _time_before(store, deployment)
    [restored] = _restore_tables(store, folder, time_ns, _find_tables(store, [project]), {}, lambda _: None)
    if restored.problem:
        last = f"the last one that it has: --at {text(restored.last_ns, exact=True)}"
        hint = f"Restore {last if restored.last_ns else 'a later moment.'}"
        raise BackupError(f"{project}: {restored.problem}", hint)
    return restored, folder / project / "tables" / DATABASE_NAME


def replace_tables(path: Path, source: Path, before: Callable[[], int]) -> int:
    """Replace the content of a database by that of a file, in a transaction; return the result of `before`.

    That is called when no other connection can write any more, and nothing is replaced yet. Connections that
    are open continue with the new content. Raises `SvcError` without room, SQLite's errors and OSError.
    """
    if shutil.disk_usage(path.parent).free < 2 * source.stat().st_size:  # The write-ahead log, and the file.
        raise SvcError(
            f"the disk has no room for two copies of the tables, of {source.stat().st_size >> 20} MiB each",
            "Free space on the disk of the service.",
            code="storage-full",
        )
    with closing(open_replica(source)) as restored, closing(open_replica(path)) as target:
        target.execute("pragma synchronous = full")
        with target.backup("main", restored, "main") as copying:
            copying.step(0)
            result = before()
            copying.step(-1)
    return result


def restore_file(
    store: BackupStore,
    path: Path,
    snapshot: Snapshot,
    parts: Sequence[Entries],
    time_ns: int = NOW_NS,
    last: int = NOW_NS,
) -> RestoredTables:
    """Restore a database as of a time, and until the transaction `last`. Raises `BackupError` and OSError."""
    path.parent.mkdir(parents=True, mode=0o700)
    with path.open("wb") as file:
        file.writelines(store.read(snapshot.name))
    stored = LogSnapshot(sequence=snapshot.sequence, schema=snapshot.schema, logged=0, digest="", size=0)
    sequence, last_ns, count, problem = snapshot.sequence, snapshot.time_ns, 0, ""
    try:
        with closing(Copy(path, snapshot.journal, stored)) as copy:
            copy.set_progress_handler(lambda: bool(store.ended), _STEPS)
            for entry in _following(store, snapshot, parts):
                if entry.time_ns > time_ns or entry.sequence > last:
                    break
                decoded = Entry.decode(entry.content)
                store.check_ended()
                if copy.log_position is None or decoded.previous != copy.log_position.chain:
                    problem = f"the transactions {sequence + 1} to {entry.sequence - 1} are missing"
                    break
                if decoded.kind == "gap":
                    problem = f"a transaction at {text(entry.time_ns)} had no record"
                    break
                copy.apply([LogMessage(entry.sequence, LAST + entry.content)], sequence, lambda *_: None)
                sequence, last_ns, count = entry.sequence, entry.time_ns, count + 1
        close_owner(open_owner(path))
    except (Error, CannotApply) as error:
        store.check_ended()
        message = f"the tables of {snapshot.project} cannot be restored: {storage_failure(error)}"
        if isinstance(error, apsw.FullError):
            raise BackupError(message) from error
        raise BackupDamaged(message, f"Restore what is before: --at {text(last_ns, exact=True)}") from error
    return RestoredTables(path.parents[1].name, last_ns, count, problem, sequence)


def _following(store: BackupStore, snapshot: Snapshot, parts: Sequence[Entries]) -> Iterator[JournalEntry]:
    """Yield the entries after a snapshot. Objects may have the same ones."""
    last = snapshot.sequence
    for part in sorted(parts, key=lambda each: (each.first, -each.last)):
        if part.last > last:
            for entry in read_frames(store.get(part.name)):
                if entry.sequence > last:
                    yield entry
                    last = entry.sequence
            if last < part.last:
                raise CannotApply(f"{part.name} has transactions of a newer format; update svc")


_STEPS = 100_000
"""Steps of SQLite after which a comparison or a restore looks for its end."""
VERIFY_SECONDS = 30.0
"""How long a verification waits until what it compares is stored."""
_LIST_SECONDS = 0.5
COPIES = 3
"""Room for a verification, in sizes of the database: two copies, and some for others."""


def verify(store: BackupStore, progress: Callable[[int, int], None]) -> tuple[int, list[str]]:
    """Read every object; return their number, and what is damaged or missing.

    `progress` gets the number of objects that were read, and that of all. Raises `BackupError`.
    """
    objects, problems = store.list(), list[str]()
    values: dict[str, bytes] = {}
    others = [each.name for each in objects if not each.name.startswith(f"{BLOBS}/")]
    for number, name in enumerate(others, 1):
        try:
            if values_times([name]):
                values |= store.values(name)
            else:
                for _ in store.read(name):
                    pass
        except BackupDamaged as error:
            problems.append(error.message)
        progress(number, len(objects))
    bucket: Any = StoredBucket(store, values, parse_blobs(each.name for each in objects))
    _, findings = asyncio.run(
        verify_bucket(bucket, lambda report: progress(len(others) + report.blobs, len(objects)))
    )
    problems += [
        f"{each.name} of {each.deployment or 'no deployment'} is {each.problem}" for each in findings
    ]
    return len(objects), problems + _gaps(*parse_tables(each.name for each in objects))


def verify_tables(store: BackupStore, path: Path, seconds: float) -> str:
    """Compare the tables in a file with those of the backup at the same position.

    Return what the backup still lacks after some seconds, empty if nothing. Raises `BackupDamaged` if they
    differ or cannot be restored, other `BackupError`, SQLite's errors and OSError.
    """
    project, digest = path.parent.parent.name, ""
    if shutil.disk_usage(path.parent).free < COPIES * path.stat().st_size:
        return f"the disk has no room for the {COPIES} copies of {project} that a verification makes"
    with temporary_folder("svc-verify-", path.parent) as folder:
        save_snapshot(path, folder / "own.db")
        with closing(open_replica(folder / "own.db")) as own:
            position, end = read_log_position(own), time.monotonic() + seconds
            while True:
                snapshots, entries = parse_tables(each.name for each in store.list(f"{TABLES}/{project}"))
                bases = [each for each in snapshots if each.journal == position.log]
                bases = [each for each in bases if each.sequence <= position.sequence]
                parts = [each for each in entries if each.journal == position.log]
                last = max([-1, *(each.sequence for each in bases), *(each.last for each in parts)])
                if (bases and last >= position.sequence) or time.monotonic() > end:
                    break
                time.sleep(_LIST_SECONDS)
            if not bases:
                return f"no snapshot of the tables of {project} is stored yet"
            base = max(bases, key=lambda each: each.sequence)
            other_path = folder / project / "tables" / DATABASE_NAME
            restored = restore_file(store, other_path, base, parts, last=position.sequence)
            if (last := restored.sequence) < position.sequence:
                gap = any(each.gaps and each.first <= last + 1 <= each.last for each in parts)
                if restored.problem and not gap:
                    raise BackupDamaged(f"{project}: {restored.problem}")
                return f"the transactions {last + 1} to {position.sequence} of {project} are not stored yet"
            with closing(open_replica(other_path)) as other:
                for each in (own, other):
                    each.set_progress_handler(lambda: bool(store.ended), _STEPS)
                if (digest := digest_of(own)) and digest == digest_of(other):
                    return ""
                names = sorted(name for name, _ in stored_tables(own).values())
                different = [each for each in names if digest_of(own, each) != digest_of(other, each)]
    raise BackupDamaged(
        f"the backup of {project} differs from its tables at transaction {position.sequence}: "
        + (", ".join(different) if digest else "SQLite finds damage in those of the service"),
        "A new snapshot is stored now. Look for another program that writes to the database.",
    )


def _gaps(snapshots: Sequence[Snapshot], entries: Sequence[Entries]) -> list[str]:
    """Return the entries that are missing after the oldest snapshot of each journal."""
    problems, oldest = [], {each[:2]: each.sequence for each in reversed(snapshots)}
    for journal, last in oldest.items():
        bases = {each.sequence for each in snapshots if each[:2] == journal}
        for part in (each for each in entries if each[:2] == journal):
            last = max([last, *(each for each in bases if each < part.first)])
            if part.first > last + 1:
                problems.append(
                    f"the transactions {last + 1} to {part.first - 1} of {journal[0]} are missing"
                )
            last = max(last, part.last)
    lacking = sorted({each.project for each in entries if each[:2] not in oldest})
    return problems + [f"a snapshot of the tables of {each} is missing" for each in lacking]
