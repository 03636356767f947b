"""What happened in a Project, and what it took, over the control API. Owns these routes.

The files are read, not the engine asked: a slow reader costs no request anything.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from quart import Blueprint, Response
from quart_schema import validate_querystring, validate_response

from engine.control import ndjson
from engine.control.app import require
from engine.control.errors import problem_members
from engine.control.openapi import sends
from engine.control.projects import Projects
from engine.control.routes.log_filter import MAX_CURSOR, LogFilter
from engine.control.threaded import threaded
from engine.errors import SvcError
from engine.timeline import database
from engine.timeline.follow import TimelineFollower
from engine.timeline.json_format import to_json
from engine.timeline.query import RecordFilter, RecordPage
from engine.timeline.selection import RecordRange, select
from engine.usage import store
from engine.usage.aggregate import MINUTE_NS

MAX_TAIL = 100_000


class LogsQuery(LogFilter):
    """Which records: all that is given has to hold."""

    tail: int | None = Field(None, ge=0, le=MAX_TAIL)
    after: int | None = Field(None, ge=0, le=MAX_CURSOR)
    follow: bool = False


class UsageQuery(BaseModel):
    """How many minutes back."""

    model_config = ConfigDict(extra="forbid")
    minutes: int = Field(24 * 60, ge=1, le=60 * 24 * 366)


class UsageRow(BaseModel):
    """What a Resource took in a minute (since the Unix epoch). Times in nanoseconds, sizes in bytes."""

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
    """A row a Resource and minute in which there was anything."""

    rows: list[UsageRow]


def blueprint(projects: Projects) -> Blueprint:
    """Return the routes."""
    routes = Blueprint("timeline", __name__)

    @routes.get("/v1/projects/<project>/logs")
    @sends(ndjson.MEDIA_TYPE)
    @validate_querystring(LogsQuery)
    async def logs(project: str, query_args: LogsQuery) -> Response:
        """Send records as NDJSON, the oldest first; `{"missed": n}` tells of some that are gone.

        A stream that follows says `{"upto": cursor}` after what was there, and each second in which nothing
        comes: up to there, all that is wanted was sent.
        """
        require(project, "viewer")
        query_args.check_follow(follow=query_args.follow)
        path = projects.data_dir(project) / database.TIMELINE_FILE
        sent = _records(path, query_args.filter(), query_args)
        return ndjson.ndjson_response(sent)

    @routes.get("/v1/projects/<project>/usage")
    @validate_querystring(UsageQuery)
    @validate_response(UsageOut)
    async def usage(project: str, query_args: UsageQuery) -> UsageOut:
        """Say what each Resource took, minute by minute."""
        require(project, "viewer")
        first = time.time_ns() // MINUTE_NS - query_args.minutes + 1
        counts = await asyncio.to_thread(_usage, projects.data_dir(project) / store.USAGE_FILE, first)
        return UsageOut(
            rows=[
                UsageRow(minute=minute, resource=resource, **asdict(count))
                for (minute, resource), count in counts.items()
            ]
        )

    return routes


def _usage(path: Path, first: int) -> Any:
    if not path.exists():
        return {}
    usage = store.UsageStore(path)
    try:
        return usage.read(first)
    finally:
        usage.close()


async def _records(path: Path, wanted: RecordFilter, wish: LogsQuery) -> AsyncIterator[bytes]:
    since_ns, until_ns = wish.times()
    position = 0
    try:
        with closing(select(path, wanted, RecordRange(since_ns, wish.after, wish.tail, until_ns))) as pages:
            while (page := await threaded(lambda: next(pages, None))) is not None:
                yield _lines(page)
                position = page.upto
        if wish.follow:
            yield ndjson.line({"upto": position})
            async for piece in _followed(TimelineFollower(path, wanted, position)):
                yield piece
    except SvcError as error:
        yield ndjson.line({"error": problem_members(error)})


async def _followed(follower: TimelineFollower) -> AsyncIterator[bytes]:
    """Yield what comes; ends when nobody takes it any more."""
    quiet = 0.0
    with closing(follower):
        while True:
            page = await threaded(follower.poll)
            if lines := _lines(page):
                yield lines
                quiet = 0.0
            if not page.more:
                await asyncio.sleep(ndjson.POLL_SECONDS)
                quiet += ndjson.POLL_SECONDS
            if quiet >= ndjson.KEEPALIVE_SECONDS:
                yield ndjson.line({"upto": page.upto})
                quiet = 0.0


def _lines(page: RecordPage) -> bytes:
    missed = ndjson.line({"missed": page.missed}) if page.missed else b""
    return missed + b"".join(ndjson.line(to_json(entry)) for entry in page.entries)
