"""`svc secret`: values that resources receive as environment variables, stored by the service."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from engine.dev.env_file import ENV_FILE, read_env
from engine.errors import SvcError
from engine.manifest import MANIFEST
from svc_tui.client import Client
from svc_tui.client.credentials import project_service
from svc_tui.commands.options import AsJson, Yes, argument
from svc_tui.terminal import prompt, stderr, stdout

MAX_BYTES = 64 << 10
secret = typer.Typer(help="Manage the secrets of the project.")


@contextmanager
def _secrets() -> Iterator[tuple[Client, str]]:
    """Yield a client and the API path of the project's secrets."""
    with project_service() as (client, project):
        yield client, f"/v1/projects/{project.name}/secrets"


@secret.command("set")
def set_secret(
    name: Annotated[str, argument("NAME", "Name of the environment variable.")],
) -> None:
    """Set a secret. Prompts for the value without echo, or reads it from piped stdin."""
    with _secrets() as (client, path):
        value = prompt.secret(f"value of {name}", "Pipe the value.") if sys.stdin.isatty() else _piped()
        client.call("PUT", f"{path}/{quote(name, safe='')}", {"value": value})
    if not value:
        stderr.warn(f"the value of {name} is empty", f"Pipe the value: echo VALUE | svc secret set {name}")
    stderr.note(f"set {name}; the next request uses the new value")


def _piped() -> str:
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise SvcError(
            "the value is not valid UTF-8", "Encode binary values, for example as base64."
        ) from error
    _check_size("the value", data)
    return text.removesuffix("\n")


def _check_size(subject: str, value: bytes) -> None:
    if len(value) > MAX_BYTES:
        raise SvcError(
            f"{subject} is larger than {MAX_BYTES >> 10} KiB",
            "Store large values in a table and only a key here.",
        )


@secret.command("push")
def push_secrets(
    file: Annotated[Path, argument("FILE", "File with lines NAME=value.")] = Path(ENV_FILE),
    yes: Yes = False,
) -> None:
    """Set the declared secrets that a file such as .env has values for."""
    values = read_env(file)
    with project_service() as (client, project):
        names = sorted(project.secrets & values.keys())
        if not names:
            raise SvcError(
                f"{file} has no value of a secret that {MANIFEST} declares",
                f"Declared: {', '.join(sorted(project.secrets)) or 'none'}.",
            )
        for name in names:
            _check_size(f"the value of {name}", values[name].encode())
        if others := sorted(values.keys() - project.secrets):
            stderr.note(f"not sent, because {MANIFEST} declares no such secrets: {', '.join(others)}")
        if not yes:
            prompt.confirm(f"set {', '.join(names)} of {project.name} at {client.url}?")
        for name in names:
            path = f"/v1/projects/{project.name}/secrets/{quote(name, safe='')}"
            client.call("PUT", path, {"value": values[name]})
            stderr.note(f"set {name}")


@secret.command("list")
def list_secrets(as_json: AsJson = False) -> None:
    """List the names of the project's secrets; values are never shown."""
    with _secrets() as (client, path):
        secrets = client.call("GET", path)
    stdout.answer(secrets, secrets["secrets"], as_json=as_json)


@secret.command("rm")
def remove_secret(
    name: Annotated[str, argument("NAME", "Name of the environment variable.")],
    yes: Yes = False,
) -> None:
    """Remove a secret."""
    with _secrets() as (client, path):
        if not yes:
            prompt.confirm(f"remove the secret {name} and its value?")
        client.call("DELETE", f"{path}/{quote(name, safe='')}")
    stderr.note(f"removed {name}")
