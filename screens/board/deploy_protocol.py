"""Interface between the Board and the deployer: progress, plans, history and rollbacks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from svc_tui.deploy.format import Difference

Step = Literal["build", "upload", "policy", "activate"]
STEPS: tuple[Step, ...] = ("build", "upload", "policy", "activate")


@dataclass(frozen=True, slots=True)
class DeployProgress:
    """A progress event of a step. A `transient` one is replaced by the next event."""

    step: Step
    text: str
    transient: bool = False


OnProgress = Callable[[DeployProgress], None]
"""Receives progress events on the thread of the deploy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployPlan:
    """The changes of a deploy to a service. `live` is the id of the live deployment, if any.

    `files` with `size` bytes would be uploaded; `migrations` lists the new migration files,
    and `warnings` what the deploy leaves out.
    """

    service: str
    live: str | None
    differences: tuple[Difference, ...]
    files: int
    size: int
    migrations: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def needs_approval(self) -> bool:
        """True if the user must approve the deploy explicitly."""
        return any(difference.mark == "!" for difference in self.differences)

    @property
    def up_to_date(self) -> bool:
        """True if this version is already live."""
        return self.live is not None and not self.differences and not self.migrations and not self.files


@dataclass(frozen=True, slots=True)
class Address:
    """The location of a resource: its URL, or the mounts of a private one."""

    resource: str
    lane: str
    location: str


@dataclass(frozen=True, slots=True)
class LiveDeployment:
    """A deployment that was made live, and the locations of its resources."""

    deployment: str
    addresses: tuple[Address, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """A deployment of the history. `created` is in local time.

    `rolled_back` describes the rollback that made it live again; "" if there was none.
    """

    id: str
    created: str
    by: str
    commit: str
    message: str
    live: bool
    rolled_back: str = ""


@dataclass(frozen=True, slots=True)
class Rollback:
    """The changes of a rollback. It is valid for one revision of the live deployment."""

    deployment: str
    live: str
    revision: int
    differences: tuple[Difference, ...]


class BoardDeployer(Protocol):
    """Deploys one project to its service. Methods block and raise `SvcError`."""

    has_files: bool
    """True if the project's files are available, so that it can be deployed."""

    def plan(self, on_progress: OnProgress) -> DeployPlan:
        """Build the project and return what a deploy would change."""
        ...

    def run(self, on_progress: OnProgress, *, allow: bool, message: str) -> LiveDeployment:
        """Deploy the last plan."""
        ...

    def cancel(self) -> bool:
        """Cancel the build or upload. Return whether it was possible: a commit cannot be canceled."""
        ...

    def history(self) -> Sequence[HistoryEntry]:
        """Return the retained deployments, the newest first."""
        ...

    def rollback_plan(self, deployment: str) -> Rollback:
        """Return what a rollback to a deployment would change."""
        ...

    def rollback(self, plan: Rollback, reason: str) -> LiveDeployment:
        """Make an earlier deployment live."""
        ...
