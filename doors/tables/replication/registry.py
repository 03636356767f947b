"""The replicated tables of this process, found by the path of their file.

Each writing connection looks here when it opens, so that no way to write bypasses the log.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

from engine.door import DoorRequest, DoorResponse


class Replicated(Protocol):
    """The replica of one project."""

    def record(self, connection: Any, *, exclusive: bool) -> None:
        """Send the transactions of an SQLite connection to the log."""

    @property
    def written(self) -> int:
        """Sequence of the last entry that this node has stored or applied."""

    async def open(self, *, fresh: bool, written: int = 0) -> bool:
        """Wait until the copy exists or, if `fresh` or if it lacks `written`, has all.

        Returns False if the copy cannot answer a fresh read and the writer can. Raises `SvcError`.
        """

    def refresh(self) -> None:
        """Wait until the local copy has all stored entries, on another thread than that of the event loop."""

    async def forward(self, request: DoorRequest, *, repeatable: bool) -> DoorResponse | None:
        """Run a request of a guest on the node that writes, or return None: this node is that one.

        Without an answer of that node, a `repeatable` one is sent again. Notes the write in its session.
        Raises `SvcError`.
        """

    def execute_with(self, execute: Callable[[DoorRequest], Awaitable[DoorResponse]] | None) -> None:
        """Set the function that runs the requests that other nodes forward."""

    def repair(self, reason: str) -> None:
        """Build the local copy again, whose file turned out to be damaged. Call it on the event loop."""


class ReplicaSource(Protocol):
    """The replicas of the projects in one folder."""

    def of(self, data: Path) -> Replicated:
        """Return the replica of a project's data folder."""


_active: dict[Path, ReplicaSource] = {}


def activate(projects: Path, replicas: ReplicaSource) -> None:
    """Replicate the tables of the projects in a folder."""
    _active[projects] = replicas


def deactivate(projects: Path) -> None:
    """Stop replication for new connections."""
    _active.pop(projects, None)


def is_active() -> bool:
    """Return whether any tables of this process are replicated."""
    return bool(_active)


def find_replica(path: Path) -> Replicated | None:
    """Return the replica of a database file, or None if it is not replicated."""
    if not _active:
        return None
    data = path.parent.parent
    replicas = _active.get(data.parent)
    return replicas.of(data) if replicas is not None else None
