"""Jobs of a project, and their store: what the Door `jobs`, the runner and the routes share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

JobState = Literal["waiting", "running", "dead"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job: a request that svc sends to `path` of `resource`, with `size` bytes of body.

    `due` is the time of the next try, the end of the claim of a running one, or the death of a dead one.
    `request` is the id of the last try that failed, and `error` why.
    """

    id: str
    resource: str
    path: str
    key: str | None
    state: JobState
    added: str
    due: str
    tries: int
    max_tries: int
    request: str
    error: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob(Job):
    """A job with its body, None if it was not read. `text` is whether that is JSON."""

    text: bool
    body: bytes | None = None


class Ended(NamedTuple):
    """The end of a try. A job that is not `done` is due again at `due`, or dead if that is None."""

    id: str
    done: bool = False
    due: int | None = None
    request: str = ""
    error: str = ""


@runtime_checkable
class JobStore(Protocol):
    """The jobs of one project. Its methods run on the event loop, and raise `SvcError`."""

    async def next_due(self) -> int | None:
        """Return when a job is due, without opening the tables for writing; None without jobs."""

    async def claim(self, owner: str, *, until: int, count: int) -> tuple[Sequence[StoredJob], int | None]:
        """Begin tries of jobs that are due, at most `count`, by the process `owner`.

        Returns them, and when the next one is due. For other processes, a try that has not ended at `until`
        counts as interrupted.
        """

    async def body(self, job: StoredJob) -> bytes | None:
        """Return the body of a claimed job; None if the job was removed."""

    async def end(self, owner: str, ended: Ended) -> None:
        """Store the end of a try of this process."""

    async def reclaim(self, node: str, owner: str, running: Sequence[str]) -> None:
        """Make jobs due that other processes of this node had claimed: those have ended.

        So are those of this process that are not `running`: the claim failed after it was stored.
        """

    async def list(
        self, *, state: JobState | None = None, after: str = "", limit: int
    ) -> tuple[Sequence[Job], dict[str, int]]:
        """Return jobs after an id, without their bodies, and how many there are by state."""

    async def find(self, id_: str) -> StoredJob:
        """Return a job with its body. Raises an error of the code `not-found`."""

    async def retry(self, ids: Sequence[str] | None) -> int:
        """Make dead or waiting jobs due now with all their tries; None: all dead ones. Return how many."""

    async def remove(self, ids: Sequence[str] | None, state: JobState = "dead") -> int:
        """Remove jobs; None: all in a state. Return how many."""
