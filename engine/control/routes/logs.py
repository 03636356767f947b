"""Routes for log records: a stream of records, windows for a screen, and the cursors that pass a filter.

Routes read the timeline's file and hold no state. Clients store the cursors of the records that they show, 8
bytes each. Cursors have no gaps: without a filter, row `i` of a list is the record at `first + i`. With a
filter, `cursors` sends all that pass, one range of the timeline at a time, and then those of new records.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from operator import attrgetter
from pathlib import Path
from threading import Event
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, StringConstraints
from quart import Response
from quart_schema import document_response

from engine.control import ndjson
from engine.control.app import Routes, access
from engine.control.errors import problem_members
from engine.control.project_threads import ProjectThreads
from engine.control.projects import Projects
from engine.control.schemas import QueryModel, StrictModel
from engine.errors import SvcError
from engine.timeline import database
from engine.timeline import sql as timeline_sql
from engine.timeline.query import (
    WINDOW_BYTES,
    CursorPage,
    RecordFilter,
    RecordPage,
    TimelineFollower,
    TimelineReader,
    open_reader,
    select,
)
from engine.timeline.record import SEVERITIES, Document, severity

MAX_CURSOR = (1 << 63) - 1
MAX_TEXT_LENGTH = 1000
_STATUS = re.compile(r"(>=)?([1-5])(\d\d|xx)")


class LogFilter(QueryModel):
    """All conditions must hold.

    `level` is the minimum severity. `status` of requests: `404`, `5xx`, `>=400`. `text` is searched in a
    record's content, ignoring case of a-z: for requests the method, target, status, code and detail;
    otherwise the body and the attributes as `key=value`. `since` and `until` are in seconds before now;
    `since` is inclusive, `until` exclusive. `roots` omits the spans of mounted resources, `heads` the
    indented lines of stderr that follow a line of their request.
    """

    resource: str | None = None
    level: str | None = None
    request: str | None = None
    status: Annotated[str, StringConstraints(pattern=f"^{_STATUS.pattern}$")] | None = None
    text: str | None = Field(None, min_length=1, max_length=MAX_TEXT_LENGTH)
    since: float | None = Field(None, ge=0, le=1e9)
    until: float | None = Field(None, ge=0, le=1e9)
    roots: bool = False
    heads: bool = False

    def filter(self) -> RecordFilter:
        """Return the timeline's filter. Raises `SvcError`."""
        minimum = None if self.level is None else severity(self.level)
        if self.level is not None and minimum is None:
            names = ", ".join(each.lower() for each in SEVERITIES)
            raise SvcError(f'unknown level "{self.level}"', f"Available: {names}.", code="invalid")
        statuses = None
        if self.status is not None:
            beyond, hundred, rest = _STATUS.findall(self.status)[0]
            first = int(hundred + rest.replace("x", "0"))
            statuses = first, 599 if beyond else first + (99 if rest == "xx" else 0)
        now = time.time_ns()
        since, until = (back if back is None else now - int(back * 1e9) for back in (self.since, self.until))
        return RecordFilter(
            request_id=self.request,
            min_level=minimum,
            statuses=statuses,
            since_ns=since,
            until_ns=until,
            **self.model_dump(include={"resource", "text", "roots", "heads"}),
        )

    def check_follow(self, *, follow: bool) -> None:
        """Raise `SvcError` if `follow` is combined with `until`."""
        if follow and self.until is not None:
            raise SvcError("`follow` and `until` exclude each other", code="invalid")


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


async def stream_records(run: Run, path: Path, query: LogsQuery) -> AsyncIterator[bytes]:
    """Yield the records of a timeline."""
    record_filter, position = query.filter(), 0
    try:
        with closing(select(path, record_filter, after=query.after, tail=query.tail)) as pages:
            while (page := await run(lambda: next(pages, None))) is not None:
                yield _record_lines(page)
                position = page.position
        if query.follow:
            yield ndjson.line({"position": position})
            follower = TimelineFollower(path, record_filter, position)
            async for lines in follow(run, follower.poll, _record_lines, attrgetter("more")):
                yield lines
    except SvcError as error:
        yield ndjson.line({"error": problem_members(error)})


