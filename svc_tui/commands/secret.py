"""`svc secret`: values that resources receive as environment variables, stored by the service."""

import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from engine.dev.env_file import ENV_FILE, read_env
from engine.errors import SvcError
from engine.manifest import MANIFEST
from engine.manifest.model import Project
from svc_tui.client.credentials import project_service
from svc_tui.commands.options import Commands, Yes, argument
from svc_tui.terminal import prompt, stderr
from svc_tui.terminal.stdout import Answer

MAX_BYTES = 64 << 10
secret = Commands(help="Manage the secrets of the project.")


Name = Annotated[str, argument("NAME", "Name of the environment variable.")]


@secret.command("set")
def set_secret(name: Name) -> None:
    """Set a secret. Prompts for the value without echo, or reads it from piped stdin."""
    with project_service() as (client, project):
        value = prompt.secret(f"value of {name}", "Pipe the value.") if sys.stdin.isatty() else _piped()
        client.call("PUT", _path(project, name), {"value": value})
    if not value:
        stderr.warn(f"the value of {name} is empty", f"Pipe the value: echo VALUE | svc secret set {name}")
    stderr.note(f"set {name}; the next request uses the new value")


def _path(project: Project, name: str) -> str:
    return f"/v1/projects/{project.name}/secrets/{quote(name, safe='')}"


def _piped() -> str:
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        hint = "Encode binary values, for example as base64."
        raise SvcError("the value is not valid UTF-8", hint) from error
    _check_size("the value", data)
    return text.removesuffix("\n")


def _check_size(subject: str, value: bytes) -> None:
    if len(value) > MAX_BYTES:
        hint = "Store large values in a table and only a key here."
        raise SvcError(f"{subject} is larger than {MAX_BYTES >> 10} KiB", hint)


@secret.command("push")
def push_secrets(
    file: Annotated[Path, argument("FILE", "File with lines NAME=value.")] = Path(ENV_FILE), yes: Yes = False
) -> None:
    """Set the declared secrets that a file such as .env has values for."""
    values = read_env(file)
    with project_service() as (client, project):
        names = sorted(project.secrets & values.keys())
        if not names:
            hint = f"Declared: {', '.join(sorted(project.secrets)) or 'none'}."
            raise SvcError(f"{file} has no value of a secret that {MANIFEST} declares", hint)
        for name in names:
            _check_size(f"the value of {name}", values[name].encode())
        if others := sorted(values.keys() - project.secrets):
            stderr.note(f"not sent, because {MANIFEST} declares no such secrets: {', '.join(others)}")
        prompt.confirm(f"set {', '.join(names)} of {project.name} at {client.url}?", yes=yes)
        for name in names:
            client.call("PUT", _path(project, name), {"value": values[name]})
            stderr.note(f"set {name}")


@secret.command("list")
def list_secrets() -> Answer:
    """List the names of the project's secrets; values are never shown."""
    with project_service() as (client, project):
        secrets = client.call("GET", f"/v1/projects/{project.name}/secrets")
    return Answer(secrets, secrets["secrets"])


@secret.command("rm")
def remove_secret(name: Name, yes: Yes = False) -> None:
    """Remove a secret."""
    with project_service() as (client, project):
        prompt.confirm(f"remove the secret {name} and its value?", yes=yes)
        client.call("DELETE", _path(project, name))
    stderr.note(f"removed {name}")
