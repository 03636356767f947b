"""`svc deploy`."""

import asyncio
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from doors.tables.migrations import ignored
from engine.errors import SvcError
from engine.manifest.load import find, load, warnings
from engine.service.policy import MOUNTS_HINT, Change, enforce_mounts, enforce_policy
from svc_tui.client.credentials import CredentialStore, noted_client
from svc_tui.commands.deployments import live_answer
from svc_tui.commands.options import AsJson, flag, option
from svc_tui.deploy import uploader
from svc_tui.deploy.format import DeployProgress, Step, domain_lines, plan_lines
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.units import plural, size
from svc_tui.user_home import Home


def deploy(
    plan: Annotated[bool, flag("Show the changes without deploying.", "--plan")] = False,
    message: Annotated[str, option("TEXT", "Message of the deployment.", "--message", "-m")] = "",
    allow_new_capability: Annotated[
        bool, flag("Allow resources to use new capabilities.", "--allow-new-capability")
    ] = False,
    discard_mounts: Annotated[
        bool, flag("Undo mounts drawn in the Console that svc.toml lacks.", "--discard-mounts")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Build every resource of the project in this folder, and deploy all of them at once."""
    root = find(Path.cwd())
    project = load(root)
    for warning in warnings(project):
        stderr.warn(warning.message, warning.hint)
    for unapplied in ignored(root):
        stderr.warn(unapplied.message, unapplied.hint)
    store = CredentialStore.from_environment(os.environ)
    credentials = store.get(root)
    with noted_client(credentials) as client:
        uploader.require_deployer(client, project.name)
        if credentials.key and not plan:
            store.link_project(root, credentials.key)
        if (unset := uploader.unset_secrets(client, project)) is not None:
            if not plan:
                raise unset
            stderr.warn(unset.message, unset.hint)
        drifted = uploader.drifted_mounts(client, project)
        if not plan:
            enforce_mounts(drifted, discard=discard_mounts)
        stderr.progress("1/4 build")
        progress = _TerminalProgress()
        cache = Home.from_environment(os.environ).cache()
        bundle = asyncio.run(uploader.build(project, cache, progress))
        plan_document = uploader.plan(client, bundle) | {"drift": drifted}
        for warning in plan_document["warnings"]:
            stderr.warn(warning["message"], warning["hint"])
        if plan:
            _show_plan(plan_document, uploader.upload_size(bundle, plan_document["missing"]), as_json=as_json)
            return
        changed = any(plan_document[key] for key in ("changes", "migrations", "missing"))
        if plan_document["live"] and not changed:
            stderr.note("nothing changed")
            live_answer(client.call("GET", f"/v1/projects/{project.name}")).write(as_json=as_json)
            return
        for line in plan_lines(plan_document):
            stderr.line(line)
        enforce_policy((Change(**change) for change in plan_document["changes"]), allow=allow_new_capability)
        stderr.progress("2/4 upload")
        with progress.upload_line:
            upload_size = uploader.upload(client, bundle, plan_document["missing"], progress)
        files = plural(len(plan_document["missing"]), "file")
        stderr.note(f"  {size(upload_size)} in {files}" if upload_size else "  nothing to upload")
        result = uploader.deploy(
            client,
            bundle,
            plan_document["revision"],
            progress,
            commit=uploader.commit_of(root),
            message=message,
            allow=allow_new_capability,
            discard=discard_mounts,
        )
        if not as_json and not client.stopped:
            try:
                created = result["deployment"]["created"]
                listed = uploader.await_certificates(client, project.name, created, stderr.note)
                for line in domain_lines(project.name, listed):
                    stderr.line(line)
            except SvcError as error:  # The deploy is live already.
                unknown = f"the states of domains and certificates are unknown: {error.message}"
                stderr.warn(unknown, error.hint)
    live_answer(result).write(as_json=as_json)


class _TerminalProgress:
    """Writes the steps of a deploy to stderr."""

    def __init__(self) -> None:
        self._last: Step = "build"
        self.upload_line = stderr.ProgressLine()

    def __call__(self, event: DeployProgress) -> None:
        if event.step == "upload":
            self.upload_line.show(f"  {event.text}")
        elif event.transient:
            stderr.progress(event.text)
        else:
            if event.step != self._last:
                self._last = event.step
                stderr.progress(f"{3 if event.step == 'policy' else 4}/4 {event.step}")
            stderr.note(f"  {event.text}")


def _show_plan(plan: dict[str, Any], missing: int, *, as_json: bool) -> None:
    uploads = len(plan["missing"])
    if as_json:
        document = {key: plan[key] for key in ("live", "changes", "migrations", "warnings")}
        document["drift"] = [
            {"message": f"{mount.resource}: {mount.drift}", "hint": MOUNTS_HINT, **asdict(mount)}
            for mount in plan["drift"]
        ]
        stdout.data(document | {"uploads": uploads, "upload_bytes": missing})
        return
    lines = plan_lines(plan)
    for line in lines:
        stdout.line(line)
    if uploads:
        stderr.note(f"{size(missing)} in {plural(uploads, 'file')} would be uploaded")
    if not lines:
        live = plan["live"]
        state = f", but files of {live} are lost" if uploads else f": {live} is up to date"
        stderr.note(f"no changes{state}" if live else "nothing to deploy")
