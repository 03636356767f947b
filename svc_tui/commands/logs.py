"""`svc logs`; and `svc policy`: the fewest lines of svc.toml that permit calls and denials in the logs."""

import json
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from engine.door import Severity
from engine.errors import InvalidUsage, SvcError
from engine.manifest import MANIFEST
from engine.manifest.egress import Egress, parse_rule
from engine.manifest.load import find, load
from engine.manifest.model import Project, targets
from engine.manifest.problems import alternatives
from engine.timeline.database import timeline_path
from engine.timeline.query import RecordFilter, open_reader
from engine.timeline.record import SEVERITIES, Document, searchable_document, severity
from svc_tui.commands.options import Commands, flag, option, resource_names
from svc_tui.dev.request_log import RequestLog
from svc_tui.logs import (
    AGE_EXAMPLES,
    ServiceOption,
    complete_id,
    local_pages,
    open_timeline,
    parse_age,
    remote_pages,
    resolve_target,
)
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.stdout import Answer, Styled, toned
from svc_tui.terminal.units import plural

DEFAULT_TAIL = 100
MAX_CURSOR = (1 << 63) - 1
TREE_WIDTH = 120
"""Width of a tree that is not printed on a terminal."""


def logs(
    follow: Annotated[bool, flag("Stream new records until you press Ctrl+C.", "--follow", "-f")] = False,
    resource: Annotated[
        str | None, option("NAME", "Show records of one resource.", autocompletion=resource_names)
    ] = None,
    since: Annotated[str | None, option("TIME", f"Maximum age: {AGE_EXAMPLES}.")] = None,
    until: Annotated[str | None, option("TIME", f"Minimum age: {AGE_EXAMPLES}.")] = None,
    level: Annotated[str | None, option("LEVEL", "Minimum level, from trace to fatal.")] = None,
    request: Annotated[str | None, option("ID", "Show one request; 8 characters are enough.")] = None,
    tree: Annotated[bool, flag("With --request: show its spans and calls on a time axis.", "--tree")] = False,
    grep: Annotated[str | None, option("RE", "Show records that match a regular expression.")] = None,
    tail: Annotated[
        int | None,
        option(
            "N",
            f"Show the last N records (default: {DEFAULT_TAIL}; all with --since, --after, --request).",
            min=0,
        ),
    ] = None,
    after: Annotated[str | None, option("CURSOR", "Show records after this cursor.")] = None,
    service: ServiceOption = None,
    sql: Annotated[
        str | None, option("SELECT", "Query the views requests, spans, records, lines and metrics.")
    ] = None,
    as_json: Annotated[bool, flag("Print one JSON document per record or row.", "--json")] = False,
    as_csv: Annotated[bool, flag("With --sql: print CSV.", "--csv")] = False,
) -> None:
    """Show requests, log records and output of your code, oldest first."""
    root = find(Path.cwd())
    path = timeline_path(root)
    if sql is not None:
        chosen = (follow, resource, since, until, level, request, tree, grep, tail, after)
        if any(value not in (None, False) for value in chosen):
            raise InvalidUsage("--sql and filters exclude each other", "Filter with WHERE and LIMIT.")
        _query(root, sql, service, as_json=as_json, as_csv=as_csv)
        return
    if tree:
        others = (follow, resource, since, until, level, grep, tail, after, as_json)
        if request is None or any(value not in (None, False) for value in others):
            raise InvalidUsage("--tree is for --request", "Pass --request ID --tree.")
        _print_tree(root, path, request, service)
        return
    if as_csv:
        raise InvalidUsage("--csv is for --sql", "Pass --json for records.")
    credentials = resolve_target(root, service)
    if request is not None:
        request = complete_id(root, credentials, request)
    pattern = _pattern(grep)
    record_filter = RecordFilter(resource, request, min_level=_severity(level), pattern=pattern)
    seconds = None if since is None else parse_age(since)
    older = None if until is None else parse_age(until)
    if until is not None and follow:
        raise InvalidUsage("--follow and --until are mutually exclusive", "Pass only one of them.")
    if older is not None and seconds is not None and seconds <= older:
        hint = "Pass an older --since, for example --since 1h --until 10m."
        raise InvalidUsage("--since is not older than --until", hint)
    if tail is None and since is None and after is None and request is None:
        tail = DEFAULT_TAIL
    count = 0

    def has_root(span: Document) -> bool:
        # A root span differs from the inner ones by its resource and its empty detail.
        text = searchable_document({**span, "detail": ""})
        return resource is None and (pattern is None or pattern.search(text) is not None)

    day, written = date.today() if stdout.is_terminal() else None, list[Styled]()
    log = RequestLog(written.append, live=True, dated=day is None, day=day, has_root=has_root)

    def show(entries: Sequence[Document]) -> None:
        nonlocal count
        if not entries:
            return
        count += len(entries)
        if as_json:
            stdout.data(*entries)
        else:
            for entry in entries:
                log.add(entry)
            stdout.styled_lines(written)
            written.clear()

    cursor = None if after is None else _cursor(after)
    if credentials is not None:
        filters: dict[str, Any] = {"resource": resource, "level": level, "request": request, "after": cursor}
        filters |= {"since": seconds, "until": older}
        name = load(root).name
        pages = remote_pages(credentials, name, filters, pattern=pattern, tail=tail, follow=follow)
    else:
        _check_resource(root, resource, path)
        if not path.exists():
            stderr.note("no records yet: " + ("waiting for `svc dev`" if follow else "start `svc dev`"))
            if not follow:
                return
            tail = None  # Records that are written from now on are all new.
        selected = replace(record_filter, since_ns=_time_of_age(seconds), until_ns=_time_of_age(older))
        pages = local_pages(path, selected, after=cursor, tail=tail, follow=follow)
    for page in pages:
        _warn_dropped(page.dropped)
        show(page.entries)
    log.flush()
    stdout.styled_lines(written)
    if not count and tail != 0:
        stderr.note("no matching records")


