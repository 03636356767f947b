"""`svc user`: users of the service and their roles."""

from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer

from engine.errors import SvcError
from svc_tui.client.credentials import current_client
from svc_tui.client.login import MIN_PASSWORD_CHARS, password_problem, require_password
from svc_tui.commands.options import AsJson, PasswordStdin, RoleName, Yes
from svc_tui.terminal import prompt, stdout
from svc_tui.terminal.units import plural

ALL_PROJECTS = "*"
_STDIN_HINT = "Pass --password-stdin, and pipe the password."
user = typer.Typer(help="Manage users, roles and passwords.")
ProjectName = Annotated[
    str, typer.Option("--project", metavar="NAME", help="Project of the role (default: all).")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]


@user.command("list")
def list_(as_json: AsJson = False) -> None:
    """List users and their roles in your projects."""
    users = _call("GET", "/v1/users")
    if as_json:
        stdout.data(users)
        return
    for account in users["users"]:
        roles = ", ".join(
            f"{role} of {_where(project)}" for project, role in sorted(account["roles"].items())
        )
        stdout.line(f"{account['name']}  {roles or 'no role'}")


@user.command()
def add(
    name: Name,
    role: RoleName | None = None,
    project: ProjectName = ALL_PROJECTS,
    password_stdin: PasswordStdin = False,
) -> None:
    """Create a user with an initial password."""
    roles = {project: role} if role else {}
    if any(account["name"] == name for account in _call("GET", "/v1/users")["users"]):
        raise SvcError(
            f"user {name} already exists",
            "Choose another name; `svc user list` lists the users.",
            code="conflict",
        )
    _call("PUT", f"/v1/users/{quote(name, safe='')}", {"password": _password(password_stdin), "roles": roles})
    stdout.line(f"created {name}")


@user.command()
def rm(name: Name, yes: Yes = False) -> None:
    """Remove a user, and revoke their sessions and tokens."""
    if not yes:
        prompt.confirm(f"remove the user {name}, and revoke their sessions and tokens?")
    _call("DELETE", f"/v1/users/{quote(name, safe='')}")
    stdout.line(f"removed {name}")


@user.command()
def role(
    name: Name,
    role: Annotated[
        Literal["viewer", "deployer", "owner", "none"],
        typer.Argument(metavar="ROLE", help="Role: viewer, deployer, owner or none."),
    ],
    project: ProjectName = ALL_PROJECTS,
) -> None:
    """Set the role of a user; `none` removes it."""
    path = f"/v1/users/{quote(name, safe='')}/roles/{quote(project, safe='*')}"
    if role == "none":
        _call("DELETE", path)
    else:
        _call("PUT", path, {"role": role})
    stdout.line(f"{name} now has {'no role' if role == 'none' else f'the role {role}'} in {_where(project)}")


@user.command()
def password(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Another user; requires the owner role.")] = "",
    password_stdin: PasswordStdin = False,
) -> None:
    """Change your password, or set the password of another user.

    With --password-stdin, the first line is the old password and the second line the new one.
    """
    if name:
        names = [account["name"] for account in _call("GET", "/v1/users")["users"]]
        if name not in names:
            raise SvcError(f"unknown user {name}", "Run `svc user list` to list the users.")
        _call("PUT", f"/v1/users/{quote(name, safe='')}", {"password": _password(password_stdin)})
        stdout.line(f"changed the password of {name} and revoked their sessions")
        return
    old = prompt.from_stdin() if password_stdin else prompt.secret("old password", _STDIN_HINT)
    body = {"old": old, "new": _password(password_stdin)}
    revoked = _call("POST", "/v1/password", body)["revoked"]
    stdout.line(f"changed your password and revoked {plural(revoked, 'other session')}")


def _password(stdin: bool) -> str:
    if stdin:
        password = prompt.from_stdin()
        require_password(password)
        return password
    question = f"new password, at least {MIN_PASSWORD_CHARS} characters"
    return prompt.new_secret(question, _STDIN_HINT, password_problem)


def _call(method: str, path: str, body: Any = None) -> Any:
    with current_client() as client:
        return client.call(method, path, body)


def _where(project: str) -> str:
    return "all projects" if project == ALL_PROJECTS else project
