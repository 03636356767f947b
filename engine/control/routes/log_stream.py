"""The stream of log records: of one timeline, or of all nodes of a fleet."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, StringConstraints

from engine.control import ndjson
from engine.control.errors import problem_members
from engine.control.routes.log_filter import LogFilter
from engine.errors import SvcError
from engine.peers import Peers
from engine.timeline import fleet_cursor
from engine.timeline.fleet_cursor import FleetCursor
from engine.timeline.follow import TimelineFollower
from engine.timeline.gather import GatherQuery, LogGathering
from engine.timeline.json_format import to_json
from engine.timeline.query import CursorPage, RecordPage
from engine.timeline.selection import RecordRange, select

MAX_TAIL = 100_000
_AFTER = rf"^([0-9]{{1,18}}|{fleet_cursor.PATTERN})$"
_Page = TypeVar("_Page", RecordPage, CursorPage)
Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function in a thread of the project."""
Ends = Callable[[], bool]
"""Returns whether a following stream ends, so that its client connects again."""


class LogsQuery(LogFilter):
    """Records as NDJSON: all conditions must hold.

    `tail` limits the result to the last records, `after` is a cursor of a record or a position of a stream
    (exclusive), `follow` continues with new records.
    """

    tail: int | None = Field(None, ge=0, le=MAX_TAIL)
    after: Annotated[str, StringConstraints(pattern=_AFTER, max_length=fleet_cursor.MAX_LENGTH)] | None = None
    follow: bool = False

    def position(self) -> FleetCursor | int | None:
        """Return `after`."""
        if self.after is None:
            return None
        return FleetCursor.parse(self.after) or int(self.after)

    def position_here(self) -> int | None:
        """Return `after` for a service that is not a node of a fleet. Raises `SvcError`."""
        position = self.position()
        if isinstance(position, FleetCursor):
            raise SvcError(
                "the cursor belongs to a fleet, and this service is not part of one",
                "Use the `cursor` of a record of this service.",
                code="invalid",
            )
        return position


async def follow(
    run: Run, poll: Callable[[], _Page], encode: Callable[[_Page], bytes], more: Callable[[_Page], bool]
) -> AsyncIterator[bytes]:
    """Yield the lines of new pages until the client disconnects; after each quiet second, the position."""
    quiet = 0.0
    while True:
        page = await run(poll)
        if lines := encode(page):
            yield lines
            quiet = 0.0
        if not more(page):
            await asyncio.sleep(ndjson.POLL_SECONDS)
            quiet += ndjson.POLL_SECONDS
        if quiet >= ndjson.KEEPALIVE_SECONDS:
            yield ndjson.line({"position": page.position})
            quiet = 0.0


async def records(run: Run, path: Path, query: LogsQuery) -> AsyncIterator[bytes]:
    """Yield the records of a timeline."""
    since_ns, until_ns = query.times()
    record_filter = query.filter()
    record_range = RecordRange(since_ns, query.position_here(), query.tail, until_ns)
    position = 0
    try:
        with closing(select(path, record_filter, record_range)) as pages:
            while (page := await run(lambda: next(pages, None))) is not None:
                yield _record_lines(page)
                position = page.position
        if query.follow:
            yield ndjson.line({"position": position})
            with closing(TimelineFollower(path, record_filter, position)) as follower:
                async for lines in follow(run, follower.poll, _record_lines, attrgetter("more")):
                    yield lines
    except SvcError as error:
        yield ndjson.line({"error": problem_members(error)})


async def gathered(peers: Peers, project: str, query: LogsQuery) -> AsyncIterator[bytes]:
    """Yield the records of all nodes of a fleet."""
    since_ns, until_ns = query.times()
    gathering = LogGathering(
        peers,
        GatherQuery(
            project=project,
            record_filter=query.filter(),
            since_ns=since_ns,
            until_ns=until_ns,
            after=query.position(),
            tail=query.tail,
            follow=query.follow,
        ),
    )
    try:
        async for documents in gathering.documents():
            yield b"".join(map(ndjson.line, documents))
    finally:
        await gathering.aclose()


def _record_lines(page: RecordPage) -> bytes:
    dropped = ndjson.line({"dropped": page.dropped}) if page.dropped else b""
    return dropped + b"".join(ndjson.line(to_json(entry)) for entry in page.entries)
