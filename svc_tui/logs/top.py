"""Activity of resources and routes in a window of the timeline."""

from dataclasses import dataclass, replace
from typing import Any

from svc_tui.logs.sql import TimelineSql

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
