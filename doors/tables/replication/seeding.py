"""The first entries of the logs: the tables that a service has when it becomes the first node of a fleet."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from doors.tables.replication.entry import MESSAGE_BYTES, Entry, messages_of
from doors.tables.replication.errors import ReplicationError
from doors.tables.replication.log_position import CREATE, LogPosition, schema_version, store_log_position
from doors.tables.sqlite.connections import Error, open_replica
from engine.cancellation import finish
from engine.files.temporary import temporary_folder
from engine.replication import ReplicatedLog


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
            for piece, complete in _pieces(image):
                entry = Entry(
                    kind="image",
                    previous=log_position.chain,
                    node=log.node,
                    schema=schema,
                    parts=(piece,),
                    complete=complete,
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


def _pieces(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Yield the pieces of a file, each with whether it is the last."""
    with path.open("rb") as file:
        piece = file.read(MESSAGE_BYTES)
        while piece:
            following = file.read(MESSAGE_BYTES)
            yield piece, not following
            piece = following
