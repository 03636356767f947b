"""`svc projects`: the projects of a service."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from engine.errors import SvcError
from svc_tui.client.credentials import call_service
from svc_tui.commands.options import AsJson, Yes, argument
from svc_tui.terminal import prompt, stderr, stdout
from svc_tui.terminal.units import plural, size

projects = typer.Typer(help="List and remove projects of a service.")


@projects.command("list")
def list_projects(as_json: AsJson = False) -> None:
    """List the projects in which you have a role."""
    listed = call_service("GET", "/v1/projects")
    if as_json:
        stdout.data(listed)
        return
    if not listed["projects"]:
        stderr.note("there are no projects in which you have a role; create one with `svc deploy`")
    for name in listed["projects"]:
        stdout.line(name)


@projects.command()
def remove(
    name: Annotated[str, argument("NAME", "Name of the project.")], yes: Yes = False, as_json: AsJson = False
) -> None:
    """Remove a project with all that it stores. Requires an owner of the project."""
    path = f"/v1/projects/{quote(name, safe='')}"
    if not yes:
        stderr.note(f"this deletes the project {name} with all that it stores:")
        for line in _contents(path):
            stderr.note(f"  {line}")
        if prompt.line(f"remove it; type {name}", "Pass --yes.") != name:
            raise SvcError("canceled; nothing was removed", "Type the project's name, or pass --yes.")
    removed = call_service("DELETE", path)
    stdout.answer(removed, [f"removed {name}"], as_json=as_json)


def _contents(path: str) -> list[str]:
    """Return what a project stores, one kind a line."""
    history = call_service("GET", f"{path}/deployments")
    lines = [plural(len(history["deployments"]), "deployment")]
    if history["revision"] is not None:
        lines += [_stored(door) for door in call_service("GET", f"{path}/state")["doors"] if door["count"]]
    if secrets := call_service("GET", f"{path}/secrets")["secrets"]:
        lines.append(f"{plural(len(secrets), 'secret')}: {', '.join(secrets)}")
    if domains := call_service("GET", f"{path}/domains")["domains"]:
        lines.append(f"{plural(len(domains), 'domain')}: {', '.join(each['name'] for each in domains)}")
    return [*lines, "its schedules, logs, usage, quota and history"]


def _stored(door: dict[str, Any]) -> str:
    """Return what a Door stores."""
    measured = f", {size(door['bytes'])}" if door["bytes"] else ""
    return f"{plural(door['count'], door['unit'])}{measured}"
