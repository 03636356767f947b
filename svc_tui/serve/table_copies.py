"""Tables of projects in copies of a service's storage: between data folders and the logs of a fleet."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from doors.tables.replication.errors import ReplicationError
from doors.tables.replication.replicas import Replicas
from doors.tables.replication.seeding import Seeding
from doors.tables.sqlite.connections import DATABASE_NAME, Error, apsw, open_owner, open_replica
from engine.bucket.protocols import Bucket
from engine.deploy.history import LIVE
from engine.errors import SvcError
from engine.files.database_files import remove_database
from engine.files.temporary import temporary_folder
from svc_tui.serve.bucket_location import BucketLocation, ClusterLocation, FolderLocation

if TYPE_CHECKING:
    from engine.fleet.tables_log import TablesLog

PROJECTS = "projects"
"""Folder of the projects' data in a data folder."""
_NODE = "copy"
_T = TypeVar("_T")


def has_tables(location: BucketLocation) -> bool:
    """Return whether a location stores tables: a data folder or a fleet, not another cluster."""
    return isinstance(location, FolderLocation) or bool(location.fleet)


async def copy_tables(
    source: BucketLocation,
    origin: Bucket,
    target: BucketLocation,
    copy: Bucket,
    on_copied: Callable[[], None],
) -> None:
    """Copy the tables of all projects; call `on_copied` after each. Raises `SvcError`.

    Tables in the target are replaced, unless it is a fleet that serves a project.
    """
    if not (has_tables(source) and has_tables(target)):
        return
    async with _files(source, origin) as paths:
        if isinstance(target, FolderLocation):
            for path in paths:
                path_of_copy = (
                    target.folder / PROJECTS / path.parent.parent.name / path.parent.name / path.name
                )
                await _in_thread(path, _copy_file, path_of_copy)
                on_copied()
        elif paths:
            if await copy.kv.list(LIVE):
                raise SvcError(f"{target} serves projects already", "Copy to a fleet without deployments.")
            await _seed(_log(target, copy), paths[0].parents[2])
            for _ in paths:
                on_copied()


async def check_tables(location: BucketLocation, bucket: Bucket) -> tuple[int, list[str]]:
    """Read the tables of all projects; return their number, and the projects whose tables are corrupt.

    Those of a fleet are built from its log. Raises `SvcError`.
    """
    if not has_tables(location):
        return 0, []
    async with _files(location, bucket) as paths:
        sound = [await _in_thread(path, _is_sound) for path in paths]
        names = [path.parent.parent.name for path in paths]
        return len(paths), [name for name, is_sound in zip(names, sound, strict=True) if not is_sound]


@asynccontextmanager
async def _files(location: BucketLocation, bucket: Bucket) -> AsyncIterator[list[Path]]:
    """Yield the database files of all projects: those of a fleet in a temporary folder."""
    if isinstance(location, FolderLocation):
        yield sorted(location.folder.glob(f"{PROJECTS}/*/tables/{DATABASE_NAME}"))
        return
    with temporary_folder("svc-tables-") as folder:
        yield await _build(_log(location, bucket), folder / PROJECTS)


def _log(location: ClusterLocation, bucket: Bucket) -> "TablesLog":
    from engine.fleet.bucket import JetStreamBucket
    from engine.fleet.tables_log import TablesLog

    assert isinstance(bucket, JetStreamBucket)
    return TablesLog(bucket.connection, bucket.namespace, location.fleet, _NODE, set)


async def _build(log: "TablesLog", projects: Path) -> list[Path]:
    """Build the tables of all projects from their logs; return the files. Raises `SvcError`."""
    await log.create()
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
        await _in_thread(path, _detach)
    return paths


async def _seed(log: "TablesLog", projects: Path) -> None:
    await log.create()
    await log.clear()
    seeding = Seeding(log, projects)
    try:
        await seeding.run()
    finally:
        seeding.rollback()


async def _in_thread(path: Path, work: Callable[..., _T], *arguments: object) -> _T:
    """Run a function that uses SQLite for a file. Raises `SvcError`, which names the file."""
    try:
        return await asyncio.to_thread(work, path, *arguments)
    except (Error, OSError) as error:
        raise SvcError(
            f"cannot copy {path}: {error}", "Check the disk and the file, then repeat it."
        ) from error


def _detach(path: Path) -> None:
    """Remove the position in the log from a file."""
    with closing(open_owner(path)) as connection:
        connection.execute("pragma journal_mode = delete")


def _copy_file(path: Path, target: Path) -> None:
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
