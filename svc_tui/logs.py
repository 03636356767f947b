"""The timeline of a project: the choice of its source, SQL, activity, and records of a service.

The timeline of `svc dev` is read from its file, that of a service over the control API. Following survives
restarts of the service, without duplicates.
"""

import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.control.discovery import find_endpoint
from engine.errors import InvalidUsage, SvcError
from engine.files.data_dir import DATA_DIR
from engine.manifest.load import find, load
from engine.timeline.database import timeline_path
from engine.timeline.query import RecordFilter, RecordPage, TimelineFollower, select
from engine.timeline.record import Document, searchable_document
from svc_tui.client import Client, Unreachable
from svc_tui.client.credentials import PROJECT_FILE, Credentials, CredentialStore, noted_client, open_client
from svc_tui.client.discovery import find_running
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.units import age_seconds

AGE_EXAMPLES = "30s, 10m, 12h, 7d"
MAX_SECONDS = 50 * 365 * 24 * 3600
"""Longer ages are cut to this: no timestamp before 1970 is recorded."""
ServiceOption = Annotated[
    bool | None,
    typer.Option(
        "--service/--dev",
        help="Read from the service or from svc dev (default: a running svc dev, else the service).",
    ),
]


def parse_age(text: str) -> int:
    """Return an age in seconds, at most `MAX_SECONDS`. Raises `SvcError` for an invalid one."""
    if (seconds := age_seconds(text)) is None:
        hint = f"Use seconds, minutes, hours or days: {AGE_EXAMPLES}."
        raise InvalidUsage(f'"{text}" is not a valid time', hint)
    return min(seconds, MAX_SECONDS)


def resolve_target(root: Path, service: bool | None) -> Credentials | None:
    """Return the credentials of the service to query, or None to read what `svc dev` recorded.

    `service` is the choice of the user. The default is the service of the project, unless `svc dev`
    is running. Raises `NotLoggedIn`.
    """
    if service is None:
        endpoint = find_endpoint(root / DATA_DIR)
        running = endpoint is not None and endpoint.is_running
        service = not running and (root / DATA_DIR / PROJECT_FILE).exists()
    if not service:
        return None
    credentials = CredentialStore.from_environment(os.environ).get(root)
    stderr.note(f"from the service {credentials.key}; pass --dev for records of svc dev")
    return credentials


@contextmanager
def open_project(service: bool | None) -> Iterator[tuple[Client, str]]:
    """Yield a client of the service or of the running `svc dev`, and the project. Raises `SvcError`."""
    root = find(Path.cwd())
    name, credentials = load(root).name, resolve_target(root, service)
    running = find_running(root / DATA_DIR, "/v1/projects") if credentials is None else None
    if (connection := noted_client(credentials) if credentials is not None else running) is None:
        raise SvcError("svc dev does not run", "Start it, or pass --service for the deployed project.")
    with connection as client:
        client.project = name
        yield client, name


RunSql = Callable[..., Any]
"""Returns the result of a SELECT: `columns`, `rows`, `truncated`. A second argument limits the rows."""


@contextmanager
def open_timeline(root: Path, credentials: Credentials | None, *, running: bool = False) -> Iterator[RunSql]:
    """Yield a function that reads the timeline of the project in a folder. It raises `SvcError`.

    The timeline is that on a service with `credentials`, with `running` not of a stopped one, else that of
    `svc dev`.
    """
    from engine.timeline.sql import MAX_ROWS, run  # Not for commands that only read records.

    if credentials is None:
        path = timeline_path(root)
        yield lambda sql, limit=MAX_ROWS: json.loads(run(path, sql, limit))
        return
    url = f"/v1/projects/{load(root).name}/logs/sql"
    with open_client(credentials, running=running) as client:
        yield lambda sql, limit=MAX_ROWS: client.call("POST", url, {"sql": sql, "limit": limit})


def complete_id(root: Path, credentials: Credentials | None, text: str) -> str:
    """Return the id of the request that begins with a text of 8 characters or more, else the text.

    Raises `SvcError` if several requests begin with it.
    """
    known = credentials is not None or timeline_path(root).exists()
    if not known or not re.fullmatch("[0-9a-z]{8,25}", text):
        return text
    with open_timeline(root, credentials) as run:
        sql = f"select distinct request_id from requests where request_id between '{text}' and '{text}~'"
        found = [row["request_id"] for row in run(f"{sql} order by 1 limit 6")["rows"]]
    if len(found) > 1:
        more = ", …" if len(found) > 5 else ""
        raise InvalidUsage(f"several requests begin with {text}", f"Pass one: {', '.join(found[:5])}{more}.")
    return str(found[0]) if found else text


