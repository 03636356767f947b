"""`svc open`: a Resource in the browser."""

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
        str, typer.Argument(metavar="RESOURCE", help="A public Resource; without one: the front.")
    ] = "",
    show: Annotated[bool, typer.Option("--print", help="Print the address only.")] = False,
) -> None:
    """Open what is live in the browser."""
    root = find(Path.cwd())
    project = load(root)
    with open_client(CredentialStore.from_environment(os.environ).get(root)) as client:
        found = client.call("GET", f"/v1/projects/{project.name}")
    urls = {each["resource"]: each["url"] for each in found["addresses"] if each["url"]}
    name = resource or (project.front.name if project.front else "")
    if name not in urls:
        raise SvcError(
            f"{name} is not public, or not live" if name else f"{project.name} has no public Resource",
            f"Those that are: {', '.join(urls) or 'none'}.",
            code="usage",
        )
    stdout.line(urls[name])
    if not show:
        webbrowser.open(urls[name])
