"""Check of a backup: whether all objects can be read, and whether none is missing."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from engine.deploy.verify import verify_bucket
from svc_tui.backup.names import BLOBS, Entries, Snapshot, parse_blobs, parse_tables, values_times
from svc_tui.backup.store import BackupDamaged, BackupStore
from svc_tui.backup.stored import StoredBucket, read_values


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
                values |= read_values(store, name)
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
