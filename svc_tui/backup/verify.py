"""Check of a backup: that all objects can be read, that none is missing, and that tables are those stored."""

import asyncio
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from doors.tables.replication.copy import digest_of, read_log_position, save_snapshot
from doors.tables.replication.errors import CannotApply
from doors.tables.replication.recorder import stored_tables
from doors.tables.sqlite.connections import DATABASE_NAME, Error, open_replica
from engine.deploy.verify import verify_bucket
from engine.files.temporary import temporary_folder
from svc_tui.backup.names import BLOBS, TABLES, Entries, Snapshot, parse_blobs, parse_tables, values_times
from svc_tui.backup.restore import restore_file
from svc_tui.backup.store import BackupDamaged, BackupStore, StoredBucket

_STEPS = 100_000
"""Steps of SQLite after which a comparison looks for the end of the service."""
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
            try:
                restored = restore_file(store, other_path, base, parts, last=position.sequence)
            except (Error, CannotApply) as error:
                raise BackupDamaged(f"the tables of {project} cannot be restored: {error}") from error
            last = restored.sequence
            if last < position.sequence:
                gap = any(each.gaps and each.first <= last + 1 <= each.last for each in parts)
                if restored.problem and not gap:
                    raise BackupDamaged(f"{project}: {restored.problem}")
                return f"the transactions {last + 1} to {position.sequence} of {project} are not stored yet"
            with closing(open_replica(other_path)) as other:
                for each in (own, other):
                    each.set_progress_handler(lambda: store.ended, _STEPS)
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
    problems = []
    for (project, journal), first in {
        (each.project, each.journal): each.sequence for each in reversed(snapshots)
    }.items():
        bases = {each.sequence for each in snapshots if each.journal == journal}
        last = first
        for part in (each for each in entries if (each.project, each.journal) == (project, journal)):
            last = max([last, *(each for each in bases if each < part.first)])
            if part.first > last + 1:
                problems.append(f"the transactions {last + 1} to {part.first - 1} of {project} are missing")
            last = max(last, part.last)
    based = {(each.project, each.journal) for each in snapshots}
    lacking = sorted({each.project for each in entries if each[:2] not in based})
    return problems + [f"a snapshot of the tables of {each} is missing" for each in lacking]
