"""`svc usage`, and `svc top` on a screen of lines that is redrawn, with single keys."""

import os
import select
import sys
import termios
import time
import tty
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.errors import InvalidUsage, SvcError
from engine.manifest.load import find, load
from engine.manifest.problems import did_you_mean
from engine.usage.store import MINUTE_NS, Key, UsageCount, UsageStore, usage_path
from svc_tui.client.credentials import noted_client
from svc_tui.commands.options import AsJson, flag, option
from svc_tui.logs import (
    AGE_EXAMPLES,
    SORTS,
    Activity,
    RunSql,
    ServiceOption,
    open_timeline,
    parse_age,
    read_activity,
    resolve_target,
)
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.stdout import Answer, Cell, Styled
from svc_tui.terminal.units import duration, size


class By(StrEnum):
    """The period that a row covers."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    TOTAL = "total"


_TIME_FORMATS = {By.MINUTE: "%Y-%m-%d %H:%M", By.HOUR: "%Y-%m-%d %H:00", By.DAY: "%Y-%m-%d", By.TOTAL: ""}


def usage(
    since: Annotated[str, option("TIME", f"Maximum age: {AGE_EXAMPLES}. Rounded up to minutes.")] = "24h",
    resource: Annotated[str | None, option("NAME", "Show one resource only.")] = None,
    by: Annotated[By, typer.Option(help="Period of a row.")] = By.TOTAL,
    service: ServiceOption = None,
) -> Answer:
    """Show requests, failures, compute time, memory and bytes of each resource."""
    root, minutes = find(Path.cwd()), -(-parse_age(since) // 60)
    first = time.time_ns() // MINUTE_NS - minutes + 1
    credentials = resolve_target(root, service)
    memory: dict[str, int] | None = None
    doors: list[Any] = []
    counts: dict[Key, UsageCount] = {}
    if credentials is not None:
        path = f"/v1/projects/{load(root).name}"
        with noted_client(credentials) as client:
            answer = client.call("GET", f"{path}/usage", params={"minutes": minutes})
            found = client.call("GET", f"{path}/state")["doors"] if answer["rows"] else []
        counts = {(row.pop("minute"), row.pop("resource")): UsageCount(**row) for row in answer["rows"]}
        memory, doors = answer.get("memory"), [each for each in found if each["bytes"] is not None]
    elif (file := usage_path(root)).exists():
        with closing(UsageStore(file)) as store:
            counts = store.read(first)
    sums: defaultdict[Key, UsageCount] = defaultdict(UsageCount)
    for (minute, name), count in counts.items():
        if resource in (None, name):
            sums[_begin(minute, first, by), name] += count
    rows = dict(sorted(sums.items()))
    documents = [
        {"start": _iso(minute), "resource": name, **asdict(count)} for (minute, name), count in rows.items()
    ]
    document = {"since": _iso(first), "by": by, "rows": documents, "memory": memory, "doors": doors}
    if not rows:
        of = f" to {resource}" if resource is not None else ""
        source = "`svc dev`" if credentials is None else "the service"
        return Answer(document, empty=f"{source} counted no requests{of} in the last {since}; try --since 7d")
    notes = []
    if memory is not None and stdout.is_terminal():
        notes.append(f"the service uses {size(memory['used'])} of {size(memory['budget'])} of memory")
        for door in doors:
            history = f" and {size(log)} of history" if (log := door["log_bytes"]) is not None else ""
            notes.append(f"the {door['name']} of the project have {size(door['bytes'])}{history}")
    fields = list(documents[0]), [list(each.values()) for each in documents]
    return Answer(document, _lines(rows, by), fields=fields, after="\n".join(notes))


def _begin(minute: int, first: int, by: By) -> int:
    """Return the first minute of the period of local time that a minute is in."""
    if by is By.TOTAL:
        return first
    if by is By.MINUTE:
        return minute
    local = datetime.fromtimestamp(minute * 60).astimezone()
    local = local.replace(minute=0) if by is By.HOUR else local.replace(hour=0, minute=0)
    return int(local.timestamp()) // 60


def _iso(minute: int) -> str:
    return datetime.fromtimestamp(minute * 60).astimezone().isoformat()


def _lines(rows: dict[Key, UsageCount], by: By) -> list[Styled]:
    heads = ["start", "resource", "requests", "failures", "compute", "wall", "memory", "in", "out"]
    lines: list[list[Cell]] = []
    previous = ""
    for (minute, resource), count in rows.items():
        start = datetime.fromtimestamp(minute * 60).strftime(_TIME_FORMATS[by])
        memory = size(count.peak_memory) if count.peak_memory else ""
        numbers = [duration(count.compute_ns), duration(count.wall_ns), memory]
        failures = (str(count.failures), "bold red" if count.failures else "dim")
        head = [("" if start == previous else start, "dim"), (resource, "cyan"), (str(count.requests), "")]
        numbers += [size(count.bytes_in), size(count.bytes_out)]
        lines.append([*head, failures, *((text, "") for text in numbers)])
        previous = start
    first = 1 if by is By.TOTAL else 0  # a total has no start
    right = range(2 - first, len(heads) - first)
    return stdout.table(heads[first:], [line[first:] for line in lines], right, stdout.UNLIMITED_WIDTH)


_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""The alternate screen without a cursor, whose longer lines are cut."""
_MAX_KEY_BYTES = 64