def _query(root: Path, sql: str, service: bool | None, *, as_json: bool, as_csv: bool) -> None:
    """Run a statement over the timeline, and print its rows."""
    from svc_tui.commands.tables import print_rows
    from svc_tui.tables_syntax import ColumnTypes

    with open_timeline(root, resolve_target(root, service)) as run:
        result = run(sql)
    as_grid = stdout.is_terminal() and not as_json and not as_csv
    print_rows(result, ColumnTypes(), as_json=as_json, as_grid=as_grid, exact=as_csv)
    if result["truncated"]:
        rows = plural(len(result["rows"]), "row")
        stderr.warn(f"the result ends after {rows}: it was too long", "Narrow the query: WHERE, LIMIT.")


def _print_tree(root: Path, path: Path, request: str, service: bool | None) -> None:
    from screens.logs.trace import lines

    credentials = resolve_target(root, service)
    request = complete_id(root, credentials, request)
    if credentials is not None:
        pages = remote_pages(credentials, load(root).name, {"request": request})
    else:
        pages = local_pages(path, RecordFilter(request_id=request))
    entries: list[Document] = []
    for page in pages:
        _warn_dropped(page.dropped)
        entries += page.entries
    if not entries:
        stderr.note("no matching records")
        return
    width = shutil.get_terminal_size((TREE_WIDTH, 0)).columns
    stdout.styled_lines(toned(lines(entries, width)))


def _cursor(text: str) -> int:
    if text.isascii() and text.isdecimal() and int(text[:20]) <= MAX_CURSOR:
        return int(text)
    hint = "Use the cursor of a record, as --json prints it."
    raise InvalidUsage(f"--after {text[:80]} is not a cursor", hint)


def _warn_dropped(count: int) -> None:
    if count:
        records = "1 record was" if count == 1 else f"{count} records were"
        hint = "Records are retained for 7 days, up to 256 MiB. Follow the logs to see them earlier."
        stderr.warn(f"{records} removed before being shown", hint)


