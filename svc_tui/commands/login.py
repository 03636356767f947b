"""`svc login`, `svc logout`, `svc whoami`: the session with a service."""

import getpass
import os
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import SvcError
from svc_tui.client import Client, local_service
from svc_tui.client.credentials import Credentials, CredentialStore, current_project, open_client
from svc_tui.client.login import TIMEOUT_SECONDS, login_client
from svc_tui.client.urls import check_encryption, service_url
from svc_tui.terminal import prompt, stderr, stdout
from svc_tui.user_home import Home


def login(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="Address of the service's control API.", show_default=False)
    ] = "",
    user: Annotated[str, typer.Option("--user", "-u", metavar="NAME", help="Your name there.")] = "",
    claim: Annotated[
        str, typer.Option("--claim", metavar="CODE", help="Make its first owner, by the code it printed.")
    ] = "",
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Take the password from stdin, its first line.")
    ] = False,
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow http:// to another machine.")] = False,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Without URL: the data folder; ~/.svc/data.")
    ] = None,
) -> None:
    """Log in to a service, or make its first owner. Without URL: to the data folder on this machine."""
    logins = CredentialStore.from_environment(os.environ)
    if os.environ.get("SVC_TOKEN"):
        stderr.warn("SVC_TOKEN is set and goes before any session", "Unset it to use this one.")
    if data is None:
        url = url or os.environ.get("SVC_URL", "")
    if not url:
        found = _folder(data)
    elif data is not None:
        raise SvcError("URL and --data exclude each other", "Give one of them.", code="usage")
    else:
        found = _service(service_url(url), user, claim, password_stdin, insecure)
    in_keyring = logins.save(found)
    stdout.line(f"logged in to {found.key} as {found.user}")
    if not in_keyring and found.folder is None:
        stderr.note(f"the session is kept in {Home.from_environment(os.environ).root / 'sessions.json'}")
    if (project := current_project()) is not None:
        logins.link_project(project, found.key)
        stderr.note(f"the Project in {project} belongs to {found.key} from now on")


def _service(url: str, user: str, claim: str, password_stdin: bool, insecure: bool) -> Credentials:
    """Begin a session with a service."""
    if check_encryption(url, insecure=insecure):
        stderr.warn(f"the password travels to {url} in the clear", "Whoever is in between can read it.")
    with login_client(url, insecure=insecure) as way:
        claimed = way.is_claimed()
        if claim and claimed:
            raise SvcError(
                f"{url} has an owner already", f"Leave --claim out: `svc login {url}`.", code="conflict"
            )
        if not claimed:
            stderr.note(f"{url} has no owner yet; `svc serve` printed a claim code when it started")
        code = None if claimed else claim or prompt.line("claim code")
        name = user or (_own_name() if password_stdin else prompt.line("user name", _own_name()))
        if password_stdin:
            password = prompt.from_stdin()
        else:
            password = (
                prompt.secret("password")
                if claimed
                else prompt.new_secret("password, at least 10 characters")
            )
        return way.login(name, password, code)


def _folder(data: Path | None) -> Credentials:
    """Have the data folder on this machine as the service; who may write it is its owner."""
    folder = (data or Home.from_environment(os.environ).root / "data").expanduser().absolute()
    local_service.ensure_usable(folder)
    return Credentials(str(folder), user="developer", folder=folder)


def logout(
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="End all your sessions, on other machines too.")
    ] = False,
) -> None:
    """End the session with the service, and forget it here."""
    logins = CredentialStore.from_environment(os.environ)
    if os.environ.get("SVC_TOKEN"):
        raise SvcError("SVC_TOKEN is set, and no session to end", "Unset it first.", code="usage")
    found = logins.get(current_project())
    if found.folder is None:
        try:
            with Client(found.url, found.token, TIMEOUT_SECONDS) as client:
                client.call("POST", "/v1/logout", params={"everywhere": "true" if everywhere else None})
        except SvcError as error:
            if error.code != "unauthenticated":
                if everywhere:
                    raise
                stderr.warn(
                    f"{found.key} could not be told: {error.message}",
                    "There the session lasts until it expires.",
                )
    logins.delete(found.key)
    stdout.line(f"logged out of {found.key}")


def whoami(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show who you are for the service, and what you may do there."""
    found = CredentialStore.from_environment(os.environ).get(current_project())
    with open_client(found) as client:
        who = client.call("GET", "/v1/whoami")
    if as_json:
        stdout.data({"service": found.key, **who})
        return
    name = f"{who['user']} (token {who['token']})" if who["token"] else who["user"]
    stdout.line(f"{name} at {found.key}")
    for project, role in sorted(who["roles"].items()):
        stdout.line(f"  {role} of {'every Project' if project == '*' else project}")


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
