"""`svc token`: tokens for programs, such as CI."""

import os
from typing import Annotated
from urllib.parse import quote

import typer

from svc_tui.client.credentials import CredentialStore, current_project, open_client
from svc_tui.terminal import stderr, stdout

token = typer.Typer(help="Make, list and remove tokens for programs, such as CI.")


@token.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for, as in ci.")],
    role: Annotated[str, typer.Option("--role", help="viewer, deployer or owner.")] = "deployer",
    project: Annotated[
        list[str] | None, typer.Option("--project", metavar="NAME", help="Where it counts; may be repeated.")
    ] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=365, help="How long it lasts.")] = 90,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Make a token and print it, this once. Without --project it counts in every one of yours."""
    found = CredentialStore.from_environment(os.environ).get(current_project())
    body = {"name": name, "role": role, "projects": project or ["*"], "days": days}
    with open_client(found) as client:
        made = client.call("POST", "/v1/tokens", body)
    if as_json:
        stdout.data(made)
        return
    stderr.note(f"lasts until {made['expires']}; set SVC_URL={found.url} and SVC_TOKEN to this:")
    stdout.line(made["token"])


@token.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List your tokens, never what shows them."""
    with open_client(CredentialStore.from_environment(os.environ).get(current_project())) as client:
        held = client.call("GET", "/v1/tokens")
    if as_json:
        stdout.data(held)
        return
    for one in held["tokens"]:
        where = ", ".join("every Project" if name == "*" else name for name in one["projects"])
        stdout.line(f"{one['name']}  {one['role']} of {where}  used {one['used']}  until {one['expires']}")
    if not held["tokens"]:
        stderr.note("you have no tokens")


@token.command()
def rm(name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]) -> None:
    """Remove a token; whoever shows it is refused at once."""
    with open_client(CredentialStore.from_environment(os.environ).get(current_project())) as client:
        client.call("DELETE", f"/v1/tokens/{quote(name, safe='')}")
    stdout.line(f"removed {name}")