def _record_lines(page: RecordPage) -> bytes:
    dropped = ndjson.line({"dropped": page.dropped}) if page.dropped else b""
    return dropped + b"".join(map(ndjson.line, page.entries))


MAX_RECORDS = 1000
"""Maximum number of records in a response."""
MAX_CURSORS = 500
FRAMES = 32
"""Number of records that are read at once for the lines after another."""
SCAN_RECORDS = 50_000
"""Number of records scanned for one line of cursors, which takes tens of milliseconds."""

MAX_STREAMS = 1024
"""Maximum streams of a project that wait for a thread."""
_EMPTY_RANGE = (1, 0)
"""First and last cursor of an empty timeline."""


class LogWindowQuery(LogFilter):
    """Up to `n` matching records after a cursor or before one; without either, the last ones.

    With `spans`, a request has a member of that name: the spans of mounted resources, innermost first.
    """

    after: int | None = Field(None, ge=0, le=MAX_CURSOR)
    before: int | None = Field(None, ge=0, le=MAX_CURSOR)
    n: int = Field(200, ge=0, le=MAX_RECORDS)
    spans: bool = False


class RecordsQuery(QueryModel):
    """The records at `from` and the following `n` - 1 cursors, or at `cursors` (`17,18,21`).

    With `heads`, the body of a line of stderr has the indented lines after it.
    """

    start: int | None = Field(None, ge=0, le=MAX_CURSOR, alias="from")
    n: int = Field(200, ge=0, le=MAX_RECORDS)
    cursors: Annotated[str, StringConstraints(pattern=r"^\d{1,18}(,\d{1,18})*$")] | None = None
    spans: bool = False
    heads: bool = False


class CursorsQuery(LogFilter):
    """The cursors of matching records after `after`.

    `newest` starts at the end. `follow` continues with new records.
    """

    after: int | None = Field(None, ge=0, le=MAX_CURSOR)
    newest: bool = False
    follow: bool = False


class LogSqlRequest(StrictModel):
    """One SELECT, and the maximum number of rows of its result."""

    sql: str = Field(max_length=timeline_sql.MAX_SQL_CHARS)
    limit: int = Field(timeline_sql.MAX_ROWS, ge=0, le=timeline_sql.MAX_ROWS)


class LogSqlColumn(BaseModel):
    """A column of a result. `type` is always empty."""

    name: str
    type: str


class LogSqlOut(BaseModel):
    """The result of a statement, in the form of the SQL of the tables.

    `truncated` is `rows` or `bytes` if the result is incomplete.
    """

    columns: list[LogSqlColumn]
    rows: list[dict[str, Any]]
    truncated: str | None
    changes: int
    last_id: int


class RecordsOut(BaseModel):
    """Records in the order of their cursors (format: docs/reference/logs-json.md).

    Records beyond 32 MiB of text are omitted: those farthest from `after`, `before` or the end.
    `first` and `last` are the cursors of the oldest and newest record, regardless of the filter. In an empty
    timeline, `last` is less than `first`.
    """

    first: int
    last: int
    records: list[dict[str, Any]]


class CursorsLine(BaseModel):
    """One line of the stream. The first line has `first` and `last`: the range that is scanned.

    Lines with `after`, `position` and `offsets` follow: of the cursors above `after` and up to `position`,
    exactly the records at `after + offset` match. A following stream sends `{"position": cursor}` after the
    existing records, and again after each second without a match. `dropped` is the number of records removed
    before they were scanned. `error` is a problem document, and ends the stream.
    """

    first: int | None = None
    last: int | None = None
    after: int | None = None
    position: int | None = None
    offsets: list[int] | None = None
    dropped: int | None = None
    error: dict[str, Any] | None = None


