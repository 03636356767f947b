"""Routes and models for the usage of resources, and for the quotas of projects.

An owner of every project changes quotas, viewers of a project see its. A limit is null where the project has
none.
"""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field
from quart import Response
from quart_schema import document_response

from engine.control.access import ALL_PROJECTS
from engine.control.app import Routes
from engine.control.project_threads import ProjectThreads
from engine.control.projects import Projects
from engine.control.schemas import QueryModel, StrictModel
from engine.quota import Quota
from engine.usage.store import MINUTE_NS, USAGE_FILE, Key, UsageCount, UsageStore

if TYPE_CHECKING:
    from engine.service.deployer import Deployer

MAX_LIMIT = 1_000_000_000
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
_CHUNK_ROWS = 1000
_NAMES = ("minute", "resource", *(each.name for each in fields(UsageCount)))


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


def quota_blueprint(service: "Deployer") -> Routes:
    """Return the routes of quotas."""
    routes = Routes("quotas", __name__)

    @routes.get("/v1/projects/<project>/quota", "viewer")
    async def quota(project: str) -> QuotaOut:
        """Return the quota of a project."""
        return QuotaOut.from_value(await service.quotas.get(project))

    @routes.put("/v1/projects/<project>/quota", "owner", scope=ALL_PROJECTS)
    async def set_quota(project: str, data: QuotaRequest) -> QuotaOut:
        """Change limits of a project, deployed or not. They apply from the next request."""
        change = service.quotas.change(project, data.model_dump(exclude_unset=True))
        return QuotaOut.from_value(await service.change(project, change))

    @routes.delete("/v1/projects/<project>/quota", "owner", scope=ALL_PROJECTS)
    async def remove_quota(project: str) -> QuotaOut:
        """Remove all limits of a project."""
        change = service.quotas.change(project, dict.fromkeys(QuotaOut.model_fields))
        return QuotaOut.from_value(await service.change(project, change))

    return routes


class UsageQuery(QueryModel):
    """How many minutes back."""

    minutes: int = Field(24 * 60, ge=1, le=60 * 24 * 366)


class UsageRow(BaseModel):
    """The usage of a resource in one minute (Unix time in minutes). Times are in ns, sizes in bytes."""

    minute: int
    resource: str
    requests: int
    failures: int
    compute_ns: int
    wall_ns: int
    peak_memory: int
    bytes_in: int
    bytes_out: int


class UsageOut(BaseModel):
    """One row per resource and minute with activity, summed over the nodes of a fleet.

    `memory` is that of the service on the node that was asked.
    """

    rows: list[UsageRow]
    memory: MemoryState | None


def blueprint(projects: Projects, memory: MemorySource = lambda: None) -> Routes:
    """Return the route of usage."""
    routes = Routes("usage", __name__)
    threads = ProjectThreads("usage")

    @routes.get("/v1/projects/<project>/usage", "viewer")
    @document_response(UsageOut)
    async def usage(project: str, query_args: UsageQuery) -> Response:
        """Return the usage of each resource per minute."""
        first = time.time_ns() // MINUTE_NS - query_args.minutes + 1
        next_rows = partial(next, _pages(projects.data_dir(project) / USAGE_FILE, first), b"")
        run = threads.of(project)
        first_rows = await run(next_rows)

        async def document() -> AsyncIterator[bytes]:
            yield b'{"rows":['
            rows = first_rows
            while rows:
                yield rows
                if rows := await run(next_rows):
                    yield b","
            state = memory()
            rest = {"memory": None if state is None else state.model_dump(mode="json")}
            yield b"]," + json.dumps(rest).encode()[1:]

        return Response(document(), content_type="application/json")

    return routes


def _pages(path: Path, first: int) -> Iterator[bytes]:
    """Yield pages of the rows from a minute on as JSON: a month may have millions. Raises `UsageError`."""
    after: Key = (first, "")
    while path.exists():
        with closing(UsageStore(path)) as store:
            rows = store.page(after, _CHUNK_ROWS)
        if not rows:
            return
        after = rows[-1][0], rows[-1][1]
        yield b",".join(json.dumps(dict(zip(_NAMES, row, strict=True))).encode() for row in rows)
