"""`svc policy`: the fewest lines of `svc.toml` that permit the calls and denials of a timeline."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from engine.manifest import MANIFEST
from engine.manifest.egress import Egress, parse_rule
from engine.manifest.load import find, load
from engine.manifest.model import Project, targets
from svc_tui.commands.options import Commands, option
from svc_tui.logs import AGE_EXAMPLES, ServiceOption, open_timeline, parse_age, resolve_target
from svc_tui.terminal import stderr
from svc_tui.terminal.stdout import Answer

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


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The needs of resources by name, and commands that allow what svc.toml cannot."""

    resources: dict[str, ResourceNeeds]
    commands: list[str]

    def lines(self, project: Project) -> list[str]:
        """Return the tables and keys of svc.toml, and the commands as comments."""
        lines: list[str] = []
        for name, needs in sorted(self.resources.items()):
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
        lines += ["", *(f"# {command}" for command in self.commands)] if self.commands else []
        return lines[1:]


def suggest(
    project: Project, calls: Iterable[Mapping[str, Any]], denials: Iterable[Mapping[str, Any]]
) -> Suggestion:
    """Return what the rows of `CALLS` and `DENIALS` need. Resources that no longer exist are left out."""
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
    return Suggestion(resources, list(commands))


policy = Commands(help="Suggest permissions of resources from the logs.")


@policy.command("suggest")
def suggest_(
    since: Annotated[str, option("TIME", f"Maximum age: {AGE_EXAMPLES}.")] = "1d",
    service: ServiceOption = None,
) -> Answer:
    """Print lines for svc.toml. They permit the calls and denials in the logs."""
    root = find(Path.cwd())
    project = load(root)
    since_ns = time.time_ns() - parse_age(since) * 1_000_000_000
    with open_timeline(root, resolve_target(root, service)) as run:
        calls, denials = (run(sql.format(since_ns=since_ns)) for sql in (CALLS, DENIALS))
    suggestion = suggest(project, calls["rows"], denials["rows"])
    if calls["truncated"] or denials["truncated"]:
        stderr.warn("only a part of the logs was read", "Pass a shorter --since.")
    resources = {
        name: asdict(needs) | {"denied": sorted(needs.denied)} for name, needs in suggestion.resources.items()
    }
    document = {"resources": resources, "commands": suggestion.commands}
    empty = f"{MANIFEST} needs no change for the calls in the logs of the last {since}"
    return Answer(document, suggestion.lines(project), empty=empty)
