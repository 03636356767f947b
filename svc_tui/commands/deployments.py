"""`svc deployments` and `svc rollback`: what was live, and the way back."""

import os
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.text import Text

from engine.errors import SvcError
from engine.manifest.load import find, load
from svc_tui.client import Client
from svc_tui.client.credentials import CredentialStore, open_client
from svc_tui.deploy.format import address_lines, change_lines, latest_rollback, local_time
from svc_tui.terminal import prompt, stderr, stdout

SHOWN = 20


def deployments(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the deployments of the Project in this folder, the newest first."""
    root = find(Path.cwd())
    project = load(root).name
    with open_client(CredentialStore.from_environment(os.environ).get(root)) as client:
        found = client.call("GET", f"/v1/projects/{project}/deployments")
    if as_json:
        stdout.data(found)
        return
    if not found["deployments"]:
        stderr.note(f"nothing of {project} was deployed yet: `svc deploy`")
    for each in found["deployments"][:SHOWN]:
        stdout.line(_line(each))
        if each["live"] and (back := latest_rollback(found["flips"], each["id"])) is not None:
            stdout.line(_rollback_line(back))


def _line(deployment: dict[str, Any]) -> Text:
    live = deployment["live"]
    return Text.assemble(
        ("● " if live else "  ", "green"),
        (deployment["id"], "bold" if live else ""),
        (f"  {local_time(deployment['created'])}", "dim"),
        (f"  {deployment['by']}", "cyan"),
        (f"  {_one_line(deployment['commit'])}" if deployment["commit"] else "", "dim"),
        f"  {_one_line(deployment['message'])}" if deployment["message"] else "",
    )


def _rollback_line(flip: dict[str, Any]) -> Text:
    reason = f": {_one_line(flip['message'])}" if flip["message"] else ""
    return Text(f"    live again since {local_time(flip['at'])} by {flip['by']}{reason}")


def _one_line(text: str) -> str:
    """Return what somebody wrote so that none of it looks like a line of ours."""
    return " ".join(text.split())


def rollback(
    deployment: Annotated[
        str, typer.Argument(metavar="ID", help="A deployment; without one: what was live before.")
    ] = "",
    message: Annotated[str, typer.Option("--message", "-m", metavar="REASON", help="Why.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Have an older deployment go live again. The data in tables stays as it is."""
    root = find(Path.cwd())
    project = load(root).name
    with open_client(CredentialStore.from_environment(os.environ).get(root)) as client:
        wanted = deployment or _before(client, project)
        planned = client.call("GET", f"/v1/projects/{project}/deployments/{quote(wanted, safe='')}/rollback")
        for line in change_lines(planned["changes"]):
            stderr.line(line)
        if wanted == planned["live"]:
            raise SvcError(f"{wanted} is live already", "`svc deployments` lists the others.")
        if not planned["changes"]:
            stderr.note(f"{wanted} is the same as what is live")
        stderr.note("the rows in tables, and their schema, are not rolled back")
        if not yes and not prompt.confirm(f"have {wanted} go live in place of {planned['live']}?"):
            raise typer.Abort
        wish = {"deployment": wanted, "revision": planned["revision"], "message": message}
        done = client.call("POST", f"/v1/projects/{project}/rollback", wish)
    if as_json:
        stdout.data(done)
        return
    stderr.note(f"live: {done['deployment']['id']}")
    for line in address_lines(done["addresses"]):
        stdout.line(line)


def _before(client: Client, project: str) -> str:
    """Return the deployment that was live before the one that is."""
    flips = client.call("GET", f"/v1/projects/{project}/deployments")["flips"]
    now = flips[0]["deployment"] if flips else ""
    for flip in flips:
        if flip["deployment"] != now:
            return str(flip["deployment"])
    raise SvcError(
        f"nothing of {project} was live before what is now", "`svc deployments` lists what there is."
    )