@contextmanager
def _alternate_screen(stream: int) -> Iterator[None]:
    """Show the alternate screen of the terminal of a stream, which gives single keys, within the context."""
    modes = termios.tcgetattr(stream)
    tty.setcbreak(stream)
    stdout.control(_ENTER)
    try:
        yield
    finally:
        stdout.control(_LEAVE)
        termios.tcsetattr(stream, termios.TCSADRAIN, modes)


REFRESH_SECONDS = 2.0
MAX_SINCE = 3600
"""Maximum seconds of the window."""
_KEYS = {name[0]: name for name in SORTS}
_HEADS = ("req/s", "p95", "failed", "cpu", "memory")
_RIGHT = frozenset(range(1, len(_HEADS) + 1))
_MIN_COLUMNS = 58
"""Cells that the tables need."""


def top(
    since: Annotated[str, option("TIME", f"Length of the window: {AGE_EXAMPLES}; at most 1h.")] = "1m",
    sort: Annotated[str, option("COLUMN", f"Order: {', '.join(SORTS)}.")] = "rate",
    once: Annotated[bool, flag("Print the tables once and exit.", "--once")] = False,
    service: ServiceOption = None,
    as_json: AsJson = False,
) -> None:
    """Show resources and routes by requests, duration, failures, CPU time and memory, live."""
    seconds = parse_age(since)
    if seconds > MAX_SINCE:
        raise InvalidUsage(f"--since {since} is longer than 1h", "Use svc usage for longer periods.")
    if sort not in SORTS:
        raise InvalidUsage(f'unknown column "{sort}"', did_you_mean(sort, list(SORTS)))
    root = find(Path.cwd())
    name = load(root).name
    credentials = resolve_target(root, service)
    where = f"{name} on {credentials.key}" if credentials is not None else f"{name} in svc dev"
    live = not (as_json or once) and stdout.is_terminal() and sys.stdin.isatty()
    with open_timeline(root, credentials, running=live) as run:
        if not live:
            activity = _read_window(run, seconds).sorted(sort)
            if as_json:
                stdout.data(asdict(activity))
            else:
                stdout.styled_lines(list(chain(*_tables(activity, stdout.width()))))
            if not activity.resources:
                stderr.note(f"no requests in the last {_period(seconds)}")
            elif activity.partial:
                stderr.warn("only the last records of this time were read", "Pass a shorter --since.")
            return
        _live(run, seconds, sort, where)


def _read_window(run: RunSql, seconds: int) -> Activity:
    try:
        return read_activity(run, seconds, time.time_ns())
    except SvcError as error:
        if error.code == "not-found":  # Nothing was recorded yet.
            return Activity(seconds, [], [], partial=False)
        raise


def _live(run: RunSql, window: int, sort: str, where: str) -> None:
    activity, problem, read_at = _read_window(run, window), "", time.monotonic()
    stream = sys.stdin.fileno()
    with _alternate_screen(stream):
        while True:
            columns, lines = os.get_terminal_size(stream)  # The variables COLUMNS and LINES do not change.
            stdout.redraw(_screen(activity.sorted(sort), sort, problem or where, columns, lines)[:lines])
            seconds, key = max(0.0, read_at + REFRESH_SECONDS - time.monotonic()), ""
            if select.select([stream], [], [], seconds)[0]:
                key = os.read(stream, _MAX_KEY_BYTES).decode(errors="replace") or "q"  # At the end of input.
            if key in ("q", "\x1b", "\x04"):
                return
            sort = _KEYS.get(key, sort)
            if not key:
                try:
                    activity, problem = _read_window(run, window), ""
                except SvcError as error:
                    problem = error.message
                read_at = time.monotonic()


def _screen(activity: Activity, sort: str, title: str, columns: int, lines: int) -> list[Styled]:
    """Return the lines of the screen: resources, and as many routes as fit."""
    total = sum(row["requests"] for row in activity.routes) / activity.seconds
    head = f"{total:.1f} req/s in {_period(activity.seconds)} by {sort}"
    if activity.partial:
        head += ", of the last records"
    foot = "  ".join(f"{key} {name}" for key, name in _KEYS.items()) + "  q quit"
    resources, routes = _tables(activity, max(columns, _MIN_COLUMNS))
    room = lines - 4
    resources = resources[: max(room // 2, room - len(routes))]
    body = [*resources, [], *routes][: room + 1]
    body += [[]] * (room + 1 - len(body))
    return [[(title[:columns], "bold")], [(head[:columns], "dim")], *body, [(foot[:columns], "dim")]]


def _tables(activity: Activity, width: int) -> tuple[list[Styled], list[Styled]]:
    """Return the table of the resources and that of the routes, with columns of the same widths."""
    resources, routes = (_rows(rows, activity.seconds) for rows in (activity.resources, activity.routes))
    heads: list[Cell] = [(head, "bold") for head in ("route", *_HEADS)]
    lines = stdout.table(("resource", *_HEADS), [*resources, heads, *routes], _RIGHT, width)
    return lines[: len(resources) + 1], lines[len(resources) + 1 :]


def _rows(rows: list[dict[str, Any]], seconds: int) -> list[list[Cell]]:
    return [
        [
            (row["name"], "cyan"),
            (f"{row['requests'] / seconds:.1f}", ""),
            (duration(round(row["p95_ms"] * 1e6)), ""),
            (f"{row['failures'] / row['requests']:.0%}", "bold red" if row["failures"] else "dim"),
            (f"{row['compute_ms'] / 10 / seconds:.1f}%", ""),
            (size(row["peak_memory"]) if row["peak_memory"] else "", ""),
        ]
        for row in rows
    ]


def _period(seconds: int) -> str:
    return f"{seconds} s" if seconds % 60 else f"{seconds // 60} min"
