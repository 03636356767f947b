"""Commands for owners: `svc quota`, `svc gc`, `svc notify` and `svc projects`."""

from typing import Annotated, Any
from urllib.parse import quote

from engine.errors import InvalidUsage, SvcError
from engine.manifest.load import load
from svc_tui.client.credentials import call_service, current_project
from svc_tui.commands.options import Commands, Yes, argument, flag, option
from svc_tui.terminal import prompt, stderr, stdout
from svc_tui.terminal.stdout import Answer
from svc_tui.terminal.units import plural, size

quota = Commands(help="Show and set the quotas of projects.")
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
) -> Answer:
    """Show the quota of a project."""
    if not project:
        if (root := current_project()) is None:
            raise InvalidUsage("no project is named", "Pass one: svc quota show PROJECT")
        project = load(root).name
    return _shown(_call("GET", project))


@quota.command("set")
def set_(
    project: Project,
    instances: Annotated[int | None, _limit("--instances", "N", "Requests that run at once")] = None,
    memory: Annotated[int | None, _limit("--memory", "MIB", "Memory of these requests in MiB")] = None,
    requests: Annotated[int | None, _limit("--requests", "N", "Requests per second")] = None,
    storage: Annotated[int | None, _limit("--storage", "MIB", "Size of the tables in MiB")] = None,
    egress: Annotated[int | None, _limit("--egress", "N", "Calls to other servers per second")] = None,
    files: Annotated[int | None, _limit("--files", "MIB", "Size of all files in MiB")] = None,
) -> Answer:
    """Set limits of a project; the others stay as they are. Requires an owner of the service."""
    options = zip(UNITS, (instances, memory, requests, storage, egress, files), strict=True)
    limits = {name: limit or None for name, limit in options if limit is not None}
    if not limits:
        hint = f"Pass one, for example: svc quota set {project} --instances 50"
        raise InvalidUsage("no limit to set", hint)
    return _shown(_call("PUT", project, limits))


@quota.command()
def rm(project: Project) -> None:
    """Remove all limits of a project. Requires an owner of the service."""
    _call("DELETE", project)
    stdout.line(f"{project} has no quota")


def _call(method: str, project: str, body: Any = None) -> Any:
    return call_service(method, f"/v1/projects/{quote(project, safe='')}/quota", body)


def _shown(limits: dict[str, int | None]) -> Answer:
    texts = ("no limit" if limits[name] is None else f"{limits[name]:,} {UNITS[name]}" for name in UNITS)
    lines = (f"{name.removesuffix('_mb'):<10} {text}" for name, text in zip(UNITS, texts, strict=True))
    return Answer(limits, lines)


def gc(
    plan: Annotated[bool, flag("Show what would be removed, without removing it.", "--plan")] = False,
) -> Answer:
    """Remove data that no deployment needs from the service."""
    report = call_service("POST", "/v1/gc", {"plan": plan})
    action = "would be removed" if plan else "removed"
    lines = (
        f"blobs              {report['blobs']} {action}, {size(report['bytes'])}",
        f"unpacked packages  {report['unpacked']} {action}",
        f"machine code       {report['machine_code']} {action}",
        f"abandoned uploads  {report['uploads']} {action}",
    )
    removed = any(report[key] for key in ("blobs", "uploads", "unpacked", "machine_code"))
    empty = "nothing to remove; data younger than a day is always retained"
    return Answer(report, lines if removed else (), empty=empty)


notify = Commands(help="Test the delivery of alerts.", rich_markup_mode=None, no_args_is_help=True)


@notify.command()
def test() -> Answer:
    """Send a test alert to each receiver of the service."""
    attempts = call_service("POST", "/v1/alerts/test", {})["attempts"]
    lines = (f"{attempt['target']}  {attempt['error'] or 'accepted'}" for attempt in attempts)
    failed = [attempt["target"] for attempt in attempts if attempt["error"]]
    hint = "Check the URL that svc serve got by --notify."
    error = SvcError(f"{', '.join(failed)} did not accept the test", hint) if failed else None
    return Answer(attempts, lines, error=error)


projects = Commands(help="List and remove projects of a service.")


@projects.command("list")
def list_projects() -> Answer:
    """List the projects in which you have a role."""
    listed = call_service("GET", "/v1/projects")
    empty = "there are no projects in which you have a role; create one with `svc deploy`"
    return Answer(listed, listed["projects"], empty=empty)


@projects.command("remove")
def remove_project(
    name: Annotated[str, argument("NAME", "Name of the project.")], yes: Yes = False
) -> Answer:
    """Remove a project with all that it stores. Requires an owner of the project."""
    path = f"/v1/projects/{quote(name, safe='')}"
    if not yes:
        stderr.note(f"this deletes the project {name} with all that it stores:")
        for line in _contents(path):
            stderr.note(f"  {line}")
        if prompt.line(f"remove it; type {name}", "Pass --yes.") != name:
            raise SvcError("canceled; nothing was removed", "Type the project's name, or pass --yes.")
    return Answer(call_service("DELETE", path), [f"removed {name}"])


def _contents(path: str) -> list[str]:
    """Return what a project stores, one kind a line."""
    history = call_service("GET", f"{path}/deployments")
    lines = [plural(len(history["deployments"]), "deployment")]
    if history["revision"] is not None:
        for door in call_service("GET", f"{path}/state")["doors"]:
            measured = f", {size(door['bytes'])}" if door["bytes"] else ""
            lines += [f"{plural(door['count'], door['unit'])}{measured}"] if door["count"] else []
    if secrets := call_service("GET", f"{path}/secrets")["secrets"]:
        lines.append(f"{plural(len(secrets), 'secret')}: {', '.join(secrets)}")
    if domains := call_service("GET", f"{path}/domains")["domains"]:
        lines.append(f"{plural(len(domains), 'domain')}: {', '.join(each['name'] for each in domains)}")
    return [*lines, "its schedules, logs, usage, quota and history"]
