"""The storage of a service, that of a data directory or of its fleet: opened, copied, checked and rescued.

A rescue makes a service for one machine of what one keeper of a fleet has. The other keepers are lost.
nats-server knows by their names the servers that store a stream, and needs a majority of them. So one server
on loopback with the name of each keeper serves a copy of the store.
"""

import asyncio
import random
import re
import secrets
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from doors.tables.replication.copy import digest_of, read_log_position, save, seed
from doors.tables.replication.errors import ReplicationError
from doors.tables.replication.recorder import Unsound, not_replicable, unsound_tables
from doors.tables.replication.replica import Replicas
from doors.tables.sqlite.catalog import reserved
from doors.tables.sqlite.connections import (
    DATABASE_NAME,
    REPLICA_TABLE,
    Error,
    apsw,
    is_replica,
    open_replica,
)
from engine.bucket import layout
from engine.bucket.copy import CopyReport, copy_bucket
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import Bucket, disk_errors
from engine.errors import SvcError
from engine.files.atomic import rename_durably, write_atomic
from engine.files.database_files import copy_database, remove_database
from engine.files.temporary import temporary_folder
from engine.fleet.bucket import NAMESPACE, STREAMS, VALUES, JetStream, JetStreamBucket, token
from engine.fleet.errors import FleetError
from engine.fleet.members import listening
from engine.fleet.nats_server import NatsServer
from engine.fleet.node import (
    MAX_PORT,
    NODE_FOLDER,
    STORE,
    UPLOADS,
    FleetNode,
    NodeAddress,
    check_address,
    cluster_address,
    create_keeper,
    find_node,
)
from engine.fleet.registry import KEEPERS
from engine.fleet.tables_log import SNAPSHOTS, STREAM, TablesLog
from engine.service.secrets import KEY_FILE, KEY_PREFIX, SecretsKey, SecretsKeyError, SecretStore
from engine.timeline.record import format_utc

READY_SECONDS = 120.0
_STREAMS = Path("jetstream", "SVC", "streams")


@asynccontextmanager
async def _revived(data: Path, node: FleetNode, work: Path) -> AsyncGenerator[Path, None]:
    """Serve copies of the store of a keeper that does not run; yield a data directory of that fleet.

    `data` is that of the keeper, `node` names all keepers, and `work` is an empty folder. Raises `SvcError`.
    """
    from engine.certificates.private import Issuer

    store = data / NODE_FOLDER / STORE
    for name in (*STREAMS, STREAM, SNAPSHOTS):
        if not (store / _STREAMS / name).is_dir():
            raise FleetError(
                f"{data} has no copy of the stream {name}", "Use the data directory of another keeper."
            )
    authority, client, system = Issuer.create(node.fleet), secrets.token_hex(), secrets.token_hex()
    addresses = _free_addresses(len(node.keepers))
    servers: list[NatsServer] = []
    async with AsyncExitStack() as stack:
        for keeper, address in zip(node.keepers, addresses, strict=True):
            folder = work / keeper / NODE_FOLDER
            own = replace(node, node=keeper, address=address, nodes=addresses)
            with disk_errors(work):
                folder.parent.mkdir()
                create_keeper(folder, own, authority, client, system)
                await asyncio.to_thread(_copy_store, store, folder / STORE)
            server = NatsServer(folder, own, lambda level, line: None)
            await server.start()
            stack.push_async_callback(server.kill)
            servers.append(server)
        for server in servers:
            await server.ready(READY_SECONDS)
        yield folder.parent


def _free_addresses(count: int) -> tuple[NodeAddress, ...]:
    while True:
        first = random.randrange(10_000, MAX_PORT - count)
        addresses = tuple(NodeAddress("127.0.0.1", port) for port in range(first, first + count))
        with suppress(FleetError):
            for address in addresses:
                check_address(address)
            return addresses


def _copy_store(source: Path, target: Path) -> None:
    """Copy a folder. Raises OSError with its cause, which `shutil.copytree` would not."""
    for path in source.rglob("*"):
        copy = target / path.relative_to(source)
        (copy if path.is_dir() else copy.parent).mkdir(parents=True, exist_ok=True)
        if path.is_file():
            shutil.copyfile(path, copy)


RESCUE = "svc fleet rescue"
_NODE_ID = re.compile(r"n[0-9]+-[0-9a-z]+")
PROJECTS = "projects"
_T = TypeVar("_T")


