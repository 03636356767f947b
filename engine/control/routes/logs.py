"""A timeline of a million records on a screen: any of them at once, and which of them a filter wants.

Owns these routes, and no state: who shows records keeps the cursors of those that it shows, 8 bytes each.
Cursors have no gaps: without a filter the row `i` of a list is the record at `first + i`. With one, `cursors`
sends all that pass, a stretch of the timeline at a time, and goes on with those that come.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from quart import Blueprint, Response
from quart_schema import document_response, validate_querystring

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
from engine.timeline.query import CursorPage, RecordFilter, TimelineReader, open_reader
from engine.timeline.record import RequestRecord
from engine.timeline.stored_record import StoredRecord

MAX_RECORDS = 1000
"""Records in one answer."""
MAX_CURSORS = 500
SCAN_RECORDS = 50_000
"""Records that are looked at for one line of cursors: tens of milliseconds of searching."""

_EMPTY_RANGE = (1, 0)
"""First and last cursor where there is no record."""


class WindowQuery(LogFilter):
    """Up to `n` records that pass: after a cursor, or before one; without either the last ones.

    With `below`, a request has a member of that name: the spans that mounts led it to, innermost first.
    """

    after: int | None = Field(None, ge=0, le=MAX_CURSOR)
    before: int | None = Field(None, ge=0, le=MAX_CURSOR)
    n: int = Field(200, ge=0, le=MAX_RECORDS)
    below: bool = False


class RecordsQuery(BaseModel):
    """The records at `from` and the `n` - 1 cursors behind it, or at `cursors` (`17,18,21`)."""

    model_config = ConfigDict(extra="forbid")
    start: int | None = Field(None, ge=0, le=MAX_CURSOR, alias="from")
    n: int = Field(200, ge=0, le=MAX_RECORDS)
    cursors: Annotated[str, StringConstraints(pattern=r"^\d{1,18}(,\d{1,18})*$")] | None = None
    below: bool = False


class CursorsQuery(LogFilter):
    """Which cursors: those that pass, and are after `after`.

    `newest` begins at the end, a stretch at a time. `follow` goes on with what comes.
    """

    after: int | None = Field(None, ge=0, le=MAX_CURSOR)
    newest: bool = False
    follow: bool = False


class RecordsOut(BaseModel):
    """Records in the order of their cursors, as docs/logs.md describes them.

    `first` and `last` are the cursors of the oldest and of the newest that there are, filter or not; where
    there is none, `last` is below `first`.
    """

    first: int
    last: int
    records: list[dict[str, Any]]


class CursorsLine(BaseModel):
    """One line. The first has `first` and `last`: the stretch of the timeline that is looked at.

    Then come lines with `after`, `upto` and `offsets`: between the cursors `after` (exclusive) and `upto`,
    the records at `after + offset` pass, and no other. A stream that follows says `{"live": cursor}` when all
    that was there is told, and then lines as before, in the order of cursors; `live` again, each second in
    which none passes. `missed` is how many records were removed before they could be looked at; `error` is a
    problem document, and ends the stream.
    """

    first: int | None = None
    last: int | None = None
    after: int | None = None
    upto: int | None = None
    offsets: list[int] | None = None
    live: int | None = None
    missed: int | None = None
    error: dict[str, Any] | None = None


def blueprint(projects: Projects, stretch: int = SCAN_RECORDS) -> Blueprint:
    """Return the routes; `stretch` is how many records are looked at for one line of cursors."""
    routes = Blueprint("logs", __name__)

    @routes.get("/v1/projects/<project>/logs/window")
    @validate_querystring(WindowQuery)
    @document_response(RecordsOut)
    async def window(project: str, query_args: WindowQuery) -> Response:
        """Send records that pass a filter: after a cursor, before one, or the last. Needs the role viewer."""
        require(project, "viewer")
        wish, wanted = query_args, query_args.filter()
        if wish.after is not None and wish.before is not None:
            raise SvcError("a window is after a cursor or before one, not both", code="invalid")
        return await _answer(
            projects.data_dir(project), lambda reader: _window(reader, wanted, wish), wish.below
        )

    @routes.get("/v1/projects/<project>/logs/records")
    @validate_querystring(RecordsQuery)
    @document_response(RecordsOut)
    async def records(project: str, query_args: RecordsQuery) -> Response:
        """Send the records at some cursors; those that are gone are left out. Needs the role viewer."""
        require(project, "viewer")
        wish = query_args
        if (wish.start is None) == (wish.cursors is None):
            raise SvcError("records are asked for by `from` or by `cursors`", code="invalid")
        cursors = [int(each) for each in wish.cursors.split(",")] if wish.cursors is not None else []
        if len(cursors) > MAX_CURSORS:
            raise SvcError(f"at most {MAX_CURSORS} cursors can be asked for at once", code="invalid")

        def read(reader: TimelineReader) -> list[StoredRecord]:
            if wish.start is None:
                return reader.by_cursors(cursors)
            return reader.between(wish.start, wish.start + wish.n - 1)

        return await _answer(projects.data_dir(project), read, wish.below)

    @routes.get("/v1/projects/<project>/logs/cursors")
    @sends(ndjson.MEDIA_TYPE)
    @validate_querystring(CursorsQuery)
    @document_response(CursorsLine)
    async def cursors(project: str, query_args: CursorsQuery) -> Response:
        """Send the cursors of all records that pass a filter, as NDJSON. Needs the role viewer."""
        require(project, "viewer")
        query_args.check_follow(follow=query_args.follow)
        sent = _cursors(
            projects.data_dir(project) / database.TIMELINE_FILE, query_args.filter(), query_args, stretch
        )
        return ndjson.ndjson_response(sent)

    return routes


def _window(reader: TimelineReader, wanted: RecordFilter, wish: WindowQuery) -> list[StoredRecord]:
    oldest, newest = wish.between(reader)
    if wish.after is not None:
        found = reader.after(max(wish.after, oldest), wanted, wish.n).entries if wish.n else []
        return [entry for entry in found if entry.cursor <= newest]
    if wish.before is not None:
        newest = min(newest, wish.before - 1)
    return reader.tail(wish.n, wanted, after=oldest, upto=newest)


async def _answer(data: Path, read: Callable[[TimelineReader], list[StoredRecord]], below: bool) -> Response:
    text = await asyncio.to_thread(_read, data / database.TIMELINE_FILE, read, below)
    return Response(text, content_type="application/json")


def _read(path: Path, read: Callable[[TimelineReader], list[StoredRecord]], below: bool) -> bytes:
    reader = open_reader(path)
    if reader is None:
        return ndjson.line({"first": _EMPTY_RANGE[0], "last": _EMPTY_RANGE[1], "records": []})
    try:
        first, last = reader.bounds()
        entries = read(reader)
        documents = [to_json(entry) for entry in entries]
        if below:
            _add_below(reader, entries, documents)
    finally:
        reader.close()
    return ndjson.line({"first": first, "last": last, "records": documents})


def _add_below(reader: TimelineReader, entries: list[StoredRecord], documents: list[dict[str, Any]]) -> None:
    fronts: dict[str, dict[str, Any]] = {}
    for entry, told in zip(entries, documents, strict=True):
        if isinstance(entry.record, RequestRecord) and entry.record.root:
            fronts[entry.record.request_id] = told
            told["below"] = []
    for entry in reader.child_spans(list(fronts)):
        fronts[entry.record.request_id]["below"].append(to_json(entry))


async def _cursors(
    path: Path, wanted: RecordFilter, wish: CursorsQuery, stretch: int
) -> AsyncIterator[bytes]:
    try:
        first, last = await threaded(lambda: _bounds(path, wish))
        yield ndjson.line({"first": first, "last": last})
        begins = range(first - 1, last, stretch)
        for after in reversed(begins) if wish.newest else begins:
            yield _line(await threaded(partial(_skim, path, wanted, after, min(after + stretch, last))))
        if wish.follow:
            with closing(TimelineFollower(path, wanted, max(first - 1, last))) as follower:
                async for piece in _followed(follower, stretch):
                    yield piece
    except SvcError as error:
        yield ndjson.line({"error": problem_members(error)})


def _bounds(path: Path, wish: CursorsQuery) -> tuple[int, int]:
    """Return the first and the last cursor that are looked at."""
    reader = open_reader(path)
    if reader is None:
        return _EMPTY_RANGE
    try:
        first, last = reader.bounds()
        after, upto = wish.between(reader)
        return max(first, (wish.after or 0) + 1, after + 1), min(last, upto)
    finally:
        reader.close()


def _skim(path: Path, wanted: RecordFilter, after: int, upto: int) -> CursorPage:
    with closing(TimelineFollower(path, wanted, after)) as follower:
        return follower.scan_cursors(upto - after)


async def _followed(follower: TimelineFollower, stretch: int) -> AsyncIterator[bytes]:
    yield ndjson.line({"live": follower.position})
    quiet = 0.0
    while True:
        skimmed = await threaded(partial(follower.scan_cursors, stretch))
        if skimmed.missed:
            yield ndjson.line({"missed": skimmed.missed})
        if skimmed.offsets != "[]":
            yield _line(skimmed)
            quiet = 0.0
        if quiet >= ndjson.KEEPALIVE_SECONDS:
            yield ndjson.line({"live": follower.position})
            quiet = 0.0
        if skimmed.upto - skimmed.after < stretch:
            await asyncio.sleep(ndjson.POLL_SECONDS)
            quiet += ndjson.POLL_SECONDS


def _line(skimmed: CursorPage) -> bytes:
    return f'{{"after": {skimmed.after}, "upto": {skimmed.upto}, "offsets": {skimmed.offsets}}}\n'.encode()
