"""`svc build` and `svc deploy`."""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from doors.tables.migrations import ignored
from engine.artifact import Artifact, ComponentArtifact, StaticBundle
from engine.build.builder import Builder
from engine.errors import SvcError
from engine.manifest.load import find, load, warnings
from engine.manifest.model import Project, Resource
from engine.service.policy import MOUNTS_HINT, Change, enforce_mounts, enforce_policy
from engine.wasm.compile.code_cache import compile_component
from engine.wasm.compile.component_file import error_context
from svc_tui.client.credentials import CredentialStore, open_client
from svc_tui.commands.options import AsJson
from svc_tui.deploy import uploader
from svc_tui.deploy.build import build_each, build_resource, built_line
from svc_tui.deploy.format import domain_lines, live_lines, plan_lines
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.units import duration, plural, size
from svc_tui.user_home import Home


def deploy(
    plan: Annotated[bool, typer.Option("--plan", help="Show the changes without deploying.")] = False,
    message: Annotated[
        str, typer.Option("--message", "-m", metavar="TEXT", help="Message of the deployment.")
    ] = "",
    allow_new_capability: Annotated[
        bool, typer.Option("--allow-new-capability", help="Allow resources to use new capabilities.")
    ] = False,
    discard_mounts: Annotated[
        bool, typer.Option("--discard-mounts", help="Undo mounts drawn in the Console that svc.toml lacks.")
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
    with open_client(credentials) as client:
        uploader.require_deployer(client, project.name)
        if credentials.key and not plan:
            store.link_project(root, credentials.key)
        drifted = uploader.drifted_mounts(client, project)
        if not plan:
            enforce_mounts(drifted, discard=discard_mounts)
        stderr.progress("1/4 build")
        progress = _TerminalProgress(max(map(len, project.resources)))
        cache = Home.from_environment(os.environ).cache()
        bundle = asyncio.run(uploader.build(project, cache, progress))
        plan_document = uploader.plan(client, bundle) | {"drift": drifted}
        for warning in plan_document["warnings"]:
            stderr.warn(warning["message"], warning["hint"])
        if plan:
            _show_plan(plan_document, uploader.upload_size(bundle, plan_document["missing"]), as_json=as_json)
            return
        if plan_document["live"] and not any(
            plan_document[key] for key in ("changes", "migrations", "missing")
        ):
            stderr.note("nothing changed")
            _show(client.call("GET", f"/v1/projects/{project.name}"), as_json=as_json)
            return
        for line in plan_lines(plan_document):
            stderr.line(line)
        enforce_policy((Change(**change) for change in plan_document["changes"]), allow=allow_new_capability)
        stderr.progress("2/4 upload")
        with progress.upload_line:
            upload_size = uploader.upload(client, bundle, plan_document["missing"], progress)
        stderr.note(
            f"  {size(upload_size)} in {plural(len(plan_document['missing']), 'file')}"
            if upload_size
            else "  nothing to upload"
        )
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
        if project.domains and not as_json:
            stderr.note("  checking the DNS of the domains; Ctrl+C does not undo the deploy")
            created = result["deployment"]["created"]
            for line in domain_lines(uploader.wait_for_domains(client, project.name, created)):
                stderr.line(line)
    _show(result, as_json=as_json)


def _show(live: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        stdout.data(live)
        return
    stderr.note(f"live: {live['deployment']['id']}")
    for line in live_lines(live):
        stdout.line(line)


class _TerminalProgress:
    """Writes the steps of a deploy to stderr."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._last = ""
        self.upload_line = stderr.ProgressLine()

    def building(self, resource: str, line: str) -> None:
        stderr.progress(f"{resource}: {line}")

    def built(self, resource: Resource, artifact: Artifact, seconds: float, *, unchanged: bool) -> None:
        stderr.note(f"  {built_line(resource, artifact, seconds, self._width, unchanged=unchanged)}")

    def uploading(self, sent: int, total: int) -> None:
        """Update the upload progress on a terminal."""
        self.upload_line.show(f"  {size(sent)} of {size(total)}")

    def step(self, step: str, text: str) -> None:
        if step != self._last:
            self._last = step
            stderr.progress(f"{3 if step == 'policy' else 4}/4 {step}")
        stderr.note(f"  {text}")


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
    live = plan["live"]
    if lines:
        return
    if not live:
        stderr.note("nothing to deploy")
    elif uploads:
        stderr.note(f"no changes, but files of {live} are lost")
    else:
        stderr.note(f"no changes: {live} is up to date")


@dataclass(frozen=True, slots=True)
class _BuildResult:
    """A built resource; `digest` is the SHA-256 of its artifact."""

    resource: Resource
    digest: str
    seconds: float
    unchanged: bool

    def document(self) -> dict[str, Any]:
        """Return the result for `--json`."""
        return {
            "resource": self.resource.name,
            "lane": self.resource.lane,
            "sha256": self.digest,
            "seconds": round(self.seconds, 3),
            "unchanged": self.unchanged,
        }

    def line(self) -> Text:
        """Return the result as a line."""
        time = duration(int(self.seconds * 1e9))
        return Text.assemble(
            (f"{self.resource.name:<12}", "cyan"),
            f"{self.resource.lane:<8}sha256:{self.digest}  ",
            (f"{time}, unchanged" if self.unchanged else time, "dim"),
        )


def build(
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Rebuild unchanged resources too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build every resource as a deploy does and print the sha256 of each artifact."""
    project = load(find(Path.cwd()))
    cache = Home.from_environment(os.environ).cache()
    results: list[_BuildResult] = []

    def show(result: _BuildResult) -> None:
        results.append(result)
        if not as_json:
            stdout.line(result.line())

    failures = asyncio.run(_build_all(project, cache, show, cached=not no_cache))
    if as_json:
        stdout.data({"ok": not failures, "resources": [result.document() for result in results]})
    for failure in failures[:-1]:
        stderr.render(failure)
    if failures:
        raise failures[-1]


async def _build_all(
    project: Project, cache: Path, show: Callable[[_BuildResult], None], *, cached: bool
) -> list[SvcError]:
    """Build all resources and show the results in manifest order; return the errors."""
    failures = []

    async def build(builder: Builder, resource: Resource) -> _BuildResult:
        return await _build(builder, project, resource, cache, cached=cached)

    async with build_each(project, cache, build) as builds:
        for running in builds:
            try:
                show(await running)
            except SvcError as error:
                failures.append(error)
    return failures


async def _build(
    builder: Builder, project: Project, resource: Resource, cache: Path, *, cached: bool
) -> _BuildResult:
    started = time.perf_counter()

    def report(line: str) -> None:
        stderr.progress(f"{resource.name}: {line}")

    artifact, unchanged = await build_resource(builder, resource, project.root, report, cached=cached)
    if isinstance(artifact, ComponentArtifact):
        with error_context(resource.name):
            await compile_component(
                artifact.component, artifact.digest, cache, fast=False, report=report, verify=False
            )
    digest = artifact.digest if isinstance(artifact, ComponentArtifact | StaticBundle) else ""
    return _BuildResult(resource, digest, time.perf_counter() - started, unchanged)
