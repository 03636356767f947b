"""The tables database of a project, for data of other Doors that belongs to it.

Backups, restores and fleets have that data. Its tables have reserved names, which guests and imports cannot
use.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from doors.tables.replication.entry import Origin
from doors.tables.replication.registry import find_replica
from doors.tables.sqlite.errors import Connection, atomic
from doors.tables.sqlite.owner import database_path, open_for_reading, open_for_writing
from engine.door import Caller, Session

T = TypeVar("T")


class ProjectDatabase:
    """The database of the project whose data folder is `data`: a `Database` of `doors/files/store.py`."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def read(self, work: Callable[[Connection], T], stale: Session | None = None) -> T:
        with open_for_reading(self._data, stale) as connection:
            return work(connection)

    def written(self) -> int:
        replica = find_replica(database_path(self._data))
        return replica.written if replica is not None else 0

    def write(self, work: Callable[[Connection], T], by: Caller | str) -> T:
        if isinstance(by, str):
            origin = Origin("edit", user=by)
        else:
            origin = Origin("request", by.deployment, requests=(by.request_id,))
        with open_for_writing(self._data, origin=origin) as connection, atomic(connection):
            return work(connection)
