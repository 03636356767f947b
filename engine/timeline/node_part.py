"""One node's part of the logs of a fleet: reads of its timeline, as JSON questions and answers.

Answers have a bounded size. Records come with the times at which they ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.peers import Document
from engine.timeline.follow import TimelineFollower
from engine.timeline.json_format import to_json
from engine.timeline.query import RecordPage, TimelineReader, open_reader
from engine.timeline.record_filter import RecordFilter
from engine.timeline.stored_record import StoredRecord

PAGE_RECORDS = 200
PAGE_BYTES = 256 << 10
COPY_RECORDS, COPY_BYTES = 2000, 1 << 20
"""Size of a page of rows for SQL."""
_NO_POSITIONS = {"first": 0, "after": 0, "last": 0, "after_ms": None}
"""Positions of a timeline without a file."""
POLL_SECONDS = 0.1
MAX_WAIT_SECONDS = 1.0
Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function in a thread."""


async def answer(run: Run, path: Path, question: Document) -> dict[str, Any]:
    """Answer a question about the timeline in a file. Raises `SvcError`.

    `read` is one of these:
    - `bounds`: first and last position of a range.
    - `page`: the next records after a position. Waits up to `wait` seconds for some.
    - `times`: the ends of the last `count` records of a range. `tail`: the distances of their cursors.
    - `records`: those at some cursors. `rows`: the next ones as they are stored. `metrics`: all series.
    """
    if question["read"] == "page":
        return await _page(run, path, question)
    return dict(await run(partial(_read, path, question)))


async def _page(run: Run, path: Path, question: Document) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    end = loop.time() + min(float(question.get("wait", 0)), MAX_WAIT_SECONDS)
    after = question.get("after")
    if after is None:
        after = (await answer(run, path, {"read": "bounds", "since_ms": question["since_ms"]}))["after"]
    with closing(TimelineFollower(path, RecordFilter.from_json(question["filter"]), after)) as follower:
        while True:
            page = await run(partial(follower.poll, PAGE_RECORDS, PAGE_BYTES))
            if page.entries or page.dropped or page.more or loop.time() >= end:
                return dict(await run(partial(_page_document, follower, page)))
            await asyncio.sleep(POLL_SECONDS)


def _page_document(follower: TimelineFollower, page: RecordPage) -> dict[str, Any]:
    times = follower.order_ns([entry.cursor for entry in page.entries])
    return {
        **_records(page.entries, times),
        "position": page.position,
        "dropped": page.dropped,
        "more": page.more,
    }


def _records(entries: Sequence[StoredRecord], times: dict[int, int]) -> dict[str, Any]:
    return {
        "records": [to_json(entry) for entry in entries],
        # A record may have been removed since it was read.
        "times": [times.get(entry.cursor, 0) for entry in entries],
    }


def _read(path: Path, question: Document) -> dict[str, Any]:
    reader = open_reader(path)
    if reader is None:
        return {**_NO_POSITIONS, "times": [], "cursors": [], "records": [], "rows": []}
    with closing(reader):
        match question["read"]:
            case "bounds":
                return _bounds(reader, question)
            case "metrics":
                return {"rows": reader.metrics()}
            case "rows":
                after, last = question["after"], question["last"]
                return {"rows": reader.rows(after, last, COPY_RECORDS, COPY_BYTES)}
            case "records":
                entries = reader.by_cursors(question["cursors"], PAGE_BYTES)
                return _records(entries, reader.order_ns([entry.cursor for entry in entries]))
        record_filter = RecordFilter.from_json(question["filter"])
        count, after, last = question["count"], question["after"], question["last"]
        if question["read"] == "times":
            return {"times": reader.tail_times(count, record_filter, after, last)}
        cursors = reader.tail_cursors(count, record_filter, after=after, last=last, whole_requests=True)
        # Distances are short, so the answer has room for many.
        return {"cursors": [cursor - before for before, cursor in pairwise((0, *cursors))]}


def _bounds(reader: TimelineReader, question: Document) -> dict[str, Any]:
    """Return the positions before and at the end of a range, and when its first record ended."""
    first, last = reader.bounds()
    after, since, until = (question.get(name) for name in ("after", "since_ms", "until_ms"))
    if after is None:
        after = 0
    elif after > last:
        after = reader.origin() - 1  # the position of an older file
    if since is not None:
        after = max(after, reader.cursor_before(since * 1_000_000))
    if until is not None:
        last = min(last, reader.cursor_before(until * 1_000_000))
    next_cursor = max(after, first)
    end_ns = reader.order_ns([next_cursor]).get(next_cursor)
    return {
        "first": first,
        "after": after,
        "last": max(after, last),
        "after_ms": None if end_ns is None else end_ns // 1_000_000,
    }
