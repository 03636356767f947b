"""`svc secret`: values that guests get as variables and that are in no file of the Project."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from engine.errors import SvcError
from engine.manifest.load import find, load
from svc_tui.client import Client
from svc_tui.client.credentials import CredentialStore, open_client
from svc_tui.terminal import prompt, stderr, stdout

MOST_BYTES = 64 << 10
secret = typer.Typer(help="Secrets of the Project: values that no file has.", no_args_is_help=True)


@contextmanager
def _secrets() -> Iterator[tuple[Client, str]]:
    """Give a client and the path of the Project's secrets."""
    root = find(Path.cwd())
    name = load(root).name
    with open_client(CredentialStore.from_environment(os.environ).get(root)) as client:
        yield client, f"/v1/projects/{name}/secrets"


@secret.command("set")
def set_secret(name: Annotated[str, typer.Argument(metavar="NAME", help="The variable's name.")]) -> None:
    """Give a secret its value: typed where nobody sees it, or all of stdin where that is no terminal."""
    with _secrets() as (client, path):
        value = prompt.secret(f"value of {name}") if sys.stdin.isatty() else _piped()
        client.call("PUT", f"{path}/{quote(name, safe='')}", {"value": value})
    if not value:
        stderr.warn(f"the value of {name} is empty", "Was there anything on stdin?")
    stderr.note(f"{name} is set; guests have it from their next request on")


def _piped() -> str:
    data = sys.stdin.buffer.read(MOST_BYTES + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise SvcError(
            "the value is not text in UTF-8", "Encode binary values, in base64 for example."
        ) from error
    if len(data) > MOST_BYTES:
        raise SvcError(f"the value is longer than {MOST_BYTES >> 10} KiB", "Guests get it as a variable.")
    return text.removesuffix("\n")


@secret.command("list")
def list_secrets(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the names of the Project's secrets; nobody is shown a value again."""
    with _secrets() as (client, path):
        found = client.call("GET", path)
    if as_json:
        stdout.data(found)
        return
    for name in found["secrets"]:
        stdout.line(name)


@secret.command("rm")
def remove_secret(name: Annotated[str, typer.Argument(metavar="NAME", help="The variable's name.")]) -> None:
    """Remove a secret."""
    with _secrets() as (client, path):
        client.call("DELETE", f"{path}/{quote(name, safe='')}")
    stderr.note(f"{name} is removed")
