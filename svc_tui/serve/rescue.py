"""A service for one machine, made of what one keeper of a fleet has. The other keepers are lost."""

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from doors.tables.replication.copy import digest_of
from doors.tables.replication.log_position import read_log_position
from doors.tables.sqlite.connections import DATABASE_NAME, apsw, is_replica, open_replica
from engine.bucket import durable, layout
from engine.bucket.copy import CopyReport
from engine.bucket.errors import disk_error
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import Bucket
from engine.files.atomic import write_atomic
from engine.files.database_files import copy_database, remove_database
from engine.files.temporary import temporary_folder
from engine.fleet.bucket import VALUES, JetStreamBucket
from engine.fleet.errors import FleetError
from engine.fleet.kv import token
from engine.fleet.members import listening
from engine.fleet.node import NODE_FOLDER, FleetNode
from engine.fleet.registry import KEEPERS
from engine.fleet.revival import revived
from engine.fleet.stream import JetStream
from engine.fleet.tables_log import STREAM as TABLES
from engine.service.secrets import KEY_PREFIX, SecretStore
from engine.service.secrets_key import KEY_FILE, SecretsKey, SecretsKeyError
from engine.timeline.json_format import format_utc
from svc_tui.serve.storage import (
    PROJECTS,
    copy_file,
    copy_storage,
    detach,
    in_thread,
    open_bucket,
    tables_log,
)

OPENED_BY = "svc fleet rescue"
_NODE_ID = re.compile(r"n[0-9]+-[0-9a-z]+")


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
    try:
        if target.exists() and any(target.iterdir()):
            raise FleetError(f"{target} is not empty", "Name a new folder.")
        target.parent.mkdir(parents=True, exist_ok=True)
        with layout.locked(data, OPENED_BY), temporary_folder(".svc-rescue-", target.parent) as work:
            copy = work / "data"
            async with revived(data, node, work) as served, open_bucket(served, OPENED_BY) as bucket:
                assert isinstance(bucket, JetStreamBucket)
                await _check_secrets(data, bucket)
                rescued = await _copy(data, served, bucket, copy, progress)
            if (key := data / KEY_FILE).exists():
                write_atomic(copy / KEY_FILE, key.read_bytes(), sync=True)
            durable.rename(copy, target)
            return rescued
    except OSError as error:
        raise disk_error(target, error) from error


async def _survivor(data: Path, keepers: Sequence[str]) -> FleetNode:
    """Return the keeper of a data directory, with the ids of all. Raises `SvcError` while one runs."""
    node = FleetNode.read(data / NODE_FOLDER)
    if node.state != "member" or not node.keeper:
        what = (
            "is an agent, which stores no deployments" if not node.keeper else "has no data of its fleet yet"
        )
        raise FleetError(f"the node {node.node} {what}", "Pass the data directory of a keeper: --data DIR")
    if running := await listening(node.nodes):
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


async def _check_secrets(data: Path, bucket: Bucket) -> None:
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
    log = await tables_log(served, bucket)
    entries, values = (JetStream(bucket.connection, name, bucket.namespace) for name in (TABLES, VALUES))
    contact, changed = await entries.last_stored(">"), await values.last_stored(">")
    folder = FolderBucket(target, OPENED_BY)
    try:
        report = await copy_storage(served, bucket, folder, progress)
    finally:
        await folder.aclose()
    tables, newer = {name: await entries.last_stored(token(name)) for name in await log.names()}, []
    for path in sorted(data.glob(f"{PROJECTS}/*/tables/{DATABASE_NAME}")):
        name = path.parent.parent.name
        own = target / path.relative_to(data)
        if await in_thread(path, _take_newer, log.id, await log.last(name), own):
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
        detach(copy)
        copy_file(copy, target)
        return True
    except (apsw.CorruptError, apsw.NotADBError):
        return False
    finally:
        remove_database(copy)
