"""SQL over the timeline of a project, and the activity of resources and routes in a window of it.

The timeline of its `svc dev` is read from the file, that of its service over the control API.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import InvalidUsage
from engine.manifest.load import load
from engine.timeline import sql as timeline_sql
from engine.timeline.database import timeline_path
from svc_tui.client import Client
from svc_tui.client.credentials import Credentials, open_client


class TimelineSql:
    """A timeline that statements read."""

    def __init__(self, root: Path, client: Client | None) -> None:
        """`client` reaches the service; without one, the file of the project in the folder `root` is read."""
        self._root, self._client = root, client

    def run(self, sql: str, limit: int = timeline_sql.MAX_ROWS) -> Any:
        """Return the result of a SELECT: `columns`, `rows`, `truncated`. Raises `SvcError`."""
        if self._client is None:
            return json.loads(timeline_sql.run(timeline_path(self._root), sql, limit))
        body = {"sql": sql, "limit": limit}
        return self._client.call("POST", f"/v1/projects/{load(self._root).name}/logs/sql", body)


@contextmanager
def open_timeline(root: Path, credentials: Credentials | None) -> Iterator[TimelineSql]:
    """Yield the timeline of the project in a folder: on a service with `credentials`, else of `svc dev`."""
    if credentials is None:
        yield TimelineSql(root, None)
        return
    with open_client(credentials) as client:
        yield TimelineSql(root, client)


def complete_id(root: Path, credentials: Credentials | None, text: str) -> str:
    """Return the id of the request that begins with a text of 8 characters or more, else the text.

    Raises `SvcError` if several requests begin with it.
    """
    known = credentials is not None or timeline_path(root).exists()
    if not known or not re.fullmatch("[0-9a-z]{8,25}", text):
        return text
    with open_timeline(root, credentials) as timeline:
        sql = f"select distinct request_id from requests where request_id between '{text}' and '{text}~'"
        found = [row["request_id"] for row in timeline.run(f"{sql} order by 1 limit 6")["rows"]]
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


def read_activity(timeline: TimelineSql, seconds: int, now_ns: int) -> Activity:
    """Read the activity of the last seconds before a Unix time. Raises `SvcError`."""
    last = timeline.run(_LAST)["rows"][0]["last"]
    if last is None:
        return Activity(seconds, [], [], partial=False)
    since_ns = now_ns - seconds * 1_000_000_000
    fields = {"sums": _SUMS, "after": last - MAX_RECORDS, "since_ns": since_ns, "limit": MAX_ROUTES}
    resources, routes = (timeline.run(sql.format(**fields))["rows"] for sql in (_RESOURCES, _ROUTES))
    omitted = timeline.run(_OMITTED.format(**fields))["rows"]
    partial = bool(omitted) and omitted[0]["time_ns"] >= since_ns
    return Activity(seconds, resources, routes, partial)
