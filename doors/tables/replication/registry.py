"""The replicated tables of this process, found by the path of their file.

Each writing connection looks here when it opens, so that no way to write bypasses the log.
"""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from doors.tables.replication.replica import Replica, Replicas

active: "dict[Path, Replicas]" = {}
"""The replicas of the projects in a folder."""
_folders = lru_cache(1024)(lambda path: path.parents[1:3])
"""The folders of a file's project and of all projects, which each request of a guest needs."""


def find_replica(path: Path) -> "Replica | None":
    """Return the replica of a database file, or None if it is not replicated."""
    if not active:
        return None
    data, projects = _folders(path)
    replicas = active.get(projects)
    return replicas.of(data) if replicas is not None else None
