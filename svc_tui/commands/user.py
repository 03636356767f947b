"""`svc user`: who may do what on the service."""

import os
from typing import Annotated, Any
from urllib.parse import quote

import typer

from engine.errors import SvcError
from svc_tui.client.credentials import CredentialStore, current_project, open_client
from svc_tui.terminal import prompt, stdout

EVERY = "*"
user = typer.Typer(help="Make, list and remove users, give roles, and change passwords.")
Stdin = Annotated[
    bool, typer.Option("--password-stdin", help="Take the password from stdin, its first line.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]


@user.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List users and their roles, as far as you own the Projects."""
    found = _call("GET", "/v1/users")
    if as_json:
        stdout.data(found)
        return
    for one in found["users"]:
        roles = ", ".join(f"{role} of {_where(project)}" for project, role in sorted(one["roles"].items()))
        stdout.line(f"{one['name']}  {roles or 'no role'}")


@user.command()
def add(
    name: Name,
    role: Annotated[str, typer.Option("--role", help="viewer, deployer or owner.")] = "",
    project: Annotated[
        str, typer.Option("--project", metavar="NAME", help="Where the role counts; in every one without it.")
    ] = EVERY,
    password_stdin: Stdin = False,
) -> None:
    """Make a user with a first password, which you tell them and they change."""
    roles = {project: role} if role else {}
    if any(one["name"] == name for one in _call("GET", "/v1/users")["users"]):
        raise SvcError(f"there is a user {name} already", "Take another name.", code="conflict")
    _call("PUT", f"/v1/users/{quote(name, safe='')}", {"password": _password(password_stdin), "roles": roles})
    stdout.line(f"made {name}")


@user.command()
def rm(name: Name) -> None:
    """Remove a user; their sessions and tokens end at once."""
    _call("DELETE", f"/v1/users/{quote(name, safe='')}")
    stdout.line(f"removed {name}")


@user.command()
def role(
    name: Name,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="viewer, deployer, owner or none.")],
    project: Annotated[
        str, typer.Option("--project", metavar="NAME", help="Where it counts; in every one without it.")
    ] = EVERY,
) -> None:
    """Give a user a role, or (none) take it."""
    path = f"/v1/users/{quote(name, safe='')}/roles/{quote(project, safe='*')}"
    if role == "none":
        _call("DELETE", path)
    else:
        _call("PUT", path, {"role": role})
    stdout.line(f"{name} is {role if role != 'none' else 'nothing'} in {_where(project)} now")


@user.command()
def password(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Somebody else's; owners may.")] = "",
    password_stdin: Stdin = False,
) -> None:
    """Change your password (stdin: the old one and the new one, a line each), or set somebody's."""
    if name:
        known = [one["name"] for one in _call("GET", "/v1/users")["users"]]
        if name not in known:
            raise SvcError(f"there is no user {name}", "`svc user list` lists them.")
        _call("PUT", f"/v1/users/{quote(name, safe='')}", {"password": _password(password_stdin)})
        stdout.line(f"{name} has another password; their sessions are over")
        return
    old = prompt.from_stdin() if password_stdin else prompt.secret("old password")
    body = {"old": old, "new": _password(password_stdin)}
    ended = _call("POST", "/v1/password", body)["ended"]
    stdout.line(f"you have another password; {ended} other sessions are over")


def _password(stdin: bool) -> str:
    return prompt.from_stdin() if stdin else prompt.new_secret("new password, at least 10 characters")


def _call(method: str, path: str, body: Any = None) -> Any:
    with open_client(CredentialStore.from_environment(os.environ).get(current_project())) as client:
        return client.call(method, path, body)


def _where(project: str) -> str:
    return "every Project" if project == EVERY else project
