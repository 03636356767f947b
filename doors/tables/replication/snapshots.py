"""Files with which the log of a project's tables can begin: snapshots, and the tables that a service had.

A copy begins with a snapshot instead of the first entry of the log. The node whose entry makes the log large
enough takes the next one. All nodes observe the same sizes.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from doors.tables.replication.entry import MESSAGE_BYTES, Entry, messages_of
from doors.tables.replication.errors import ReplicationError, storage_failure
from doors.tables.replication.log_position import (
    CREATE,
    LogPosition,
    read_log_position,
    schema_version,
    store_log_position,
)
from doors.tables.sqlite.connections import Connection, Error, open_replica
from engine.cancellation import finish
from engine.errors import SvcError
from engine.files.database_files import remove_database
from engine.files.temporary import temporary_folder
from engine.replication import LogSnapshot, LogSnapshots, ReplicatedLog

SNAPSHOT_BYTES = 16 << 20
"""Size of the log since the last snapshot at which another one is taken, or half the size of the file."""
STEP_PAGES = 64
"""Pages that are copied before they are written to the disk."""
_log = logging.getLogger("svc.tables")


class SnapshotTaker:
    """Takes the snapshots of a file. Use on the event loop of the log."""

    def __init__(
        self,
        log: ReplicatedLog,
        name: str,
        path: Path,
        in_thread: Callable[..., Awaitable[Any]],
        check: Callable[[], Awaitable[bool]],
    ) -> None:
        """`in_thread` runs a function that uses SQLite, `check` compares the copies."""
        self._log, self._name, self._path, self._in_thread = log, name, path, in_thread
        self._check = check
        self._due = 0
        self._busy = True
        self._storing = asyncio.Lock()

    def begin(self, snapshots: LogSnapshots) -> None:
        """Begin to observe the log, which has these snapshots."""
        self._due = (snapshots.stored[0].logged if snapshots.stored else 0) + self._interval()
        self._busy = False

    def _interval(self) -> int:
        try:
            return max(SNAPSHOT_BYTES, self._path.stat().st_size // 2)
        except OSError:
            return SNAPSHOT_BYTES

    def is_due(self, log_position: LogPosition, node: str) -> bool:
        """Return whether to call `take` after an entry of a node."""
        if self._busy or log_position.logged < self._due:
            return False
        if node == self._log.node:
            return True
        self._due += self._interval() // 2  # That node takes it, unless it fails.
        return False

    async def take(self, log_position: LogPosition) -> None:
        """Store a snapshot, unless another node has done so or no other copy is equal to this. Log errors.

        `log_position` is one that the copy has.
        """
        if self._busy:
            return
        self._busy = True
        try:
            snapshots = await self._log.snapshots(self._name)
            last = snapshots.stored[0].logged if snapshots.stored else 0
            if log_position.logged - last >= self._interval() and await self._check():
                last = await self.store()
            self._due = last + self._interval()
        except (SvcError, Error, OSError, TimeoutError) as error:
            reason = error.message if isinstance(error, SvcError) else storage_failure(error)
            _log.warning("no snapshot of the tables of %s could be taken: %s", self._name, reason)
            self._due += self._interval() // 2
        finally:
            self._busy = False

    async def store(self) -> int:
        """Store a snapshot and return the size of the log up to there.

        Raises `SvcError`, SQLite's errors and OSError.
        """
        file = snapshot_file(self._path)
        async with self._storing:
            try:
                snapshot: LogSnapshot = await self._in_thread(save_snapshot, self._path, file)
                await self._log.add_snapshot(self._name, snapshot, file)
                return snapshot.logged
            finally:
                with suppress(OSError):
                    await self._in_thread(remove_database, file)


def snapshot_file(path: Path) -> Path:
    """Return the path of the snapshot of a database while it is taken."""
    return path.with_name(path.name + ".snapshot")


def save_snapshot(path: Path, target: Path) -> LogSnapshot:
    """Copy a database file in one transaction. Raises SQLite's errors and OSError."""
    remove_database(target)
    with closing(open_replica(path)) as source, closing(Connection(str(target))) as copy:
        copy.execute("PRAGMA synchronous = off")
        source.execute("BEGIN")
        version, log_position = schema_version(source), read_log_position(source)
        with copy.backup("main", source, "main") as backup, target.open("rb") as content:
            # Commits of others wait for what their disk has not written yet.
            while not backup.step(STEP_PAGES):
                os.fdatasync(content.fileno())
    with target.open("rb") as content:
        return LogSnapshot(
            sequence=log_position.sequence,
            schema=version + log_position.schema_shift,
            logged=log_position.logged,
            digest=hashlib.file_digest(content, "sha256").hexdigest(),
            size=content.tell(),
        )


async def seed(log: ReplicatedLog, path: Path) -> None:
    """Append the tables in a file to their empty log, and store the position in it. Raises `SvcError`.

    No other process uses the file. Without a fleet, the next one that writes removes the position.
    """
    name, log_position = path.parent.parent.name, LogPosition(log.id, 0, "", 0, 0)
    try:
        with closing(open_replica(path)) as connection, temporary_folder("svc-seed-", path.parent) as folder:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(CREATE)
            image, schema = folder / path.name, schema_version(connection)
            await finish(asyncio.ensure_future(asyncio.to_thread(_save, path, image)))
            with image.open("rb") as file:
                size = image.stat().st_size
                while piece := file.read(MESSAGE_BYTES):
                    entry = Entry(
                        kind="image",
                        previous=log_position.chain,
                        node=log.node,
                        schema=schema,
                        parts=(piece,),
                        complete=file.tell() == size,
                    )
                    content = await asyncio.to_thread(entry.encode)
                    stored = await log.append(name, messages_of(content), log_position.sequence)
                    if stored is None:
                        raise ReplicationError("busy", f"the tables of {name} are in the fleet already")
                    log_position = log_position.after(stored, content)
            store_log_position(connection, log_position)
            connection.execute("COMMIT")
    except (Error, OSError) as error:
        raise ReplicationError("storage", f"the tables of {name} cannot be copied: {error}") from error


def _save(path: Path, image: Path) -> None:
    with closing(open_replica(path)) as connection:
        connection.execute("VACUUM INTO ?", (str(image),))
