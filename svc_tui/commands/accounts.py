"""Accounts of a service, and commands for its owners.

`svc login`, `logout`, `whoami`, `token` and `user`; `svc quota`, `gc`, `notify` and `projects`.
"""

import getpass
import os
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from engine.errors import InvalidUsage, SvcError
from engine.manifest.load import load
from svc_tui.client import ApiError, Client
from svc_tui.client.credentials import (
    MIN_PASSWORD_CHARS,
    TIMEOUT_SECONDS,
    Credentials,
    CredentialStore,
    call_service,
    check_encryption,
    current_project,
    is_claimed,
    log_in,
    noted_client,
    password_problem,
    require_password,
    service_url,
)
from svc_tui.client.discovery import ensure_usable
from svc_tui.commands.options import Commands, PasswordStdin, RoleName, Yes, argument, flag, option
from svc_tui.terminal import prompt, stderr, stdout
from svc_tui.terminal.stdout import Answer
from svc_tui.terminal.units import plural, size
from svc_tui.user_home import Home

_HINT = "Pass --user and --password-stdin, or set SVC_URL and SVC_TOKEN."


def login(
    url: Annotated[
        str, argument("URL", "URL of the service's control API (default: SVC_URL).", show_default=False)
    ] = "",
    user: Annotated[str, option("NAME", "Your user name on the service.", "--user", "-u")] = "",
    claim: Annotated[
        str, option("CODE", "Become the first owner with the claim code that svc serve printed.")
    ] = "",
    password_stdin: PasswordStdin = False,
    insecure: Annotated[bool, flag("Allow http:// to another machine (unencrypted).", "--insecure")] = False,
    data: Annotated[
        Path | None,
        option("DIR", "Data directory on this machine to use without a login (default: data in SVC_HOME)."),
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
        folder = Home.from_environment(os.environ).data(data)
        ensure_usable(folder)  # Write permission makes an owner.
        credentials = Credentials(str(folder), user="developer", folder=folder)
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
        hint = "Use https:// on networks that you do not trust."
        stderr.warn(f"the password is sent to {url} unencrypted", hint)
    with Client(url, "", TIMEOUT_SECONDS) as client:
        claimed = is_claimed(client)
        if claim and claimed:
            hint = f"Log in without --claim: `svc login {url}`."
            raise SvcError(f"{url} already has an owner", hint, code="conflict")
        if not claimed and not claim:
            stderr.note(f"{url} has no owner yet: enter the claim code that `svc serve` printed at its start")
        code = None if claimed else _claim_code(client, claim)
        name = user or (_own_name() if password_stdin else prompt.line("user name", _HINT, _own_name()))
        if password_stdin:
            password = prompt.from_stdin()
        elif claimed:
            password = prompt.secret("password", _HINT)
        else:
            password = prompt.new_secret(
                f"password, at least {MIN_PASSWORD_CHARS} characters", _HINT, password_problem
            )
        return log_in(client, name, password, code, insecure=insecure)


def _claim_code(client: Client, claim: str) -> str:
    """Return the claim code that was passed, or ask for one until it is right. Raises `SvcError`."""
    while True:
        code = claim or prompt.line("claim code", f"Pass --claim CODE. {_HINT}")
        try:
            client.call("POST", "/v1/claim/check", {"code": code})
            return code
        except ApiError as error:
            if claim or error.code != "unauthenticated":
                raise
            stderr.warn(error.message, error.hint)


def logout(everywhere: Annotated[bool, flag("Log out on all machines.", "--everywhere")] = False) -> None:
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
                hint = "The session stays valid there until it expires."
                stderr.warn(f"cannot end the session on {credentials.key}: {error.message}", hint)
    store.delete(credentials.key)
    stdout.line(f"logged out of {credentials.key}")


def whoami() -> Answer:
    """Show your user name and roles on the service."""
    credentials = CredentialStore.from_environment(os.environ).get(current_project())
    with noted_client(credentials) as client:
        account = client.call("GET", "/v1/whoami")
    name = f"{account['user']} (token {account['token']})" if account["token"] else account["user"]
    roles = [f"  {each}" for each in _roles(account)]
    return Answer({"service": credentials.key, **account}, [f"{name} at {credentials.key}", *roles])


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


token = Commands(help="Manage API tokens for programs such as CI.")


@token.command("create")
def create_token(
    name: Annotated[str, argument("NAME", "Name of the token, for example ci.")],
    role: RoleName = "deployer",
    project: Annotated[
        list[str] | None, option("NAME", "Project to grant access to; repeatable (default: all).")
    ] = None,
    days: Annotated[int, option("DAYS", "Days until the token expires.", min=1, max=365)] = 90,
) -> Answer:
    """Create a token and print it once."""
    credentials = CredentialStore.from_environment(os.environ).get(current_project())
    body = {"name": name, "role": role, "projects": project or ["*"], "days": days}
    with noted_client(credentials) as client:
        created = client.call("POST", "/v1/tokens", body)
    note = f"expires {created['expires']}; set SVC_URL={credentials.url} and SVC_TOKEN to:"
    return Answer(created, [created["token"]], before=note)


@token.command("list")
def list_tokens() -> Answer:
    """List your tokens, without their values."""
    tokens = call_service("GET", "/v1/tokens")
    rows = []
    for token in tokens["tokens"]:
        projects = ", ".join("all" if name == "*" else name for name in token["projects"])
        texts = (token["name"], token["role"], projects, token["used"] or "never", token["expires"])
        rows.append([(text, "") for text in texts])
    lines = stdout.table(("name", "role", "projects", "used", "expires"), rows) if rows else ()
    return Answer(tokens, lines, empty="you have no tokens")


@token.command("rm")
def revoke_token(name: Annotated[str, argument("NAME", "Name of the token.")], yes: Yes = False) -> None:
    """Revoke a token at once."""
    prompt.confirm(f"revoke the token {name}?", yes=yes)
    call_service("DELETE", f"/v1/tokens/{quote(name, safe='')}")
    stdout.line(f"revoked {name}")


ALL_PROJECTS = "*"
_STDIN_HINT = "Pass --password-stdin, and pipe the password."
user = Commands(help="Manage users, roles and passwords.")
ProjectName = Annotated[str, option("NAME", "Project of the role (default: all).", "--project")]
Name = Annotated[str, argument("NAME", "Name of the user.")]


@user.command("list")
def list_users() -> Answer:
    """List users and their roles in your projects."""
    users = call_service("GET", "/v1/users")
    return Answer(
        users, (f"{each['name']}  {', '.join(_roles(each)) or 'no role'}" for each in users["users"])
    )


@user.command("add")
def add_user(
    name: Name,
    role: RoleName | None = None,
    project: ProjectName = ALL_PROJECTS,
    password_stdin: PasswordStdin = False,
) -> None:
    """Create a user with an initial password."""
    roles = {project: role} if role else {}
    if name in _users():
        hint = "Choose another name; `svc user list` lists the users."
        raise SvcError(f"user {name} already exists", hint, code="conflict")
    call_service("PUT", _path(name), {"password": _password(password_stdin), "roles": roles})
    stdout.line(f"created {name}")


@user.command("rm")
def remove_user(name: Name, yes: Yes = False) -> None:
    """Remove a user, and revoke their sessions and tokens."""
    prompt.confirm(f"remove the user {name}, and revoke their sessions and tokens?", yes=yes)
    call_service("DELETE", _path(name))
    stdout.line(f"removed {name}")


@user.command("role")
def set_role(
    name: Name,
    role: Annotated[
        Literal["viewer", "deployer", "owner", "none"],
        argument("ROLE", "Role: viewer, deployer, owner or none."),
    ],
    project: ProjectName = ALL_PROJECTS,
) -> None:
    """Set the role of a user; `none` removes it."""
    method, body = ("DELETE", None) if role == "none" else ("PUT", {"role": role})
    call_service(method, f"{_path(name)}/roles/{quote(project, safe='*')}", body)
    stdout.line(f"{name} now has {'no role' if role == 'none' else f'the role {role}'} in {_where(project)}")


@user.command("password")
def change_password(
    name: Annotated[str, argument("NAME", "Another user; requires the owner role.")] = "",
    password_stdin: PasswordStdin = False,
) -> None:
    """Change your password, or set the password of another user.

    With --password-stdin, the first line is the old password and the second line the new one.
    """
    if name:
        if name not in _users():
            raise SvcError(f"unknown user {name}", "Run `svc user list` to list the users.")
        call_service("PUT", _path(name), {"password": _password(password_stdin)})
        stdout.line(f"changed the password of {name} and revoked their sessions")
        return
    old = prompt.from_stdin() if password_stdin else prompt.secret("old password", _STDIN_HINT)
    body = {"old": old, "new": _password(password_stdin)}
    revoked = call_service("POST", "/v1/password", body)["revoked"]
    stdout.line(f"changed your password and revoked {plural(revoked, 'other session')}")


def _users() -> list[str]:
    return [account["name"] for account in call_service("GET", "/v1/users")["users"]]


def _path(user: str) -> str:
    return f"/v1/users/{quote(user, safe='')}"


def _password(stdin: bool) -> str:
    if not stdin:
        question = f"new password, at least {MIN_PASSWORD_CHARS} characters"
        return prompt.new_secret(question, _STDIN_HINT, password_problem)
    password = prompt.from_stdin()
    require_password(password)
    return password


def _roles(account: dict[str, Any]) -> list[str]:
    return [f"{role} of {_where(project)}" for project, role in sorted(account["roles"].items())]


def _where(project: str) -> str:
    return "all projects" if project == ALL_PROJECTS else project


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
