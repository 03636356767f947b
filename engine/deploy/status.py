"""Status of a Resource, as the control API reports it."""

from dataclasses import dataclass
from typing import Literal

from engine.errors import SvcError

State = Literal["waiting", "building", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class BuildStatus:
    """Builds of a Resource in development. `error` and `seconds` belong to the last finished one."""

    queued: bool = False
    running: bool = False
    error: SvcError | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """State of a Resource.

    `error` is why its last build failed or why it cannot run. `serves` is true if any version answers
    requests, including an older one. `seconds` is the duration of the last build, `None` if unknown.
    """

    state: State
    error: SvcError | None
    serves: bool
    seconds: float | None = None
