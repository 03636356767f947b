"""`svc open`."""

import os
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import SvcError
from engine.manifest.load import find, load
from svc_tui.client.credentials import CredentialStore, open_client
from svc_tui.terminal import stdout


def open_resource(
    resource: Annotated[
        str, typer.Argument(metavar="RESOURCE", help="A public resource (default: the front).")
    ] = "",
    show: Annotated[bool, typer.Option("--print", help="Print the URL without opening it.")] = False,
) -> None:
    """Open a deployed resource in the browser."""
    root = find(Path.cwd())
    project = load(root)
    with open_client(CredentialStore.from_environment(os.environ).get(root)) as client:
        state = client.call("GET", f"/v1/projects/{project.name}")
    urls = {address["resource"]: address["url"] for address in state["addresses"] if address["url"]}
    name = resource or (project.front.name if project.front else "")
    if name not in urls:
        raise SvcError(
            f"{name} is not a live public resource" if name else f"{project.name} has no public resource",
            f"Available: {', '.join(urls)}." if urls else "Run `svc deploy` first.",
            code="usage",
        )
    stdout.line(urls[name])
    if not show:
        webbrowser.open(urls[name])
