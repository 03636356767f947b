"""`svc deploy`: build, upload, policy, flip."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.artifact import Artifact
from engine.manifest.load import find, load, warnings
from engine.manifest.model import Resource
from engine.service.policy import Change, enforce_policy
from svc_tui.client.credentials import CredentialStore, open_client
from svc_tui.deploy import uploader
from svc_tui.deploy.built import built_line
from svc_tui.deploy.format import address_lines, files, plan_lines, size
from svc_tui.deploy.git import commit_of
from svc_tui.terminal import stderr, stdout
from svc_tui.user_home import Home


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
        stderr.warn(warning.message, warning.hint)
    logins = CredentialStore.from_environment(os.environ)
    login = logins.get(root)
    with open_client(login) as client:
        uploader.require_deployer(client, project.name)
        if login.key and not plan:
            logins.link_project(root, login.key)
        _step(1, "build")
        teller = Teller(max(map(len, project.resources)))
        cache = Home.from_environment(os.environ).cache()
        bundle = asyncio.run(uploader.build(project, cache, teller))
        planned = uploader.plan(client, bundle)
        if plan:
            _show_plan(planned, uploader.upload_size(bundle, planned["missing"]), as_json=as_json)
            return
        if planned["live"] and not planned["changes"] and not planned["migrations"]:
            stderr.note("nothing has changed")
            _show(client.call("GET", f"/v1/projects/{project.name}"), as_json=as_json)
            return
        for line in plan_lines(planned):
            stderr.line(line)
        enforce_policy((Change(**each) for each in planned["changes"]), allow=allow_new_capability)
        _step(2, "upload")
        sent = uploader.upload(client, bundle, planned["missing"], teller)
        stderr.note(f"  {size(sent)} in {files(len(planned['missing']))}" if sent else "  nothing to send")
        done = uploader.deploy(
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
        stdout.data(live)
        return
    stderr.note(f"live: {live['deployment']['id']}")
    for line in address_lines(live["addresses"]):
        stdout.line(line)


class Teller:
    """Writes how a deploy goes on, a line a step."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._last = ""

    def building(self, resource: str, line: str) -> None:
        """Write a line of a build's progress."""
        stderr.progress(f"{resource}: {line}")

    def built(self, resource: Resource, artifact: Artifact, seconds: float, *, unchanged: bool) -> None:
        """Write that a Resource is built."""
        line = built_line(resource, artifact, seconds, self._width, unchanged=unchanged)
        stderr.note(f"  {line}")

    def uploading(self, done: int, total: int) -> None:
        """Write how much is there, where somebody watches."""
        stderr.transient(f"  {size(done)} of {size(total)}", finished=done >= total)

    def step(self, step: str, text: str) -> None:
        """Write what the service does."""
        if step != self._last:
            self._last = step
            _step(3 if step == "policy" else 4, step)
        stderr.note(f"  {text}")


def _step(number: int, name: str) -> None:
    stderr.progress(f"{number}/4 {name}")


def _show_plan(planned: dict[str, Any], missing: int, *, as_json: bool) -> None:
    uploads = len(planned["missing"])
    if as_json:
        document = {key: planned[key] for key in ("live", "changes", "migrations")}
        stdout.data(document | {"uploads": uploads, "upload_bytes": missing})
        return
    lines = plan_lines(planned)
    for line in lines:
        stdout.line(line)
    if uploads:
        stderr.note(f"{size(missing)} in {files(uploads)} would be uploaded")
    if not lines:
        live = planned["live"]
        stderr.note(f"nothing would change: {live} is what is here" if live else "nothing to deploy")
