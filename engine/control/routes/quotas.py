"""Routes and models for the quotas of projects, and the model of a service's memory.

An owner of every project changes quotas, viewers of a project see its. A limit is null where the project has
none.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

from pydantic import Field

from engine.control.access import ALL_PROJECTS
from engine.control.app import Routes, require
from engine.control.schemas import StrictModel
from engine.quota import NO_QUOTA, Quota
from engine.service.deployer import Deployer

MAX_LIMIT = 1_000_000_000
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]


class QuotaOut(StrictModel):
    """The quota of a project: requests at once, their memory, rates, and sizes of tables and files."""

    instances: int | None
    memory_mb: int | None
    requests: int | None
    storage_mb: int | None
    egress: int | None
    files_mb: int | None


class QuotaRequest(StrictModel):
    """Limits to change. Absent ones stay as they are; null removes a limit."""

    instances: Limit | None = None
    memory_mb: Limit | None = None
    requests: Limit | None = None
    storage_mb: Limit | None = None
    egress: Limit | None = None
    files_mb: Limit | None = None


QuotaSource = Callable[[str], Quota | None]
"""Returns the quota of a served project; `None` in development."""


class MemoryState(StrictModel):
    """The memory budget of all processes of a service, and what they have resident, in bytes."""

    budget: int
    used: int


MemorySource = Callable[[], MemoryState | None]
"""Returns the state now; `None` in development."""


def blueprint(service: Deployer) -> Routes:
    """Return the routes."""
    routes = Routes("quotas", __name__)

    @routes.get("/v1/projects/<project>/quota")
    async def quota(project: str) -> QuotaOut:
        """Return the quota of a project."""
        require(project, "viewer")
        return QuotaOut(**asdict(await service.quotas.get(project)))

    @routes.put("/v1/projects/<project>/quota")
    async def set_quota(project: str, data: QuotaRequest) -> QuotaOut:
        """Change limits of a project, deployed or not. They apply from the next request."""
        require(ALL_PROJECTS, "owner")
        return QuotaOut(**asdict(await service.set_quota(project, data.model_dump(exclude_unset=True))))

    @routes.delete("/v1/projects/<project>/quota")
    async def remove_quota(project: str) -> QuotaOut:
        """Remove all limits of a project."""
        require(ALL_PROJECTS, "owner")
        limits = dict.fromkeys(NO_QUOTA.__dataclass_fields__)
        return QuotaOut(**asdict(await service.set_quota(project, limits)))

    return routes