def blueprint(projects: Projects, *, scan_records: int = SCAN_RECORDS) -> Routes:
    """Return the routes, which raise `SvcError`. `scan_records` is the number of records scanned per line."""
    routes = Routes("logs", __name__)
    threads, streams = ProjectThreads("logs"), ProjectThreads("logs-streams", max_waiting=MAX_STREAMS)

    async def answer(
        project: str, read: Callable[[TimelineReader], list[Document]], spans: bool, heads: bool = False
    ) -> Response:
        data = projects.data_dir(project)
        text = await threads.run(str(data), lambda: _read(data / database.TIMELINE_FILE, read, spans, heads))
        return Response(text, content_type="application/json")

    @routes.get("/v1/projects/<project>/logs", "viewer", sends=[ndjson.MEDIA_TYPE])
    async def logs(project: str, query_args: LogsQuery) -> Response:
        """Send records as NDJSON, oldest first. `{"dropped": n}` counts records removed before their turn.

        A following stream sends `{"position": cursor}` after the existing records, and again after each
        second without a match: all matching records up to that cursor were sent.
        """
        query_args.check_follow(follow=query_args.follow)
        path = projects.data_dir(project) / database.TIMELINE_FILE
        query_args.filter()
        return ndjson.ndjson_response(stream_records(streams.of(project), path, query_args))

    @routes.get("/v1/projects/<project>/logs/window", "viewer")
    @document_response(RecordsOut)
    async def window(project: str, query_args: LogWindowQuery) -> Response:
        """Send matching records: after a cursor, before one, or the last. Requires the role viewer."""
        if query_args.after is not None and query_args.before is not None:
            raise SvcError("`after` and `before` exclude each other", code="invalid")
        read = partial(_window, record_filter=query_args.filter(), query=query_args)
        return await answer(project, read, query_args.spans)

    @routes.get("/v1/projects/<project>/logs/records", "viewer")
    @document_response(RecordsOut)
    async def records(project: str, query_args: RecordsQuery) -> Response:
        """Send the records at the given cursors, omitting removed ones. Requires the role viewer."""
        start, listed = query_args.start, query_args.cursors
        if (start is None) == (listed is None):
            raise SvcError("pass either `from` or `cursors`", code="invalid")
        cursors: Sequence[int] = range(start or 0, (start or 0) + query_args.n)
        if listed is not None and len(cursors := [*map(int, listed.split(","))]) > MAX_CURSORS:
            raise SvcError(f"more than {MAX_CURSORS} cursors in one request", code="invalid")
        read = partial(TimelineReader.by_cursors, cursors=cursors)
        return await answer(project, read, query_args.spans, query_args.heads)

    @routes.get("/v1/projects/<project>/logs/cursors", "viewer", sends=[ndjson.MEDIA_TYPE])
    @document_response(CursorsLine)
    async def cursors(project: str, query_args: CursorsQuery) -> Response:
        """Send the cursors of all matching records as NDJSON. Requires the role viewer."""
        query_args.check_follow(follow=query_args.follow)
        path = projects.data_dir(project) / database.TIMELINE_FILE
        lines = _cursors(streams.of(project), path, query_args.filter(), query_args, scan_records)
        return ndjson.ndjson_response(lines)

    @routes.post("/v1/projects/<project>/logs/sql", "viewer")
    @document_response(LogSqlOut)
    async def log_sql(project: str, data: LogSqlRequest) -> Response:
        """Run one SELECT over the views of the timeline. Requires the role viewer."""
        folder = projects.data_dir(project)
        ended = Event()  # also set when the client disconnects
        run = partial(timeline_sql.run, folder / database.TIMELINE_FILE, data.sql, data.limit, ended.is_set)
        try:
            result = await access().run(threads.run(str(folder), run))
            return Response(result, content_type="application/json")
        finally:
            ended.set()

    return routes