@asynccontextmanager
async def open_bucket(data: Path, opened_by: str) -> AsyncIterator[Bucket]:
    """Open the bucket of a data directory, or that of the fleet whose node it is. Raises `SvcError`."""
    node = find_node(data)
    if node is not None and node.state == "member":
        folder = data / NODE_FOLDER
        address = cluster_address(folder, node)
        bucket: Bucket = await JetStreamBucket.open(address, NAMESPACE, folder / UPLOADS, create=False)
    elif (data / layout.VERSION).is_file():
        bucket = FolderBucket(data, opened_by)
    else:
        raise SvcError(f"{data} is not a bucket", "Pass the data directory of a service, or a backup.")
    async with aclosing(bucket):
        yield bucket


async def copy_storage(
    data: Path,
    source: Bucket,
    target: FolderBucket | JetStreamBucket,
    progress: Callable[[CopyReport], None] = lambda report: None,
) -> CopyReport:
    """Copy a bucket and the tables of all projects to an empty data directory, or to the fleet of `data`.

    Content of a fleet that does not serve is replaced. Raises `SvcError`.
    """
    log = None
    if isinstance(target, JetStreamBucket):
        await check_replicable(data)
        log = await _tables_log(data, target)
        await log.clear()
    async with _files(data, source) as paths:
        for path in paths:
            if log is not None:
                await seed(log, path)
            elif isinstance(target, FolderBucket):
                await _in_thread(path, _copy_file, target.root / path.relative_to(paths[0].parents[3]))
    report = await copy_bucket(source, target, progress, overwrite=log is not None)
    report.tables = len(paths)
    return report


async def check_replicable(data: Path) -> None:
    """Raise `SvcError` if tables of the projects could not be created in a fleet."""
    names, remedies = [], []
    for path in databases(data):
        project = path.parent.parent.name
        for table, (_, remedy, _) in (await _in_thread(path, _unsound_tables)).items():
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
        corrupt = [path for path in paths if not await _in_thread(path, _is_sound)]
        return len(paths), [path.parent.parent.name for path in corrupt]


@asynccontextmanager
async def _files(data: Path, bucket: Bucket) -> AsyncIterator[list[Path]]:
    """Yield the database files of all projects: those of a fleet in a temporary folder."""
    if not isinstance(bucket, JetStreamBucket):
        yield databases(data)
        return
    log = await _tables_log(data, bucket)
    with temporary_folder("svc-tables-") as folder:
        yield await _build(log, folder / PROJECTS)


def databases(data: Path) -> list[Path]:
    return sorted(data.glob(f"{PROJECTS}/*/tables/{DATABASE_NAME}"))


async def _tables_log(data: Path, bucket: JetStreamBucket) -> TablesLog:
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
            while replica.copy.position < last:
                if replica.copy.position == reached:
                    await replica.reach(last)
                reached = replica.copy.position
                with suppress(ReplicationError):  # Entries are still applied.
                    await replica.reach(last)
    finally:
        await replicas.aclose()
    paths = [projects / name / "tables" / DATABASE_NAME for name in names]
    for path in paths:
        await _in_thread(path, _detach)
    return paths


async def _in_thread(path: Path, work: Callable[..., _T], *arguments: object) -> _T:
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


def _detach(path: Path) -> None:
    """Remove the position in the log from a file. Raises SQLite's errors."""
    with closing(open_replica(path)) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {REPLICA_TABLE}")
        connection.execute("pragma journal_mode = delete")


