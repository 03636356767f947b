"""`svc deployments`, `svc rollback` and `svc open`."""

import webbrowser
from typing import Annotated, Any
from urllib.parse import quote

from rich.text import Text

from engine.errors import InvalidUsage, SvcError
from svc_tui.client import Client
from svc_tui.client.credentials import project_service
from svc_tui.commands.options import AsJson, Yes, argument, flag, option, resource_names
from svc_tui.deploy.format import change_lines, live_lines, local_time, one_line, rollback_text
from svc_tui.terminal import prompt, stderr
from svc_tui.terminal.stdout import Answer

MAX_SHOWN = 20


def deployments() -> Answer:
    """List the deployments of the project in this folder, newest first."""
    with project_service() as (client, project):
        history = client.call("GET", f"/v1/projects/{project.name}/deployments")
    address = Text.assemble((project.name, "cyan"), f"  {history['address']}")
    lines: list[Text | str] = [address] if history["address"] else []
    for deployment in history["deployments"][:MAX_SHOWN]:
        lines.append(_line(deployment))
        if deployment["live"] and (text := rollback_text(history["activations"], deployment["id"])):
            lines.append(f"    {text}")
    empty = f"{project.name} has no deployments; create one with `svc deploy`"
    return Answer(history, lines, empty=empty)


def _line(deployment: dict[str, Any]) -> Text:
    live = deployment["live"]
    return Text.assemble(
        ("● " if live else "  ", "green"),
        (deployment["id"], "bold" if live else ""),
        (f"  {local_time(deployment['created'])}", "dim"),
        (f"  {deployment['by']}", "cyan"),
        (f"  {one_line(deployment['commit'])}" if deployment["commit"] else "", "dim"),
        f"  {one_line(deployment['message'])}" if deployment["message"] else "",
    )


def rollback(
    deployment: Annotated[
        str, argument("ID", "Deployment to activate (default: the one that was live before).")
    ] = "",
    message: Annotated[str, option("REASON", "Reason of the rollback.", "--message", "-m")] = "",
    yes: Yes = False,
) -> Answer:
    """Roll back to an earlier deployment. Rows and schema of tables are not rolled back."""
    with project_service() as (client, project):
        path = f"/v1/projects/{project.name}"
        target = deployment or _before(client, project.name)
        plan = client.call("GET", f"{path}/deployments/{quote(target, safe='')}/rollback")
        for line in change_lines(plan["changes"]):
            stderr.line(line)
        if target == plan["live"]:
            raise SvcError(f"{target} is already live", "Run `svc deployments` to list the others.")
        if not plan["changes"]:
            stderr.note(f"{target} has the same content as the live deployment")
        stderr.note("rows and schema of tables are not rolled back")
        newer = " (the newer one)" if target > plan["live"] else ""
        prompt.confirm(f"roll back from {plan['live']} to {target}{newer}?", yes=yes)
        body = {"deployment": target, "revision": plan["revision"], "message": message}
        result = client.call("POST", f"{path}/rollback", body)
    return live_answer(result)


def live_answer(live: dict[str, Any]) -> Answer:
    """Return the live deployment and its addresses."""
    return Answer(live, live_lines(live), before=f"live: {live['deployment']['id']}")


def _before(client: Client, project: str) -> str:
    """Return the deployment that was live before the current one. Raises `SvcError` if none was."""
    activations = client.call("GET", f"/v1/projects/{project}/deployments")["activations"]
    for activation in activations:
        if activation["deployment"] != activations[0]["deployment"]:
            return str(activation["deployment"])
    hint = "Run `svc deployments` to list the deployments, and pass an ID."
    raise SvcError(f"{project} has no earlier deployment to roll back to", hint)


def open_resource(
    resource: Annotated[
        str,
        argument(
            "RESOURCE", "A public resource (default: the project's front).", autocompletion=resource_names
        ),
    ] = "",
    show: Annotated[bool, flag("Print the URL without opening it.", "--print")] = False,
    as_json: AsJson = False,
) -> None:
    """Open a deployed resource in the browser."""
    with project_service() as (client, project):
        state = client.call("GET", f"/v1/projects/{project.name}")
    urls = {address["resource"]: address["url"] for address in state["addresses"] if address["url"]}
    url = urls.get(resource) if resource else state["address"]
    if url is None:
        message = f"{resource} is not a live public resource" if resource else f"{project.name} has no front"
        hint = f"Pass a resource: {', '.join(urls)}." if urls else "Deploy a public one."
        raise InvalidUsage(message, hint)
    Answer({"resource": resource or None, "url": url}, [url]).write(as_json=as_json)
    if not show:
        webbrowser.open(url)
