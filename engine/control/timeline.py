"""What happened in a Project, and what it took, over the control API. Owns these routes.

The files are read, not the engine asked: a slow reader costs no request anything.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from quart import Blueprint, Response
from quart_schema import validate_querystring, validate_response

from engine.control.answers import members
from engine.control.app import require
from engine.control.document import sends
from engine.control.projects import Projects
from engine.errors import SvcError
from engine.timeline import database
from engine.timeline.document import document
from engine.timeline.follow import Follower
from engine.timeline.level import SEVERITIES, severity
from engine.timeline.query import PAGE, Filter, Page, TimelineReader
from engine.timeline.row import Entry
from engine.usage import store
from engine.usage.count import MINUTE_NS

PAUSE_SECONDS = 0.1
ALIVE_SECONDS = 15.0
"""How long a stream says nothing at most: an empty line keeps what is in between from closing it."""
MOST_TAIL = 100_000
LAST = (1 << 63) - 1


class LogsWish(BaseModel):
    """Which records: all that is given has to hold. `since` counts seconds back."""

    model_config = ConfigDict(extra="forbid")
    resource: str | None = None
    level: str | None = None
    request: str | None = None
    since: float | None = Field(None, ge=0, le=1e9)
    tail: int | None = Field(None, ge=0, le=MOST_TAIL)
    after: int | None = Field(None, ge=0, le=LAST)
    follow: bool = False


class UsageWish(BaseModel):
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


class Usage(BaseModel):
    """A row a Resource and minute in which there was anything."""

    rows: list[UsageRow]


def blueprint(projects: Projects) -> Blueprint:
    """Return the routes."""
    routes = Blueprint("timeline", __name__)

    @routes.get("/v1/projects/<project>/logs")
    @sends("application/x-ndjson")
    @validate_querystring(LogsWish)
    async def logs(project: str, query_args: LogsWish) -> Response:
        """Send records as NDJSON, the oldest first; `{"missed": n}` tells of some that are gone."""
        require(project, "viewer")
        path = projects.data(project) / database.FILE
        sent = _records(path, _filter(query_args), query_args)
        return Response(sent, content_type="application/x-ndjson")

    @routes.get("/v1/projects/<project>/usage")
    @validate_querystring(UsageWish)
    @validate_response(Usage)
    async def usage(project: str, query_args: UsageWish) -> Usage:
        """Say what each Resource took, minute by minute."""
        require(project, "viewer")
        first = time.time_ns() // MINUTE_NS - query_args.minutes + 1
        counts = await asyncio.to_thread(_usage, projects.data(project) / store.FILE, first)
        return Usage(
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


def _filter(wish: LogsWish) -> Filter:
    least = None
    if wish.level is not None:
        least = severity(wish.level)
        if least is None:
            names = ", ".join(each.lower() for each in SEVERITIES)
            raise SvcError(f'there is no level "{wish.level}"', f"There are {names}.", code="invalid")
    return Filter(wish.resource, wish.request, least)


async def _records(path: Path, wanted: Filter, wish: LogsWish) -> AsyncIterator[bytes]:
    position = wish.after or 0
    try:
        if path.exists():
            gone, old, last = await asyncio.to_thread(_bounds, path, position, wish.since)
            if 0 < position < gone:
                yield _line({"missed": gone - position})
            position = max(position, gone, old)
            if wish.tail is not None:
                yield _lines(await asyncio.to_thread(_tail, path, wanted, wish.tail, position, last))
                position = max(position, last)
            while position < last:
                page = await asyncio.to_thread(_page, path, wanted, position)
                position = page.upto
                yield _lines(page.entries)
        if wish.follow:
            async for piece in _followed(Follower(path, wanted, position)):
                yield piece
    except SvcError as error:
        yield _line({"error": members(error)})


@contextmanager
def _reader(path: Path) -> Iterator[TimelineReader]:
    reader = TimelineReader(path)
    try:
        yield reader
    finally:
        reader.close()


def _bounds(path: Path, position: int, since: float | None) -> tuple[int, int, int]:
    """Return the last cursor of what is gone, of what is too old, and of what there is."""
    with _reader(path) as reader:
        if not reader.ready():
            return 0, 0, position
        first, last = reader.bounds()
        old = reader.before(time.time_ns() - int(since * 1e9)) if since is not None else 0
        return first - 1, old, last


def _tail(path: Path, wanted: Filter, count: int, after: int, upto: int) -> list[Entry]:
    with _reader(path) as reader:
        return reader.tail(count, wanted, after=after, upto=upto) if reader.ready() else []


def _page(path: Path, wanted: Filter, position: int) -> Page:
    with _reader(path) as reader:
        return reader.after(position, wanted, PAGE)


async def _followed(follower: Follower) -> AsyncIterator[bytes]:
    """Yield what comes; ends when nobody takes it any more."""
    quiet = 0.0
    polling: asyncio.Future[Page] | None = None
    try:
        while True:
            before = follower.position
            polling = asyncio.ensure_future(asyncio.to_thread(follower.poll))
            page = await asyncio.shield(polling)
            if page.missed and before:
                yield _line({"missed": page.missed})
            if page.entries:
                yield _lines(page.entries)
                quiet = 0.0
            if not page.more:
                await asyncio.sleep(PAUSE_SECONDS)
                quiet += PAUSE_SECONDS
            if quiet >= ALIVE_SECONDS:
                yield b"\n"
                quiet = 0.0
    finally:
        # Its thread may be at the file still when nobody waits for it any more.
        if polling is not None:
            await asyncio.wait({polling})
        follower.close()


def _lines(entries: list[Entry]) -> bytes:
    return b"".join(_line(document(entry)) for entry in entries)


def _line(told: dict[str, Any]) -> bytes:
    return json.dumps(told, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
