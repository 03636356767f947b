"""`svc open`."""

import webbrowser
from typing import Annotated

import typer

from engine.errors import InvalidUsage
from svc_tui.client.credentials import project_service
from svc_tui.commands.completion import resource_names
from svc_tui.commands.options import AsJson
from svc_tui.terminal import stdout


def open_resource(
    resource: Annotated[
        str,
        typer.Argument(
            metavar="RESOURCE",
            help="A public resource (default: the front).",
            autocompletion=resource_names,
        ),
    ] = "",
    show: Annotated[bool, typer.Option("--print", help="Print the URL without opening it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Open a deployed resource in the browser."""
    with project_service() as (client, project):
        state = client.call("GET", f"/v1/projects/{project.name}")
    urls = {address["resource"]: address["url"] for address in state["addresses"] if address["url"]}
    name = resource or (project.front.name if project.front else "")
    if name not in urls:
        raise InvalidUsage(
            f"{name} is not a live public resource" if name else f"{project.name} has no public resource",
            f"Available: {', '.join(urls)}." if urls else "Run `svc deploy` first.",
        )
    if as_json:
        stdout.data({"resource": name, "url": urls[name]})
    else:
        stdout.line(urls[name])
    if not show:
        webbrowser.open(urls[name])
