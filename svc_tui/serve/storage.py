"""The storage of a service, that of a data directory or of its fleet: opened, copied and checked."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import TypeVar

from doors.tables.replication.errors import ReplicationError
from doors.tables.replication.recorder import Unsound, not_replicable, unsound_tables
from doors.tables.replication.replicas import Replicas
from doors.tables.replication.snapshots import seed
from doors.tables.sqlite.catalog import reserved
from doors.tables.sqlite.connections import DATABASE_NAME, Error, apsw, open_owner, open_replica
from engine.bucket.copy import CopyReport, copy_bucket
from engine.bucket.folder import FolderBucket
from engine.bucket.layout import VERSION
from engine.bucket.protocols import Bucket
from engine.errors import SvcError
from engine.files.database_files import remove_database
from engine.files.temporary import temporary_folder
from engine.fleet.bucket import NAMESPACE, JetStreamBucket
from engine.fleet.node import NODE_FOLDER, FleetNode, cluster_address, find_node
from engine.fleet.tables_log import TablesLog

PROJECTS = "projects"
"""Folder of the projects' data in a data directory."""
_T = TypeVar("_T")


@asynccontextmanager
async def open_bucket(data: Path, opened_by: str) -> AsyncIterator[Bucket]:
    """Open the bucket of a data directory, or that of the fleet whose node it is. Raises `SvcError`."""
    node = find_node(data)
    if node is not None and node.state == "member":
        address = cluster_address(data / NODE_FOLDER, node)
        bucket: Bucket = await JetStreamBucket.open(address, NAMESPACE, create=False)
    elif (data / VERSION).is_file():
        bucket = FolderBucket(data, opened_by)
    else:
        raise SvcError(f"{data} is not a bucket", "Pass the data directory of a service, or a backup.")
    try:
        yield bucket
    finally:
        await bucket.aclose()


async def copy_storage(
    data: Path,
    source: Bucket,
    target: FolderBucket | JetStreamBucket,
    progress: Callable[[CopyReport], None] = lambda report: None,
) -> CopyReport:
    """Copy a bucket and the tables of all projects to an empty data directory, or to the fleet of `data`.

    Content of a fleet that does not serve is replaced. Raises `SvcError`.
    """
    if isinstance(target, JetStreamBucket):
        await check_replicable(data)
    log = await tables_log(data, target) if isinstance(target, JetStreamBucket) else None
    if log is not None:
        await log.clear()
    async with _files(data, source) as paths:
        for path in paths:
            if log is not None:
                await seed(log, path)
            elif isinstance(target, FolderBucket):
                await in_thread(path, copy_file, target.root / path.relative_to(paths[0].parents[3]))
    report = await copy_bucket(source, target, progress, overwrite=log is not None)
    report.tables = len(paths)
    return report


async def check_replicable(data: Path) -> None:
    """Raise `SvcError` if tables of the projects could not be created in a fleet."""
    names, remedies = [], []
    for path in sorted(data.glob(f"{PROJECTS}/*/tables/{DATABASE_NAME}")):
        project = path.parent.parent.name
        for table, (_, remedy, _) in (await in_thread(path, _unsound_tables)).items():
            names.append(f"{table} of {project}")
            remedies.append(f"In {project}: {remedy}")
    if names:
        hint = f"Change them by migrations. {' '.join(remedies)}"
        raise not_replicable(f"these tables of this service: {', '.join(names)}", hint)


async def check_tables(data: Path, bucket: Bucket) -> tuple[int, list[str]]:
    """Read the tables of all projects; return their number, and the projects whose tables are corrupt.

    Those of a fleet are built from its log. Raises `SvcError`.
    """
    async with _files(data, bucket) as paths:
        sound = [await in_thread(path, _is_sound) for path in paths]
        names = [path.parent.parent.name for path in paths]
        return len(paths), [name for name, is_sound in zip(names, sound, strict=True) if not is_sound]


@asynccontextmanager
async def _files(data: Path, bucket: Bucket) -> AsyncIterator[list[Path]]:
    """Yield the database files of all projects: those of a fleet in a temporary folder."""
    if not isinstance(bucket, JetStreamBucket):
        yield sorted(data.glob(f"{PROJECTS}/*/tables/{DATABASE_NAME}"))
        return
    log = await tables_log(data, bucket)
    with temporary_folder("svc-tables-") as folder:
        yield await _build(log, folder / PROJECTS)


async def tables_log(data: Path, bucket: JetStreamBucket) -> TablesLog:
    """Return the log of the tables of the fleet whose node has a data directory. Raises `SvcError`."""
    node = FleetNode.read(data / NODE_FOLDER)
    log = TablesLog(bucket.connection, bucket.namespace, node.fleet, node.node, set)
    await log.create()
    return log


async def _build(log: TablesLog, projects: Path) -> list[Path]:
    """Build the tables of all projects from their logs; return the files. Raises `SvcError`."""
    replicas = Replicas(log, projects)
    try:
        names = await log.names()
        for name in names:
            replica, last, reached = replicas.of(projects / name), await log.last(name), -2
            while replica.position < last:
                if replica.position == reached:
                    await replica.reach(last)
                reached = replica.position
                with suppress(ReplicationError):  # Entries are still applied.
                    await replica.reach(last)
    finally:
        await replicas.aclose()
    paths = [projects / name / "tables" / DATABASE_NAME for name in names]
    for path in paths:
        await in_thread(path, detach)
    return paths


async def in_thread(path: Path, work: Callable[..., _T], *arguments: object) -> _T:
    """Run a function that uses SQLite for a file. Raises `SvcError`, which names the file."""
    try:
        return await asyncio.to_thread(work, path, *arguments)
    except (Error, OSError) as error:
        raise SvcError(
            f"cannot read or copy {path}: {error}", "Check the disk and the file, then repeat it."
        ) from error


def _unsound_tables(path: Path) -> Mapping[str, Unsound]:
    with closing(open_replica(path)) as connection:
        return {name: each for name, each in unsound_tables(connection).items() if not reserved(name)}


def detach(path: Path) -> None:
    """Remove the position in the log from a file. Raises SQLite's errors."""
    with closing(open_owner(path)) as connection:
        connection.execute("pragma journal_mode = delete")


def copy_file(path: Path, target: Path) -> None:
    """Copy a database file, without what it has deleted. Raises OSError and SQLite's errors."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    remove_database(target)
    with closing(open_replica(path)) as connection:
        connection.execute("VACUUM INTO ?", (str(target),))


def _is_sound(path: Path) -> bool:
    """Return whether SQLite finds no error in a database file."""
    try:
        with closing(open_replica(path)) as connection:
            return connection.execute("pragma integrity_check(1)").fetchone() == ("ok",)
    except (apsw.CorruptError, apsw.NotADBError):
        return False
