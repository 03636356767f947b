"""`svc login`, `svc logout` and `svc whoami`."""

import getpass
import os
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import InvalidUsage, SvcError
from svc_tui.client import ApiError, Client
from svc_tui.client.credentials import Credentials, CredentialStore, current_project, open_client
from svc_tui.client.discovery import ensure_usable
from svc_tui.client.login import (
    MIN_PASSWORD_CHARS,
    TIMEOUT_SECONDS,
    LoginClient,
    login_client,
    password_problem,
)
from svc_tui.client.urls import check_encryption, service_url
from svc_tui.commands.options import AsJson, PasswordStdin
from svc_tui.terminal import prompt, stderr, stdout
from svc_tui.user_home import Home

_HINT = "Pass --user and --password-stdin, or set SVC_URL and SVC_TOKEN."


def login(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL", help="URL of the service's control API (default: SVC_URL).", show_default=False
        ),
    ] = "",
    user: Annotated[
        str, typer.Option("--user", "-u", metavar="NAME", help="Your user name on the service.")
    ] = "",
    claim: Annotated[
        str,
        typer.Option(
            metavar="CODE", help="Become the first owner with the claim code that svc serve printed."
        ),
    ] = "",
    password_stdin: PasswordStdin = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow http:// to another machine (unencrypted).")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Data directory on this machine to use without a login (default: data in SVC_HOME).",
        ),
    ] = None,
) -> None:
    """Log in to a service, or claim a new one.

    Without URL and --data, SVC_URL is used. If that is unset, svc uses the data directory on this machine.
    """
    store = CredentialStore.from_environment(os.environ)
    if os.environ.get("SVC_TOKEN"):
        stderr.warn("SVC_TOKEN is set and overrides saved sessions", "Unset it to use this session.")
    if data is None:
        url = url or os.environ.get("SVC_URL", "")
    if not url:
        credentials = _folder(data)
    elif data is not None:
        raise InvalidUsage("URL and --data are mutually exclusive", "Pass only one of them.")
    else:
        credentials = _service(service_url(url), user, claim, password_stdin, insecure)
    in_keyring = store.save(credentials)
    stdout.line(f"logged in to {credentials.key} as {credentials.user}")
    if not in_keyring and credentials.folder is None:
        stderr.note(f"the session is stored in {Home.from_environment(os.environ).root / 'sessions.json'}")
    if (project := current_project()) is not None:
        store.link_project(project, credentials.key)
        stderr.note(f"linked the project in {project} to {credentials.key}")


def _service(url: str, user: str, claim: str, password_stdin: bool, insecure: bool) -> Credentials:
    """Return the credentials of a new session."""
    if check_encryption(url, insecure=insecure):
        stderr.warn(
            f"the password is sent to {url} unencrypted", "Use https:// on networks that you do not trust."
        )
    with login_client(url, insecure=insecure) as client:
        is_claimed = client.is_claimed()
        if claim and is_claimed:
            raise SvcError(
                f"{url} already has an owner", f"Log in without --claim: `svc login {url}`.", code="conflict"
            )
        if not is_claimed and not claim:
            stderr.note(f"{url} has no owner yet: enter the claim code that `svc serve` printed at its start")
        code = None if is_claimed else _claim_code(client, claim)
        name = user or (_own_name() if password_stdin else prompt.line("user name", _HINT, _own_name()))
        if password_stdin:
            password = prompt.from_stdin()
        elif is_claimed:
            password = prompt.secret("password", _HINT)
        else:
            password = prompt.new_secret(
                f"password, at least {MIN_PASSWORD_CHARS} characters", _HINT, password_problem
            )
        return client.login(name, password, code)


def _claim_code(client: LoginClient, claim: str) -> str:
    """Return the claim code that was passed, or ask for one until it is right. Raises `SvcError`."""
    while True:
        code = claim or prompt.line("claim code", f"Pass --claim CODE. {_HINT}")
        try:
            client.check_claim(code)
            return code
        except ApiError as error:
            if claim or error.code != "unauthenticated":
                raise
            stderr.warn(error.message, error.hint)


def _folder(data: Path | None) -> Credentials:
    """Return the credentials of a data directory on this machine; write permission makes an owner."""
    folder = (data or Home.from_environment(os.environ).root / "data").expanduser().absolute()
    ensure_usable(folder)
    return Credentials(str(folder), user="developer", folder=folder)


def logout(
    everywhere: Annotated[bool, typer.Option("--everywhere", help="Log out on all machines.")] = False,
) -> None:
    """End the session with the service and delete the stored credentials."""
    store = CredentialStore.from_environment(os.environ)
    if os.environ.get("SVC_TOKEN"):
        raise InvalidUsage("SVC_TOKEN is set and is not a session", "Unset SVC_TOKEN, then log out.")
    credentials = store.get(current_project())
    if credentials.folder is None:
        try:
            with Client(credentials.url, credentials.token, TIMEOUT_SECONDS) as client:
                client.call("POST", "/v1/logout", params={"everywhere": "true" if everywhere else None})
        except SvcError as error:
            if error.code != "unauthenticated":
                if everywhere:
                    raise
                stderr.warn(
                    f"cannot end the session on {credentials.key}: {error.message}",
                    "The session stays valid there until it expires.",
                )
    store.delete(credentials.key)
    stdout.line(f"logged out of {credentials.key}")


def whoami(as_json: AsJson = False) -> None:
    """Show your user name and roles on the service."""
    credentials = CredentialStore.from_environment(os.environ).get(current_project())
    with open_client(credentials) as client:
        account = client.call("GET", "/v1/whoami")
    if as_json:
        stdout.data({"service": credentials.key, **account})
        return
    name = f"{account['user']} (token {account['token']})" if account["token"] else account["user"]
    stdout.line(f"{name} at {credentials.key}")
    for project, role in sorted(account["roles"].items()):
        stdout.line(f"  {role} of {'all projects' if project == '*' else project}")


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
