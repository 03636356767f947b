"""Route for the resource usage of a project.

It reads the usage database directly, so a slow client does not delay requests.
"""

import asyncio
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field
from quart import Blueprint
from quart_schema import validate_querystring, validate_response

from engine.control.app import require
from engine.control.projects import Projects
from engine.control.schema import QueryModel
from engine.control.schemas.memory import MemorySource, MemoryState, no_memory_state
from engine.usage import store
from engine.usage.aggregate import MINUTE_NS


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
    """One row per resource and minute with activity. `memory` is that of the service."""

    rows: list[UsageRow]
    memory: MemoryState | None


def blueprint(projects: Projects, memory: MemorySource = no_memory_state) -> Blueprint:
    """Return the route."""
    routes = Blueprint("usage", __name__)

    @routes.get("/v1/projects/<project>/usage")
    @validate_querystring(UsageQuery)
    @validate_response(UsageOut)
    async def usage(project: str, query_args: UsageQuery) -> UsageOut:
        """Return the usage of each resource per minute."""
        require(project, "viewer")
        first = time.time_ns() // MINUTE_NS - query_args.minutes + 1
        counts = await asyncio.to_thread(_usage, projects.data_dir(project) / store.USAGE_FILE, first)
        return UsageOut(
            rows=[
                UsageRow(minute=minute, resource=resource, **asdict(count))
                for (minute, resource), count in counts.items()
            ],
            memory=memory(),
        )

    return routes


def _usage(path: Path, first: int) -> Any:
    if not path.exists():
        return {}
    with closing(store.UsageStore(path)) as usage:
        return usage.read(first)