MAX_RECORDS = 50_000
"""Maximum records that are read: the newest ones."""
MAX_ROUTES = 1_000
"""Maximum routes: those with most requests."""
SORTS = {
    "rate": "requests",
    "p95": "p95_ms",
    "failed": "failures",
    "cpu": "compute_ms",
    "memory": "peak_memory",
    "name": "name",
}
"""Orders, each with the field of a row that decides."""
_LAST = "select max(cursor) as last from requests"
_OMITTED = "select time_ns from requests where cursor <= {after} order by cursor desc limit 1"
_SUMS = """
  count(*) as requests, p95(wall_ms) as p95_ms, sum(failed and code <> 'not-ready') as failures,
  coalesce(sum(compute_ms), 0) as compute_ms, max(peak_memory) as peak_memory
"""
_RESOURCES = """
select resource as name, {sums} from spans
where kind = 'request' and resource <> '' and cursor > {after} and time_ns >= {since_ns} group by 1
"""
_ROUTES = """
select method || ' ' || path as name, {sums} from requests
where cursor > {after} and time_ns >= {since_ns} group by 1 order by requests desc limit {limit}
"""


@dataclass(frozen=True, slots=True)
class Activity:
    """Requests of a window of `seconds`, by resource and by route.

    The rows have `name`, `requests`, `p95_ms`, `failures`, `compute_ms` and `peak_memory`, which is None
    without guests. With `partial`, older records of the window were not read.
    """

    seconds: int
    resources: list[dict[str, Any]]
    routes: list[dict[str, Any]]
    partial: bool

    def sorted(self, by: str) -> "Activity":
        """Return the rows in an order of `SORTS`: names ascending, numbers descending."""
        key = SORTS[by]

        def order(row: dict[str, Any]) -> tuple[float, str]:
            return (0.0 if key == "name" else -(row[key] or 0.0), row["name"])

        resources, routes = sorted(self.resources, key=order), sorted(self.routes, key=order)
        return replace(self, resources=resources, routes=routes)


def read_activity(run: RunSql, seconds: int, now_ns: int) -> Activity:
    """Read the activity of the last seconds before a Unix time. Raises `SvcError`."""
    last = run(_LAST)["rows"][0]["last"]
    if last is None:
        return Activity(seconds, [], [], partial=False)
    since_ns = now_ns - seconds * 1_000_000_000
    fields = {"sums": _SUMS, "after": last - MAX_RECORDS, "since_ns": since_ns, "limit": MAX_ROUTES}
    resources, routes = (run(sql.format(**fields))["rows"] for sql in (_RESOURCES, _ROUTES))
    omitted = run(_OMITTED.format(**fields))["rows"]
    partial = bool(omitted) and omitted[0]["time_ns"] >= since_ns
    return Activity(seconds, resources, routes, partial)


POLL_SECONDS, RETRY_SECONDS = 0.05, 1.0


def local_pages(
    path: Path,
    selected: RecordFilter,
    *,
    after: int | None = None,
    tail: int | None = None,
    follow: bool = False,
) -> Iterator[RecordPage]:
    """Yield the records of `svc dev`, and when following new ones until the reader closes the pipe."""
    position = after or 0
    for page in select(path, selected, after=after, tail=tail):
        position = page.position
        yield page
    follower = TimelineFollower(path, selected, position)
    while follow:
        yield (page := follower.poll())
        if not page.more:
            stdout.pause(POLL_SECONDS)


def remote_pages(
    login: Credentials,
    project: str,
    filters: Mapping[str, Any],
    *,
    pattern: re.Pattern[str] | None = None,
    tail: int | None = None,
    follow: bool = False,
) -> Iterator[RecordPage]:
    """Yield the records of a service as `local_pages` does; after a lost connection, those that follow.

    The service applies `filters`, and `tail` unless there is a `pattern`.
    """
    last = deque[Document](maxlen=tail) if pattern is not None and tail is not None else None
    params = {**filters, "tail": tail if last is None else None, "follow": "true" if follow else None}
    position: int | None = None
    connected = True
    while True:
        try:
            with open_client(login, running=follow) as client:
                for line in client.lines("GET", f"/v1/projects/{project}/logs", params=params):
                    entries = []
                    if "position" in line:
                        position, connected = line["position"], True
                        stdout.pause(0)  # exits once the reader has closed the pipe
                    elif "dropped" not in line:
                        position = line["cursor"]
                        if pattern is None or pattern.search(searchable_document(line)):
                            entries.append(line)
                    if last is not None:
                        last += entries
                        entries, last = ([*last], None) if "position" in line else ([], last)
                    yield RecordPage(entries, position or 0, line.get("dropped", 0))
        except Unreachable as error:
            if not follow or position is None:
                raise
            if connected:
                stderr.warn(error.message, "svc reconnects until you press Ctrl+C.")
            connected = False
        if not follow:
            yield RecordPage([*(last or ())], position or 0)
            return
        params |= {"since": None, "until": None, "tail": None, "after": position}
        stdout.pause(RETRY_SECONDS)
