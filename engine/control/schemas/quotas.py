"""Models of quotas, and of the memory budget of a service. A limit is null where the project has none."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

from pydantic import Field

from engine.control.schema import StrictModel
from engine.quota import Quota

MAX_LIMIT = 1_000_000_000
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]


class QuotaOut(StrictModel):
    """The quota of a project: requests at once, their memory, rates per second, and size of the tables."""

    instances: int | None
    memory_mb: int | None
    requests: int | None
    storage_mb: int | None
    egress: int | None

    @classmethod
    def from_quota(cls, quota: Quota) -> "QuotaOut":
        """Return the response model of a quota."""
        return cls(**asdict(quota))


class QuotaRequest(StrictModel):
    """Limits to change. Absent ones stay as they are; null removes a limit."""

    instances: Limit | None = None
    memory_mb: Limit | None = None
    requests: Limit | None = None
    storage_mb: Limit | None = None
    egress: Limit | None = None


QuotaSource = Callable[[str], Quota | None]
"""Returns the quota of a served project; `None` in development."""


def no_quota(project: str) -> Quota | None:
    """Return nothing: quotas are those of a service."""
    return None


class MemoryState(StrictModel):
    """The memory budget of all processes of a service, and what they have resident, in bytes."""

    budget: int
    used: int


MemorySource = Callable[[], MemoryState | None]
"""Returns the state now; `None` in development."""


def no_memory_state() -> None:
    """Return nothing: the memory budget is that of a service."""
