"""`svc usage`: what each Resource of the Project took, while `svc dev` runs and after."""

import re
import time
from collections import defaultdict
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import SvcError
from engine.manifest.load import find, load
from engine.usage.aggregate import MINUTE_NS, Key, UsageCount
from engine.usage.store import UsageStore, usage_path
from svc_tui.client.credentials import Credentials, open_client
from svc_tui.dev.request_log import duration
from svc_tui.logs.target import ServiceOption, resolve_target
from svc_tui.terminal import stderr, stdout

_UNITS = {"m": 1, "h": 60, "d": 24 * 60}
_SIZES = ("KiB", "MiB", "GiB", "TiB")
_TIME = re.compile(r"([1-9]\d{0,5})([mhd])")


class By(StrEnum):
    """How long a line's time is."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    TOTAL = "total"


_SHOWN = {By.MINUTE: "%Y-%m-%d %H:%M", By.HOUR: "%Y-%m-%d %H:00", By.DAY: "%Y-%m-%d", By.TOTAL: ""}


def usage(
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="How far back: 30m, 12h, 7d.")
    ] = "24h",
    resource: Annotated[str | None, typer.Option("--resource", help="One Resource only.")] = None,
    by: Annotated[By, typer.Option("--by", help="What to add up.")] = By.TOTAL,
    service: ServiceOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show requests, failures, compute time, memory and bytes of each Resource."""
    root, minutes = find(Path.cwd()), _minutes(since)
    first = time.time_ns() // MINUTE_NS - minutes + 1
    login = resolve_target(root, service)
    counts = _read(usage_path(root), first) if login is None else _ask(login, load(root).name, minutes)
    if resource is not None:
        counts = {key: count for key, count in counts.items() if key[1] == resource}
    rows = _added(counts, first, by)
    if as_json:
        stdout.data({"since": _iso(first), "by": by, "rows": [_document(key, rows[key]) for key in rows]})
    elif not rows:
        of = f" to {resource}" if resource is not None else ""
        counter = "`svc dev` counts what it serves" if login is None else "the service counts all of them"
        stderr.note(
            f"no request{of} was counted in the last {since}: {counter}, and --since 7d looks further back"
        )
    elif stdout.is_terminal():
        _table(rows, by)
    else:
        for key, count in rows.items():
            stdout.styled([("\t".join(str(value) for value in _document(key, count).values()), "")])


def _minutes(text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise SvcError(
            f'"{text}" is no time to look back', "Use minutes, hours or days: 30m, 12h, 7d.", code="usage"
        )
    return int(found[1]) * _UNITS[found[2]]


def _read(path: Path, first: int) -> dict[Key, UsageCount]:
    if not path.exists():
        return {}
    store = UsageStore(path)
    try:
        return store.read(first)
    finally:
        store.close()


def _ask(login: Credentials, project: str, minutes: int) -> dict[Key, UsageCount]:
    """Ask a service."""
    with open_client(login) as client:
        rows = client.call("GET", f"/v1/projects/{project}/usage", params={"minutes": minutes})["rows"]
    return {(row.pop("minute"), row.pop("resource")): UsageCount(**row) for row in rows}


def _added(counts: dict[Key, UsageCount], first: int, by: By) -> dict[Key, UsageCount]:
    """Add up to one count for each piece of local time and Resource, keyed by the minute it begins with."""
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
    """Return the fields of a row, in the order of the columns."""
    return {"begin": _iso(key[0]), "resource": key[1], **asdict(count)}


def _table(rows: dict[Key, UsageCount], by: By) -> None:
    heads = ["resource", "requests", "failures", "compute", "wall", "memory", "in", "out"]
    lines = [_cells(resource, count) for (_, resource), count in rows.items()]
    widths = [max(map(len, column)) for column in zip(heads, *lines, strict=True)]
    times = [datetime.fromtimestamp(minute * 60).strftime(_SHOWN[by]) for minute, _ in rows]
    stdout.styled([(_set("begin" if times[0] else "", times[0]), "dim"), (_row(heads, widths), "bold")])
    for when, before, cells in zip(times, ["", *times], lines, strict=False):
        name, requests, failures, *rest = _padded(cells, widths)
        stdout.styled(
            [
                (_set("" if when == before else when, times[0]), "dim"),
                (name, "cyan"),
                (f"  {requests}  ", ""),
                (failures, "bold red" if cells[2] != "0" else "dim"),
                ("  " + "  ".join(rest), ""),
            ]
        )


def _cells(resource: str, count: UsageCount) -> list[str]:
    return [
        resource,
        str(count.requests),
        str(count.failures),
        duration(count.compute_ns),
        duration(count.wall_ns),
        _size(count.peak_memory) if count.peak_memory else "",
        _size(count.bytes_in),
        _size(count.bytes_out),
    ]


def _set(when: str, like: str) -> str:
    return f"{when:<{len(like)}}  " if like else ""


def _padded(cells: list[str], widths: list[int]) -> list[str]:
    """Set the name to the left and the numbers to the right."""
    numbers = [f"{cell:>{width}}" for cell, width in zip(cells[1:], widths[1:], strict=True)]
    return [f"{cells[0]:<{widths[0]}}", *numbers]


def _row(cells: list[str], widths: list[int]) -> str:
    return "  ".join(_padded(cells, widths))


def _size(count: int) -> str:
    """Return a number of bytes for a person: `812 B`, `3.4 KiB`, `12 MiB`."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, len(_SIZES))
    size = count / (1 << 10 * power)
    return f"{size:.1f} {_SIZES[power - 1]}" if size < 10 else f"{size:.0f} {_SIZES[power - 1]}"