def _window(reader: TimelineReader, record_filter: RecordFilter, query: LogWindowQuery) -> list[Document]:
    oldest, newest = reader.time_range(record_filter)
    if query.after is not None:
        return reader.after(max(query.after, oldest), record_filter, query.n, WINDOW_BYTES).entries
    if query.before is not None:
        newest = min(newest, query.before - 1)
    return reader.tail(query.n, record_filter, after=oldest, last=newest)


def _read(path: Path, read: Callable[[TimelineReader], list[Document]], spans: bool, heads: bool) -> bytes:
    reader = open_reader(path, calls=False)
    if reader is None:
        return ndjson.line({"first": _EMPTY_RANGE[0], "last": _EMPTY_RANGE[1], "records": []})
    with closing(reader):
        first, last = reader.bounds()
        documents = read(reader)
        if spans:
            fronts: dict[str, Document] = {}
            for document in documents:
                if document["kind"] == "request" and document["root"]:
                    fronts[document["request_id"]] = document
                    document["spans"] = []
            for span in reader.child_spans(list(fronts)):
                fronts[span["request_id"]]["spans"].append(span)
        if heads:
            for document in documents:
                if lines := list(_indented_after(reader, document)):
                    document["body"] = "\n".join((document["body"].rstrip("\n"), *lines))
    # Each call of the encoder holds the interpreter's lock.
    records = b",".join(ndjson.line(document)[:-1] for document in documents)
    return b'{"first": %d, "last": %d, "records": [%b]}\n' % (first, last, records)


def _indented_after(reader: TimelineReader, head: Document) -> Iterator[str]:
    """Yield the lines that `RecordFilter.heads` omits after a line of stderr."""
    cursor = head["cursor"]
    while head["kind"] == "stderr":
        page = reader.after(cursor, RecordFilter(request_id=head["request_id"]), FRAMES)
        cursor = page.position
        for line in page.entries:
            if line["kind"] != "stderr" or line["body"][:1] not in ("\t", " "):
                return
            yield line["body"]
        if not page.more:
            return


async def _cursors(
    run: Run, path: Path, record_filter: RecordFilter, query: CursorsQuery, scan_records: int
) -> AsyncIterator[bytes]:
    try:
        first, last = await run(partial(_bounds, path, record_filter, query.after or 0))
        yield ndjson.line({"first": first, "last": last})
        begins = range(first - 1, last, scan_records)
        for after in reversed(begins) if query.newest else begins:
            end = min(after + scan_records, last)
            scan = TimelineFollower(path, record_filter, after).scan_cursors
            yield _line(await run(partial(scan, end - after)))
        if query.follow:
            follower = TimelineFollower(path, record_filter, max(first - 1, last))
            yield ndjson.line({"position": follower.position})
            scan = partial(follower.scan_cursors, scan_records)
            async for lines in follow(
                run, scan, _cursor_lines, lambda page: page.position - page.after >= scan_records
            ):
                yield lines
    except SvcError as error:
        yield ndjson.line({"error": problem_members(error)})


def _bounds(path: Path, record_filter: RecordFilter, cursor: int) -> tuple[int, int]:
    """Return the first and the last cursor to scan."""
    reader = open_reader(path)
    if reader is None:
        return _EMPTY_RANGE
    with closing(reader):
        first, last = reader.bounds()
        after, newest = reader.time_range(record_filter)
        return max(first, cursor + 1, after + 1), min(last, newest)


def _line(page: CursorPage) -> bytes:
    return f'{{"after": {page.after}, "position": {page.position}, "offsets": {page.offsets}}}\n'.encode()


def _cursor_lines(page: CursorPage) -> bytes:
    dropped = ndjson.line({"dropped": page.dropped}) if page.dropped else b""
    return dropped + (_line(page) if page.offsets != "[]" else b"")
