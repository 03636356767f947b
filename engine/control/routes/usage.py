"""Route for the resource usage of a project.

It reads the usage database page by page, in threads: a month of many resources has millions of rows.
"""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field
from quart import Blueprint, Response
from quart_schema import document_response, validate_querystring

from engine.control.app import require
from engine.control.project_threads import ProjectThreads
from engine.control.projects import Projects
from engine.control.schema import QueryModel
from engine.control.schemas.memory import MemorySource, MemoryState, no_memory_state
from engine.peers import Peers
from engine.usage import store
from engine.usage.aggregate import MINUTE_NS, Key, UsageCount
from engine.usage.gather import answer, gather_usage

_CHUNK_ROWS = 1000
_NAMES = ("minute", "resource", *(each.name for each in fields(UsageCount)))


class MissingNode(BaseModel):
    """A node of the fleet that did not answer, the reason, and since when (RFC 3339), if known."""

    node: str
    since: str | None
    reason: str


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

    `missing` are nodes that did not answer. `memory` is that of the service on the node that was asked.
    """

    rows: list[UsageRow]
    missing: list[MissingNode] = []
    memory: MemoryState | None


def blueprint(
    projects: Projects, peers: Peers | None = None, memory: MemorySource = no_memory_state
) -> Blueprint:
    """Return the route. `peers` has the other nodes of a fleet."""
    routes = Blueprint("usage", __name__)
    threads = ProjectThreads("usage")

    @routes.get("/v1/projects/<project>/usage")
    @validate_querystring(UsageQuery)
    @document_response(UsageOut)
    async def usage(project: str, query_args: UsageQuery) -> Response:
        """Return the usage of each resource per minute."""
        require(project, "viewer")
        first = time.time_ns() // MINUTE_NS - query_args.minutes + 1
        path, missing = projects.data_dir(project) / store.USAGE_FILE, list[Mapping[str, Any]]()
        next_rows: Callable[[], bytes] = _Pages(path, first).next_rows
        if peers is not None:
            usage = await gather_usage(peers, project, first)
            missing, next_rows = usage.missing, partial(_next_of, iter(usage.counts.items()))
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
            rest = {"missing": missing, "memory": None if state is None else state.model_dump(mode="json")}
            yield b"]," + json.dumps(rest).encode()[1:]

        return Response(document(), content_type="application/json")

    return routes


class _Pages:
    """The rows in a file from a minute on."""

    def __init__(self, path: Path, first: int) -> None:
        self._path = path
        self._after: Key = (first, "")

    def next_rows(self) -> bytes:
        """Return the next rows as JSON, or nothing at the end. Raises `UsageError`."""
        rows = answer(self._path, {"after": self._after}, _CHUNK_ROWS)["rows"]
        if rows:
            self._after = rows[-1][0], rows[-1][1]
        return _encoded(dict(zip(_NAMES, row, strict=True)) for row in rows)


def _next_of(counts: Iterator[tuple[Key, UsageCount]]) -> bytes:
    """Return the next rows of counts as JSON, or nothing at the end."""
    return _encoded(
        {"minute": minute, "resource": resource, **asdict(count)}
        for (minute, resource), count in islice(counts, _CHUNK_ROWS)
    )


def _encoded(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return b",".join(json.dumps(row).encode() for row in rows)
