"""`svc deploy`: build, upload, policy, flip."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.artifact import Artifact
from engine.manifest.load import find, load, warnings
from engine.manifest.model import Resource
from engine.service.changes import Change, judge
from svc_tui import deploying
from svc_tui.built import built_line
from svc_tui.commit import commit_of
from svc_tui.deployview import address_lines, files, plan_lines, size
from svc_tui.home import Home
from svc_tui.session import Logins, connected
from svc_tui.terminal import diagnostics, output


def deploy(
    plan: Annotated[bool, typer.Option("--plan", help="Say what would change, and stop.")] = False,
    message: Annotated[
        str, typer.Option("--message", "-m", metavar="TEXT", help="What this deploy is for.")
    ] = "",
    allow_new_capability: Annotated[
        bool, typer.Option("--allow-new-capability", help="Let components import what they did not so far.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Build every Resource of the Project in this folder, and have all of them go live at once."""
    root = find(Path.cwd())
    project = load(root)
    for warning in warnings(project):
        diagnostics.warn(warning.message, warning.hint)
    logins = Logins.from_environment(os.environ)
    login = logins.get(root)
    with connected(login) as client:
        deploying.require_deployer(client, project.name)
        if login.key and not plan:
            logins.belongs(root, login.key)
        _step(1, "build")
        teller = Teller(max(map(len, project.resources)))
        cache = Home.from_environment(os.environ).cache()
        bundle = asyncio.run(deploying.build(project, cache, teller))
        planned = deploying.plan(client, bundle)
        if plan:
            _show_plan(planned, deploying.bytes_of(bundle, planned["missing"]), as_json=as_json)
            return
        if planned["live"] and not planned["changes"] and not planned["migrations"]:
            diagnostics.note("nothing has changed")
            _show(client.call("GET", f"/v1/projects/{project.name}"), as_json=as_json)
            return
        for line in plan_lines(planned):
            diagnostics.line(line)
        judge((Change(**each) for each in planned["changes"]), allow=allow_new_capability)
        _step(2, "upload")
        sent = deploying.upload(client, bundle, planned["missing"], teller)
        diagnostics.note(
            f"  {size(sent)} in {files(len(planned['missing']))}" if sent else "  nothing to send"
        )
        done = deploying.deploy(
            client,
            bundle,
            planned["revision"],
            teller,
            commit=commit_of(root),
            message=message,
            allow=allow_new_capability,
        )
    _show(done, as_json=as_json)


def _show(live: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.data(live)
        return
    diagnostics.note(f"live: {live['deployment']['id']}")
    for line in address_lines(live["addresses"]):
        output.line(line)


class Teller:
    """Writes how a deploy goes on, a line a step."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._last = ""

    def building(self, resource: str, line: str) -> None:
        """Write a line of a build's progress."""
        diagnostics.progress(f"{resource}: {line}")

    def built(self, resource: Resource, artifact: Artifact, seconds: float, *, unchanged: bool) -> None:
        """Write that a Resource is built."""
        line = built_line(resource, artifact, seconds, self._width, unchanged=unchanged)
        diagnostics.note(f"  {line}")

    def uploading(self, done: int, total: int) -> None:
        """Write how much is there, where somebody watches."""
        diagnostics.transient(f"  {size(done)} of {size(total)}", over=done >= total)

    def step(self, step: str, text: str) -> None:
        """Write what the service does."""
        if step != self._last:
            self._last = step
            _step(3 if step == "policy" else 4, step)
        diagnostics.note(f"  {text}")


def _step(number: int, name: str) -> None:
    diagnostics.progress(f"{number}/4 {name}")


def _show_plan(planned: dict[str, Any], missing: int, *, as_json: bool) -> None:
    uploads = len(planned["missing"])
    if as_json:
        document = {key: planned[key] for key in ("live", "changes", "migrations")}
        output.data(document | {"uploads": uploads, "upload_bytes": missing})
        return
    lines = plan_lines(planned)
    for line in lines:
        output.line(line)
    if uploads:
        diagnostics.note(f"{size(missing)} in {files(uploads)} would be uploaded")
    if not lines:
        live = planned["live"]
        diagnostics.note(f"nothing would change: {live} is what is here" if live else "nothing to deploy")
