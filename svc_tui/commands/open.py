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
            help="A public resource (default: the project's front).",
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
    url = urls.get(resource) if resource else state["address"]
    if url is None:
        message = f"{resource} is not a live public resource" if resource else f"{project.name} has no front"
        raise InvalidUsage(
            message, f"Pass a resource: {', '.join(urls)}." if urls else "Deploy a public one."
        )
    if as_json:
        stdout.data({"resource": resource or None, "url": url})
    else:
        stdout.line(url)
    if not show:
        webbrowser.open(url)
