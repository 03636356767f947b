"""What the Board asks of whoever deploys, and what it is told: steps, differences, history, the way back.

Owns these shapes. Building, uploading and the service are behind the `Deployer` that the Console gives.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from svc_tui.deploy.format import Difference

Step = Literal["build", "upload", "policy", "flip"]
STEPS: tuple[Step, ...] = ("build", "upload", "policy", "flip")


@dataclass(frozen=True, slots=True)
class Progress:
    """Something happened in a step. What is `passing` gives way to the next that is told of it."""

    step: Step
    text: str
    passing: bool = False


Tell = Callable[[Progress], None]
"""Hears how it goes on, on the thread that it goes on."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a deploy to a service would change. `live` is the deployment that serves now, if one does.

    `files` of `size` bytes are not there yet; `migrations` are the Project's files that are new.
    """

    service: str
    live: str | None
    differences: tuple[Difference, ...]
    files: int
    size: int
    migrations: tuple[str, ...]

    @property
    def grave(self) -> bool:
        """Whether the deployer has to allow it by word."""
        return any(each.mark == "!" for each in self.differences)

    @property
    def needless(self) -> bool:
        """Whether what is here is live already."""
        return self.live is not None and not self.differences and not self.migrations


@dataclass(frozen=True, slots=True)
class Address:
    """Where a Resource is, in words: its address, or where a private one is mounted."""

    resource: str
    lane: str
    place: str


@dataclass(frozen=True, slots=True)
class Live:
    """What is live now, and where."""

    deployment: str
    addresses: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment of the history: when (local time), by whom, of which commit, what for.

    `back` says since when and why it serves again.
    """

    id: str
    created: str
    by: str
    commit: str
    message: str
    live: bool
    back: str = ""


@dataclass(frozen=True, slots=True)
class Rollback:
    """What having a deployment live again would change, made against the revision of what is live."""

    deployment: str
    live: str
    revision: int
    differences: tuple[Difference, ...]


class Deployer(Protocol):
    """One Project's way to its service. Methods block, and raise `SvcError`."""

    has_files: bool
    """Whether there is anything to deploy: the Project's files are here."""

    def plan(self, tell: Tell) -> Plan:
        """Build, and say what would change."""
        ...

    def run(self, tell: Tell, *, allow: bool, message: str) -> Live:
        """Have what was planned last go live."""
        ...

    def cancel(self) -> bool:
        """Break off what goes on, as long as nothing is asked of the service; return whether it is."""
        ...

    def history(self) -> Sequence[Deployment]:
        """Return the deployments that are kept, the newest first."""
        ...

    def rollback_plan(self, deployment: str) -> Rollback:
        """Say what having a deployment live again would change."""
        ...

    def rollback(self, plan: Rollback, reason: str) -> Live:
        """Have it live again."""
        ...