def _severity(text: str | None) -> Severity | None:
    level = None if text is None else severity(text)
    if text is None or level is not None:
        return level
    names = [name.lower() for name in SEVERITIES]
    close = get_close_matches(text.lower(), names, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Use {alternatives(names)}."
    raise InvalidUsage(f'unknown level "{text}"', hint)


def _time_of_age(seconds: float | None) -> int | None:
    """Return the Unix time of an age, in nanoseconds."""
    return None if seconds is None else time.time_ns() - int(seconds * 1e9)


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        hint = "Escape special characters with a backslash: \\["
        raise InvalidUsage(f'"{text}" is not a valid regular expression: {error}', hint) from error


def _check_resource(root: Path, name: str | None, path: Path) -> None:
    """Raise `SvcError` for a resource that is neither in the manifest nor in the records."""
    if name is None:
        return
    resources: set[str] = set()
    if (reader := open_reader(path)) is not None:
        with closing(reader):
            resources = reader.resources()
    try:
        names = resources | set(load(root).resources)
    except SvcError:
        return  # An invalid manifest must not fail this command, so any name is accepted.
    if name in names:
        return
    close = get_close_matches(name, names, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Available: {', '.join(sorted(names))}."
    raise InvalidUsage(f'unknown resource "{name}"', hint)


CALLS = (
    "select resource, name, count(*) as calls from spans"
    " where kind = 'fetch' and time_ns >= {since_ns} group by resource, name"
)
DENIALS = (
    "select resource, grant, count(*) as denials from records"
    " where grant is not null and time_ns >= {since_ns} group by resource, grant"
)


@dataclass(frozen=True, slots=True)
class ResourceNeeds:
    """The needs of one resource: origins with the number of calls, and mounts by pattern.

    `unseen` are entries of its `egress` that no call used. `denied` are the origins to add.
    """

    origins: dict[str, int] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    unseen: list[str] = field(default_factory=list)
    mounts: dict[str, str] = field(default_factory=dict)


def _needs(
    project: Project, calls: Iterable[Mapping[str, Any]], denials: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, ResourceNeeds], list[str]]:
    """Return what the rows of `CALLS` and `DENIALS` need, and commands that allow what svc.toml cannot.

    Resources that no longer exist are left out.
    """
    resources = {name: ResourceNeeds() for name in project.resources}
    commands: dict[str, None] = {}
    for row in calls:
        if (needs := resources.get(row["resource"])) is None:
            continue
        origin = row["name"].partition(" ")[2]
        needs.origins[origin] = needs.origins.get(origin, 0) + row["calls"]
    for row in denials:
        grant = json.loads(row["grant"])
        edit = grant["edit"]
        if not edit:
            commands[grant["line"]] = None
        elif (needs := resources.get(edit["resource"])) is None:
            continue
        elif edit["op"] == "add-origin":
            needs.origins.setdefault(edit["origin"], row["denials"])
        elif edit["target"] in resources and edit["pattern"] not in targets(
            project.resources[edit["resource"]].mounts
        ):
            needs.mounts[edit["pattern"]] = edit["target"]
    for name, needs in resources.items():
        egress = project.resources[name].egress
        allowed = Egress.parse(egress)
        rules = {origin: parse_rule(origin) for origin in needs.origins}
        needs.denied.update(origin for origin, rule in rules.items() if not allowed.allows(rule))
        for entry in egress:
            if not any(map(Egress.parse((entry,)).allows, rules.values())):
                needs.unseen.append(entry)
    return resources, list(commands)


def _policy_lines(project: Project, resources: Mapping[str, ResourceNeeds], commands: list[str]) -> list[str]:
    """Return the tables and keys of svc.toml, and the commands as comments."""
    lines: list[str] = []
    for name, needs in sorted(resources.items()):
        if not (needs.denied or needs.unseen or needs.mounts):
            continue
        lines += ["", f"[resource.{name}]"]
        if needs.denied or needs.unseen:
            origins = ", ".join(f'"{origin}"' for origin in sorted(needs.origins))
            lines.append(f"egress = [{origins}]")
        lines += [f"# no calls: {entry}" for entry in needs.unseen]
        if needs.mounts:
            mounts = {**targets(project.resources[name].mounts), **needs.mounts}
            pairs = (f'"{key}" = "{value}"' for key, value in mounts.items())
            lines.append("# Callers requested these paths; a mount makes its resource reachable.")
            lines.append(f"mounts = {{ {', '.join(pairs)} }}")
    lines += ["", *(f"# {command}" for command in commands)] if commands else []
    return lines[1:]


policy = Commands(help="Suggest permissions of resources from the logs.")


@policy.command()
def suggest(
    since: Annotated[str, option("TIME", f"Maximum age: {AGE_EXAMPLES}.")] = "1d",
    service: ServiceOption = None,
) -> Answer:
    """Print lines for svc.toml. They permit the calls and denials in the logs."""
    root = find(Path.cwd())
    project = load(root)
    since_ns = time.time_ns() - parse_age(since) * 1_000_000_000
    with open_timeline(root, resolve_target(root, service)) as run:
        calls, denials = (run(sql.format(since_ns=since_ns)) for sql in (CALLS, DENIALS))
    resources, commands = _needs(project, calls["rows"], denials["rows"])
    if calls["truncated"] or denials["truncated"]:
        stderr.warn("only a part of the logs was read", "Pass a shorter --since.")
    documents = {name: asdict(each) | {"denied": sorted(each.denied)} for name, each in resources.items()}
    empty = f"{MANIFEST} needs no change for the calls in the logs of the last {since}"
    lines = _policy_lines(project, resources, commands)
    return Answer({"resources": documents, "commands": commands}, lines, empty=empty)
