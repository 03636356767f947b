"""Route for the resource usage of a project.

It reads the usage database page by page, in threads: a month of many resources has millions of rows.
"""

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import fields
from functools import partial
from pathlib import Path

from pydantic import BaseModel, Field
from quart import Response
from quart_schema import document_response

from engine.control.app import Routes, require
from engine.control.project_threads import ProjectThreads
from engine.control.projects import Projects
from engine.control.routes.quotas import MemorySource, MemoryState
from engine.control.schemas import QueryModel
from engine.usage.store import MINUTE_NS, USAGE_FILE, Key, UsageCount, UsageStore

_CHUNK_ROWS = 1000
_NAMES = ("minute", "resource", *(each.name for each in fields(UsageCount)))


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
    """Return the route."""
    routes = Routes("usage", __name__)
    threads = ProjectThreads("usage")

    @routes.get("/v1/projects/<project>/usage")
    @document_response(UsageOut)
    async def usage(project: str, query_args: UsageQuery) -> Response:
        """Return the usage of each resource per minute."""
        require(project, "viewer")
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
    """Yield the rows from a minute on as JSON. Raises `UsageError`."""
    after: Key = (first, "")
    while path.exists():
        with closing(UsageStore(path)) as store:
            rows = store.page(after, _CHUNK_ROWS)
        if not rows:
            return
        after = rows[-1][0], rows[-1][1]
        yield b",".join(json.dumps(dict(zip(_NAMES, row, strict=True))).encode() for row in rows)
