"""`svc policy`: permissions that resources need."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from engine.manifest import MANIFEST
from engine.manifest.load import find, load
from svc_tui.commands.options import AsJson
from svc_tui.logs.options import AGE_EXAMPLES, ServiceOption, parse_age, resolve_target
from svc_tui.logs.sql import open_timeline
from svc_tui.project.policy import CALLS, DENIALS, suggest
from svc_tui.terminal import stderr, stdout

policy = typer.Typer(help="Suggest permissions of resources from the logs.")


@policy.callback()
def _group() -> None:
    """Suggest permissions of resources from the logs."""


@policy.command("suggest")
def suggest_(
    since: Annotated[str, typer.Option(metavar="TIME", help=f"Maximum age: {AGE_EXAMPLES}.")] = "1d",
    service: ServiceOption = None,
    as_json: AsJson = False,
) -> None:
    """Print lines for svc.toml. They permit the calls and denials in the logs."""
    root = find(Path.cwd())
    project = load(root)
    since_ns = time.time_ns() - parse_age(since) * 1_000_000_000
    with open_timeline(root, resolve_target(root, service)) as timeline:
        calls, denials = (timeline.run(sql.format(since_ns=since_ns)) for sql in (CALLS, DENIALS))
    suggestion = suggest(project, calls["rows"], denials["rows"])
    if calls["truncated"] or denials["truncated"]:
        stderr.warn("only a part of the logs was read", "Pass a shorter --since.")
    if as_json:
        resources = {
            name: asdict(needs) | {"denied": sorted(needs.denied)}
            for name, needs in suggestion.resources.items()
        }
        stdout.data({"resources": resources, "commands": suggestion.commands})
        return
    lines = suggestion.lines(project)
    for line in lines:
        stdout.line(line)
    if not lines:
        stderr.note(f"{MANIFEST} needs no change for the calls in the logs of the last {since}")
