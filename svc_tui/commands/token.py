"""`svc token`: API tokens for programs such as CI."""

import os
from typing import Annotated, Any
from urllib.parse import quote

import typer

from svc_tui.client.credentials import CredentialStore, current_client, current_project, open_client
from svc_tui.commands.options import AsJson, RoleName, Yes
from svc_tui.terminal import prompt, stderr, stdout

token = typer.Typer(help="Manage API tokens for programs such as CI.")


@token.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token, for example ci.")],
    role: RoleName = "deployer",
    project: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Project to grant access to; repeatable (default: all)."),
    ] = None,
    days: Annotated[
        int, typer.Option(metavar="DAYS", min=1, max=365, help="Days until the token expires.")
    ] = 90,
    as_json: AsJson = False,
) -> None:
    """Create a token and print it once."""
    credentials = CredentialStore.from_environment(os.environ).get(current_project())
    body = {"name": name, "role": role, "projects": project or ["*"], "days": days}
    with open_client(credentials) as client:
        created = client.call("POST", "/v1/tokens", body)
    if as_json:
        stdout.data(created)
        return
    stderr.note(f"expires {created['expires']}; set SVC_URL={credentials.url} and SVC_TOKEN to:")
    stdout.line(created["token"])


@token.command("list")
def list_(as_json: AsJson = False) -> None:
    """List your tokens, without their values."""
    with current_client() as client:
        tokens = client.call("GET", "/v1/tokens")
    if as_json:
        stdout.data(tokens)
        return
    if not tokens["tokens"]:
        stderr.note("you have no tokens")
        return
    rows = [[(text, "") for text in _row(token)] for token in tokens["tokens"]]
    heads = ("name", "role", "projects", "used", "expires")
    stdout.table(heads, rows)


def _row(token: dict[str, Any]) -> list[str]:
    projects = ", ".join("all" if name == "*" else name for name in token["projects"])
    return [token["name"], token["role"], projects, token["used"] or "never", token["expires"]]


@token.command()
def rm(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")], yes: Yes = False
) -> None:
    """Revoke a token at once."""
    if not yes:
        prompt.confirm(f"revoke the token {name}?")
    with current_client() as client:
        client.call("DELETE", f"/v1/tokens/{quote(name, safe='')}")
    stdout.line(f"revoked {name}")
