"""Commands for the owner of a service: `svc quota`, `svc gc` and `svc notify`."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from engine.errors import InvalidUsage, SvcError
from engine.manifest.load import load
from svc_tui.client.credentials import call_service, current_project
from svc_tui.commands.options import AsJson, argument, flag, option
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.units import size

quota = typer.Typer(help="Show and set the quotas of projects.")
UNITS = {
    "instances": "requests at once",
    "memory_mb": "MiB of memory for them",
    "requests": "requests a second",
    "storage_mb": "MiB of tables",
    "egress": "calls to other servers a second",
    "files_mb": "MiB of files",
}
"""Units of the limits, by their names in the API, in the order of the options."""
MAX_LIMIT = 1_000_000_000
Project = Annotated[str, argument("PROJECT", "Name of the project.")]


def _limit(flag: str, metavar: str, summary: str) -> Any:
    return option(metavar, f"{summary}; 0 removes the limit.", flag, min=0, max=MAX_LIMIT)


@quota.command()
def show(
    project: Annotated[str, argument("[PROJECT]", "Name of a project (default: that of this folder).")] = "",
    as_json: AsJson = False,
) -> None:
    """Show the quota of a project."""
    _show(_call("GET", project or _current()), as_json=as_json)


@quota.command("set")
def set_(
    project: Project,
    instances: Annotated[int | None, _limit("--instances", "N", "Requests that run at once")] = None,
    memory: Annotated[int | None, _limit("--memory", "MIB", "Memory of these requests in MiB")] = None,
    requests: Annotated[int | None, _limit("--requests", "N", "Requests per second")] = None,
    storage: Annotated[int | None, _limit("--storage", "MIB", "Size of the tables in MiB")] = None,
    egress: Annotated[int | None, _limit("--egress", "N", "Calls to other servers per second")] = None,
    files: Annotated[int | None, _limit("--files", "MIB", "Size of all files in MiB")] = None,
    as_json: AsJson = False,
) -> None:
    """Set limits of a project; the others stay as they are. Requires an owner of the service."""
    options = zip(UNITS, (instances, memory, requests, storage, egress, files), strict=True)
    limits = {name: limit or None for name, limit in options if limit is not None}
    if not limits:
        raise InvalidUsage(
            "no limit to set", f"Pass one, for example: svc quota set {project} --instances 50"
        )
    _show(_call("PUT", project, limits), as_json=as_json)


@quota.command()
def rm(project: Project) -> None:
    """Remove all limits of a project. Requires an owner of the service."""
    _call("DELETE", project)
    stdout.line(f"{project} has no quota")


def _current() -> str:
    root = current_project()
    if root is None:
        raise InvalidUsage("no project is named", "Pass one: svc quota show PROJECT")
    return load(root).name


def _call(method: str, project: str, body: Any = None) -> Any:
    return call_service(method, f"/v1/projects/{quote(project, safe='')}/quota", body)


def _show(limits: dict[str, int | None], *, as_json: bool) -> None:
    texts = {
        name: "no limit" if limits[name] is None else f"{limits[name]:,} {UNITS[name]}" for name in UNITS
    }
    lines = (f"{name.removesuffix('_mb'):<10} {text}" for name, text in texts.items())
    stdout.answer(limits, lines, as_json=as_json)


def gc(
    plan: Annotated[bool, flag("Show what would be removed, without removing it.", "--plan")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove data that no deployment needs from the service."""
    report = call_service("POST", "/v1/gc", {"plan": plan})
    if as_json:
        stdout.data(report)
    elif any(report[key] for key in ("blobs", "uploads", "unpacked", "machine_code")):
        action = "would be removed" if plan else "removed"
        stdout.line(f"blobs              {report['blobs']} {action}, {size(report['bytes'])}")
        stdout.line(f"unpacked packages  {report['unpacked']} {action}")
        stdout.line(f"machine code       {report['machine_code']} {action}")
        stdout.line(f"abandoned uploads  {report['uploads']} {action}")
    else:
        stderr.note("nothing to remove; data younger than a day is always retained")


notify = typer.Typer(help="Test the delivery of alerts.", rich_markup_mode=None, no_args_is_help=True)


@notify.callback()
def _notify() -> None:
    """Test the delivery of alerts."""


@notify.command()
def test(as_json: AsJson = False) -> None:
    """Send a test alert to each receiver of the service."""
    attempts = call_service("POST", "/v1/alerts/test", {})["attempts"]
    lines = (f"{attempt['target']}  {attempt['error'] or 'accepted'}" for attempt in attempts)
    stdout.answer(attempts, lines, as_json=as_json)
    if failed := [attempt["target"] for attempt in attempts if attempt["error"]]:
        raise SvcError(
            f"{', '.join(failed)} did not accept the test", "Check the URL that svc serve got by --notify."
        )
