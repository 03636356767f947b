"""The first entries of the logs: the tables that a service has when it becomes the first node of a fleet."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from doors.tables.replication.entry import MESSAGE_BYTES, Entry, messages_of
from doors.tables.replication.errors import ReplicationError
from doors.tables.replication.log_position import CREATE, LogPosition, schema_version, store_log_position
from doors.tables.sqlite.connections import DATABASE_NAME, Connection, Error, open_replica
from engine.cancellation import finish
from engine.files.temporary import temporary_folder
from engine.replication import ReplicatedLog


class Seeding:
    """Copies the tables of all projects to the logs.

    Until `commit` or `rollback` no process can write to them. Use on the event loop of the log.
    """

    def __init__(self, log: ReplicatedLog, projects: Path) -> None:
        """`projects` has the data folder of each project. Its logs are empty."""
        self._log, self._projects = log, projects
        self._locked: list[Connection] = []

    async def run(self) -> int:
        """Copy the tables and return the number of projects with tables. Raises `SvcError`."""
        try:
            for path in sorted(self._projects.glob(f"*/tables/{DATABASE_NAME}")):
                await self._copy(path)
        except Error as error:
            raise ReplicationError("storage", f"the tables cannot be copied to the fleet: {error}") from error
        return len(self._locked)

    async def _copy(self, path: Path) -> None:
        connection = await finish(asyncio.ensure_future(asyncio.to_thread(self._lock, path)))
        schema = schema_version(connection)
        name, log_position = path.parent.parent.name, LogPosition(self._log.id, 0, "", 0, 0)
        with temporary_folder("svc-seed-", path.parent) as folder:
            image = folder / DATABASE_NAME
            await asyncio.to_thread(_save, path, image)
            for piece, complete in _pieces(image):
                entry = Entry(
                    kind="image",
                    previous=log_position.chain,
                    node=self._log.node,
                    schema=schema,
                    parts=(piece,),
                    complete=complete,
                )
                content = await asyncio.to_thread(entry.encode)
                stored = await self._log.append(name, messages_of(content), log_position.sequence)
                if stored is None:
                    raise ReplicationError("busy", f"the tables of {name} are in the fleet already")
                log_position = log_position.after(stored, content)
        store_log_position(connection, log_position)

    def _lock(self, path: Path) -> Connection:
        connection = open_replica(path)
        self._locked.append(connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(CREATE)
        return connection

    def commit(self) -> None:
        """Connect the files to their logs, and let writers continue."""
        self._end("COMMIT")

    def rollback(self) -> None:
        """Leave the files as they were, and let writers continue."""
        self._end("ROLLBACK")

    def _end(self, statement: str) -> None:
        for connection in self._locked:
            with closing(connection), suppress(Error):  # A file without a position is built from the log.
                connection.execute(statement)
        self._locked.clear()


def _save(path: Path, image: Path) -> None:
    with closing(open_replica(path)) as connection:
        connection.execute("VACUUM INTO ?", (str(image),))


def _pieces(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Yield the pieces of a file, each with whether it is the last."""
    with path.open("rb") as file:
        piece = file.read(MESSAGE_BYTES)
        while piece:
            following = file.read(MESSAGE_BYTES)
            yield piece, not following
            piece = following
