"""`svc usage`."""

import time
from collections import defaultdict
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from engine.manifest.load import find, load
from engine.usage.aggregate import MINUTE_NS, Key, UsageCount
from engine.usage.store import UsageStore, usage_path
from svc_tui.client.credentials import Credentials, open_client
from svc_tui.commands.options import AsJson
from svc_tui.logs.options import AGE_EXAMPLES, ServiceOption, parse_age, resolve_target
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.stdout import Cell
from svc_tui.terminal.units import duration, size


class By(StrEnum):
    """The period that a row covers."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    TOTAL = "total"


_TIME_FORMATS = {By.MINUTE: "%Y-%m-%d %H:%M", By.HOUR: "%Y-%m-%d %H:00", By.DAY: "%Y-%m-%d", By.TOTAL: ""}


def usage(
    since: Annotated[
        str, typer.Option(metavar="TIME", help=f"Maximum age: {AGE_EXAMPLES}. Rounded up to minutes.")
    ] = "24h",
    resource: Annotated[str | None, typer.Option(metavar="NAME", help="Show one resource only.")] = None,
    by: Annotated[By, typer.Option("--by", help="Period of a row.")] = By.TOTAL,
    service: ServiceOption = None,
    as_json: AsJson = False,
) -> None:
    """Show requests, failures, compute time, memory and bytes of each resource."""
    root, minutes = find(Path.cwd()), -(-parse_age(since) // 60)
    first = time.time_ns() // MINUTE_NS - minutes + 1
    credentials = resolve_target(root, service)
    memory: dict[str, int] | None = None
    if credentials is None:
        counts = _read(usage_path(root), first)
    else:
        counts, memory = _query(credentials, load(root).name, minutes)
    if resource is not None:
        counts = {key: count for key, count in counts.items() if key[1] == resource}
    rows = _added(counts, first, by)
    documents = [_document(key, rows[key]) for key in rows]
    if as_json:
        stdout.data({"since": _iso(first), "by": by, "rows": documents, "memory": memory})
        return
    if not rows:
        of = f" to {resource}" if resource is not None else ""
        source = "`svc dev`" if credentials is None else "the service"
        stderr.note(f"{source} counted no requests{of} in the last {since}; try --since 7d")
    elif stdout.is_terminal():
        _table(rows, by)
        if memory is not None:
            stderr.note(f"the service uses {size(memory['used'])} of {size(memory['budget'])} of memory")
    else:
        stdout.fields(list(documents[0]), [list(document.values()) for document in documents])


def _read(path: Path, first: int) -> dict[Key, UsageCount]:
    if not path.exists():
        return {}
    with closing(UsageStore(path)) as store:
        return store.read(first)


def _query(
    credentials: Credentials, project: str, minutes: int
) -> tuple[dict[Key, UsageCount], dict[str, int] | None]:
    """Return the counts of a service, and its memory (`budget` and `used` in bytes)."""
    with open_client(credentials) as client:
        answer = client.call("GET", f"/v1/projects/{project}/usage", params={"minutes": minutes})
    rows = answer["rows"]
    counts = {(row.pop("minute"), row.pop("resource")): UsageCount(**row) for row in rows}
    return counts, answer.get("memory")


def _added(counts: dict[Key, UsageCount], first: int, by: By) -> dict[Key, UsageCount]:
    """Return one count per period of local time and resource, keyed by the period's first minute."""
    rows: defaultdict[Key, UsageCount] = defaultdict(UsageCount)
    for (minute, resource), count in counts.items():
        rows[_begin(minute, first, by), resource] += count
    return dict(sorted(rows.items()))


def _begin(minute: int, first: int, by: By) -> int:
    if by is By.TOTAL:
        return first
    if by is By.MINUTE:
        return minute
    local = datetime.fromtimestamp(minute * 60).astimezone()
    local = local.replace(minute=0) if by is By.HOUR else local.replace(hour=0, minute=0)
    return int(local.timestamp()) // 60


def _iso(minute: int) -> str:
    return datetime.fromtimestamp(minute * 60).astimezone().isoformat()


def _document(key: Key, count: UsageCount) -> dict[str, str | int]:
    """Return the fields of a row, in column order."""
    return {"start": _iso(key[0]), "resource": key[1], **asdict(count)}


def _table(rows: dict[Key, UsageCount], by: By) -> None:
    heads = ["start", "resource", "requests", "failures", "compute", "wall", "memory", "in", "out"]
    lines: list[list[Cell]] = []
    previous = ""
    for (minute, resource), count in rows.items():
        start = datetime.fromtimestamp(minute * 60).strftime(_TIME_FORMATS[by])
        memory = size(count.peak_memory) if count.peak_memory else ""
        numbers = [duration(count.compute_ns), duration(count.wall_ns), memory]
        lines.append(
            [
                ("" if start == previous else start, "dim"),
                (resource, "cyan"),
                (str(count.requests), ""),
                (str(count.failures), "bold red" if count.failures else "dim"),
                *((text, "") for text in (*numbers, size(count.bytes_in), size(count.bytes_out))),
            ]
        )
        previous = start
    first = 1 if by is By.TOTAL else 0  # a total has no start
    right = range(2 - first, len(heads) - first)
    stdout.table(heads[first:], [line[first:] for line in lines], right, stdout.UNLIMITED_WIDTH)