def _copy_file(path: Path, target: Path) -> None:
    """Replace a database file by a copy of another one. Raises OSError and SQLite's errors."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    remove_database(target)
    save(path, target)


def _is_sound(path: Path) -> bool:
    try:
        with closing(open_replica(path)) as connection:
            return connection.execute("pragma integrity_check(1)").fetchone() == ("ok",)
    except (apsw.CorruptError, apsw.NotADBError):
        return False


class Rescued(NamedTuple):
    """Contents of a keeper's data directory. Times are RFC 3339, in UTC.

    `contact`: when it got the last message of the fleet. `changed`: the last change of deployments, accounts
    or secrets. `tables`: by project, that of its tables. `newer`: projects whose tables are those that the
    node served, because they had more than its log.
    """

    node: str
    report: CopyReport
    contact: str
    changed: str
    tables: dict[str, str]
    newer: list[str]


async def rescue(
    data: Path, target: Path, keepers: Sequence[str], progress: Callable[[CopyReport], None]
) -> Rescued:
    """Copy what a keeper that does not run has to a new data directory of a service for one machine.

    `keepers` are the ids of all keepers, if the node does not know them. `target` is missing or empty, and
    complete once it has its name; `data` stays as it is. Raises `SvcError`.
    """
    node = await _survivor(data, keepers)
    with disk_errors(target):
        if target.exists() and any(target.iterdir()):
            raise FleetError(f"{target} is not empty", "Name a new folder.")
        target.parent.mkdir(parents=True, exist_ok=True)
        with layout.locked(data, RESCUE), temporary_folder(".svc-rescue-", target.parent) as work:
            copy = work / "data"
            async with _revived(data, node, work) as served, open_bucket(served, RESCUE) as bucket:
                assert isinstance(bucket, JetStreamBucket)
                await _check_key(data, bucket)
                rescued = await _copy(data, served, bucket, copy, progress)
            if (key := data / KEY_FILE).exists():
                write_atomic(copy / KEY_FILE, key.read_bytes(), sync=True)
            rename_durably(copy, target)
            return rescued


async def _survivor(data: Path, keepers: Sequence[str]) -> FleetNode:
    """Return the keeper of a data directory, with the ids of all. Raises `SvcError` while one runs."""
    node = FleetNode.read(data / NODE_FOLDER)
    if node.state != "member" or not node.keeper:
        what = (
            "is an agent, which stores no deployments" if not node.keeper else "has no data of its fleet yet"
        )
        raise FleetError(f"the node {node.node} {what}", "Pass the data directory of a keeper: --data DIR")
    if (running := await listening(node.nodes)) == [node.address]:
        raise FleetError(
            f"the keeper at {node.address} runs, on this data directory", "Stop its service first."
        )
    if running:
        raise FleetError(
            f"the keeper at {running[0]} runs",
            "While most keepers are left, the fleet continues: start this service, then replace the lost one"
            " with `svc fleet token --keeper` and `svc fleet remove`. Otherwise stop the keeper that runs.",
        )
    node = replace(node, keepers=tuple(keepers) or node.keepers)
    if len(node.keepers) < KEEPERS or not all(map(_NODE_ID.fullmatch, (node.node, *node.keepers))):
        raise FleetError(
            f"{data} does not have the ids of all keepers",
            "Name all, also the lost ones: --keepers n1-…,n2-…,n3-…. `svc fleet status` printed them.",
        )
    return node


async def _check_key(data: Path, bucket: Bucket) -> None:
    """Raise `SecretsKeyError` if the key of a data directory does not open the secrets."""
    if not (data / KEY_FILE).exists():
        return
    store = SecretStore(bucket.kv, SecretsKey.open(data))
    for value in await bucket.kv.list(KEY_PREFIX):
        project = value.key.removeprefix(KEY_PREFIX)
        try:
            await store.values(project, set(await store.names(project)))
        except SecretsKeyError as error:
            raise SecretsKeyError(
                f"{data / KEY_FILE} is not the key of this fleet: {error.message}",
                "Restore it from a copy. To rescue all but the values of secrets, move it away.",
            ) from error


async def _copy(
    data: Path, served: Path, bucket: JetStreamBucket, target: Path, progress: Callable[[CopyReport], None]
) -> Rescued:
    log = await _tables_log(served, bucket)
    entries, values = (JetStream(bucket.connection, name, bucket.namespace) for name in (STREAM, VALUES))
    changed = await values.last_stored(">")
    contact = max(changed, await entries.last_stored(">"), key=lambda time: time.removesuffix("Z"))
    async with aclosing(FolderBucket(target, RESCUE)) as folder:
        report = await copy_storage(served, bucket, folder, progress)
    tables, newer = {name: await entries.last_stored(token(name)) for name in await log.names()}, []
    for path in databases(data):
        name = path.parent.parent.name
        own = target / path.relative_to(data)
        if await _in_thread(path, _take_newer, log.id, await log.last(name), own):
            changes = [each.stat().st_mtime_ns for each in path.parent.glob(f"{DATABASE_NAME}*")]
            tables[name] = format_utc(max(changes))
            newer.append(name)
    report.tables = len(tables)
    return Rescued(FleetNode.read(data / NODE_FOLDER).node, report, contact, changed, tables, newer)


def _take_newer(path: Path, log: str, last: int, target: Path) -> bool:
    """Replace tables by a sound copy of them if that is newer than the entry `last` of the log."""
    copy = target.with_name(target.name + ".own")
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy_database(path, copy)
    try:
        with closing(open_replica(copy)) as connection:
            position = read_log_position(connection) if is_replica(connection) else None
            newer = position is not None and position.log == log and position.sequence > last
            if not newer or not digest_of(connection):
                return False
        _detach(copy)
        _copy_file(copy, target)
        return True
    except (apsw.CorruptError, apsw.NotADBError):
        return False
    finally:
        remove_database(copy)
