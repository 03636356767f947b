"""The stream of log records."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from engine.control import ndjson
from engine.control.errors import problem_members
from engine.control.routes.log_filter import MAX_CURSOR, LogFilter
from engine.errors import SvcError
from engine.timeline.follow import TimelineFollower
from engine.timeline.json_format import to_json
from engine.timeline.query import CursorPage, RecordPage
from engine.timeline.selection import RecordRange, select

MAX_TAIL = 100_000
_Page = TypeVar("_Page", RecordPage, CursorPage)
Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function in a thread of the project."""


class LogsQuery(LogFilter):
    """Records as NDJSON: all conditions must hold.

    `tail` limits the result to the last records, `after` is a cursor of a record or a position of a stream
    (exclusive), `follow` continues with new records.
    """

    tail: int | None = Field(None, ge=0, le=MAX_TAIL)
    after: int | None = Field(None, ge=0, le=MAX_CURSOR)
    follow: bool = False


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
    record_range = RecordRange(since_ns, query.after, query.tail, until_ns)
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


def _record_lines(page: RecordPage) -> bytes:
    dropped = ndjson.line({"dropped": page.dropped}) if page.dropped else b""
    return dropped + b"".join(ndjson.line(to_json(entry)) for entry in page.entries)
