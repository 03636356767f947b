"""`svc logs`: the timeline of the Project, while `svc dev` runs and after."""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from engine.door import Severity
from engine.errors import SvcError
from engine.manifest.load import find, load
from engine.timeline.database import timeline_path
from engine.timeline.follow import TimelineFollower
from engine.timeline.json_format import to_json
from engine.timeline.query import RecordFilter, open_reader
from engine.timeline.record import SEVERITIES, severity
from engine.timeline.selection import RecordRange, select
from engine.timeline.stored_record import StoredRecord
from svc_tui.logs.format import LogFormatter
from svc_tui.logs.remote import LogQuery, RemoteLogs
from svc_tui.logs.target import ServiceOption, resolve_target
from svc_tui.terminal import stderr, stdout

TAIL = 100
LAST = (1 << 63) - 1
PAUSE_SECONDS = 0.05
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
_TIME = re.compile(r"([1-9]\d{0,8})([smhd])", re.ASCII)


def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    resource: Annotated[str | None, typer.Option("--resource", metavar="NAME", help="One Resource.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="How far back: 30s, 10m, 12h, 7d.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only what is older: 30s, 10m, 12h, 7d.")
    ] = None,
    level: Annotated[
        str | None,
        typer.Option("--level", metavar="LEVEL", help="This level and above, from trace to fatal."),
    ] = None,
    request: Annotated[str | None, typer.Option("--request", metavar="ID", help="One request.")] = None,
    grep: Annotated[
        str | None,
        typer.Option("--grep", metavar="RE", help="Records in which a regular expression is found."),
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option(
            "--tail",
            metavar="N",
            min=0,
            help=f"At most the last N; {TAIL} unless --since, --after or --request is given.",
        ),
    ] = None,
    after: Annotated[
        int | None,
        typer.Option("--after", metavar="CURSOR", min=0, max=LAST, help="Only what comes after a record."),
    ] = None,
    service: ServiceOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a record.")] = False,
) -> None:
    """Show requests, log records and what guests printed, in the order in which they were recorded."""
    root = find(Path.cwd())
    path = timeline_path(root)
    wanted = RecordFilter(resource, request, _severity(level), _pattern(grep))
    seconds = None if since is None else _seconds(since)
    older = None if until is None else _seconds(until)
    _check_times(seconds, older, follow=follow)
    if tail is None and since is None and after is None and request is None:
        tail = TAIL
    shown = 0
    view = LogFormatter(dated=not stdout.is_terminal(), apart=resource is not None or grep is not None)

    def show(entries: Sequence[StoredRecord]) -> None:
        nonlocal shown
        if not entries:
            return
        shown += len(entries)
        if as_json:
            stdout.data_lines([to_json(entry) for entry in entries])
        else:
            stdout.styled_lines([line for entry in entries for line in view.lines(entry.record)])

    login = resolve_target(root, service)
    if login is not None:
        wish = LogQuery(resource, level, request, wanted.pattern, seconds, tail, after, follow, older)
        RemoteLogs(login, load(root).name, wish, show, _tell_missed).run()
    else:
        _check_resource(root, resource, path)
        there = path.exists()
        if not there:
            and_now = ": waiting for `svc dev`" if follow else ": `svc dev` records what it serves"
            stderr.note(f"nothing is recorded here yet{and_now}")
            if not follow:
                return
        stretch = RecordRange(_back(seconds), after, tail, _back(older))
        position = after or 0
        # Who was told that there is nothing gets all that comes, however soon it does.
        for page in select(path, wanted, stretch) if there else ():
            _tell_missed(page.missed)
            show(page.entries)
            position = page.upto
        if follow:
            _follow(TimelineFollower(path, wanted, position), show)
    stdout.styled_lines(list(view.flush()))
    if not shown and tail != 0:
        stderr.note("nothing that is recorded is what you asked for")


def _follow(follower: TimelineFollower, show: Callable[[Sequence[StoredRecord]], None]) -> None:
    while True:
        page = follower.poll()
        _tell_missed(page.missed)
        show(page.entries)
        if not page.more:
            stdout.pause(PAUSE_SECONDS)


def _tell_missed(count: int) -> None:
    if count:
        were = "1 record was" if count == 1 else f"{count} records were"
        stderr.warn(
            f"{were} removed before they could be shown",
            "The timeline keeps the last 7 days, and 256 MiB at most.",
        )


def _severity(text: str | None) -> Severity | None:
    if text is None:
        return None
    if (found := severity(text)) is not None:
        return found
    names = [each.lower() for each in SEVERITIES]
    close = get_close_matches(text.lower(), names, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Use {', '.join(names[:-1])} or {names[-1]}."
    raise SvcError(f'there is no level "{text}"', hint, code="usage")


def _seconds(text: str) -> float:
    found = _TIME.fullmatch(text)
    if found is None:
        raise SvcError(
            f'"{text}" is no time to look back',
            "Use seconds, minutes, hours or days: 30s, 10m, 12h, 7d.",
            code="usage",
        )
    return int(found[1]) * _UNITS[found[2]]


def _back(seconds: float | None) -> int | None:
    """Return the time so long ago, in nanoseconds of the Unix epoch."""
    return None if seconds is None else time.time_ns() - int(seconds * 1e9)


def _check_times(since: float | None, until: float | None, *, follow: bool) -> None:
    if until is None:
        return
    if follow:
        raise SvcError(
            "--follow goes on with what comes, which --until leaves out", "Leave one out.", code="usage"
        )
    if since is not None and since <= until:
        raise SvcError(
            "nothing was recorded both since and until then",
            "--since goes farther back than --until: --since 1h --until 10m",
            code="usage",
        )


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise SvcError(
            f'"{text}" is no regular expression: {error}',
            "Put a backslash before a character that is meant as it is: \\[",
            code="usage",
        ) from error


def _check_resource(root: Path, name: str | None, path: Path) -> None:
    """Refuse a Resource that neither the manifest nor the timeline knows."""
    if name is None:
        return
    recorded: set[str] = set()
    if (reader := open_reader(path)) is not None:
        with closing(reader):
            recorded = reader.resources()
    if name in recorded:
        return
    try:
        names = recorded | set(load(root).resources)
    except SvcError:
        return  # The manifest has mistakes, which are not this command's to tell; any name may be meant.
    if name in names:
        return
    close = get_close_matches(name, names, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(sorted(names))}."
    raise SvcError(f'there is no resource "{name}"', hint, code="usage")
