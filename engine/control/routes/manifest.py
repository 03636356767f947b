"""Routes to read the manifest and edit its mounts.

A viewer may read it. A deployer may edit it: in development the file, on a service the live deployment.
"""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

from engine.control.app import Routes, principal
from engine.control.projects import known, unknown_project
from engine.control.schemas import manifest as types
from engine.deploy.deployment import Deployment, Live, RevisionConflict, revision_conflict
from engine.manifest import MANIFEST
from engine.manifest.edit import Change, ManifestChanged, inverse, mounts_diff, plan, redrawn, write
from engine.manifest.load import NoProject, parse, read
from engine.manifest.model import Project
from engine.manifest.problems import ManifestError, mistake
from engine.service.deployer import Deployer


class EditableManifest:
    """The manifest in a project folder in development. Methods raise `NotFound` for another project."""

    def __init__(self, project: Project) -> None:
        """`project` is the last valid state of the manifest."""
        self._good = project
        self._name = project.name
        self._root = project.root

    async def get(self, project: str) -> types.ManifestOut:
        """Return the manifest; if the file has errors, its last valid state and the first error."""
        return await asyncio.to_thread(self._read, self._folder(project))

    def _read(self, root: Path) -> types.ManifestOut:
        content, error = b"", None
        try:
            content = read(root / MANIFEST)
            self._good = parse(root, content)
        except NoProject as missing:
            error = mistake(root / MANIFEST, missing.message, missing.hint)
        except ManifestError as broken:
            error = broken
        return types.ManifestOut.from_project(self._good, digest=_digest(content), error=error)

    async def edit(
        self, project: str, changes: Sequence[Change], digest: str | None, by: str
    ) -> types.ManifestEditOut:
        """Return how changes would be written to svc.toml; write them if the file has this digest.

        Raises `ManifestChanged` if it has another one.
        """
        return await asyncio.to_thread(self._edit, self._folder(project), changes, digest)

    def _edit(self, root: Path, changes: Sequence[Change], digest: str | None) -> types.ManifestEditOut:
        if digest is not None:
            _expect(read(root / MANIFEST), digest)
        edit = plan(root, changes)
        if digest is not None:
            _expect(edit.before, digest)
            write(edit)
        content = edit.before if digest is None else edit.after
        return _edited(edit.diff, parse(root, edit.before), changes, _digest(content))

    def _folder(self, project: str) -> Path:
        if project != self._name:
            raise unknown_project(project)
        return self._root


class DeployedManifest:
    """The manifest of the live deployment. An edit of its mounts activates a deployment."""

    def __init__(self, service: Deployer) -> None:
        self._service = service

    async def get(self, project: str) -> types.ManifestOut:
        live, deployment = await self._live(project)
        served = deployment.served(Path())
        return types.ManifestOut.from_project(served, digest=_digest_of(live), drawn=deployment.drawn)

    async def edit(
        self, project: str, changes: Sequence[Change], digest: str | None, by: str
    ) -> types.ManifestEditOut:
        """Return the lines of svc.toml that would have the effect of the changes.

        With the digest of the live deployment, activate one with them. Raises as `Deployer.deploy`.
        """
        live, deployment = await self._live(project)
        before = deployment.served(Path())
        try:
            if digest not in (None, _digest_of(live)):
                raise revision_conflict(project, live)
            after = await asyncio.to_thread(redrawn, before, changes)
            diff = await asyncio.to_thread(mounts_diff, before, after)
            if digest is not None and diff:
                drawn = deployment.redrawn(after, by, time.time_ns())
                live = await self._service.redeploy(drawn, live.revision)
        except RevisionConflict as conflict:
            raise RevisionConflict(
                conflict.message, "Check the diff, which is planned again, then save again."
            ) from conflict
        return await asyncio.to_thread(_edited, diff, before, changes, _digest_of(live))

    async def _live(self, project: str) -> tuple[Live, Deployment]:
        live = known(await self._service.history.live(project), project)
        return live, await self._service.history.get(project, live.deployment)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_of(live: Live) -> str:
    return _digest(f"{live.deployment} {live.revision}".encode())


def _edited(diff: str, before: Project, changes: Sequence[Change], digest: str) -> types.ManifestEditOut:
    return types.ManifestEditOut(diff=diff, digest=digest, inverse=list(inverse(before, changes)))


def _expect(content: bytes, digest: str) -> None:
    if _digest(content) != digest:
        raise ManifestChanged(f"{MANIFEST} has changed since the edit was planned", "Plan the edit again.")


def blueprint(manifests: EditableManifest | DeployedManifest) -> Routes:
    """Return the routes."""
    routes = Routes("manifest", __name__)

    @routes.get("/v1/projects/<project>/manifest", "viewer")
    async def show(project: str) -> types.ManifestOut:
        """Return the manifest; on a service, that of the live deployment. Requires the role viewer."""
        manifest = await manifests.get(project)
        if principal().has(project, "deployer"):
            return manifest
        return manifest.model_copy(update={"editable": False, "digest": None})

    @routes.post("/v1/projects/<project>/manifest/plan", "deployer")
    async def planned(project: str, data: types.ManifestPlanRequest) -> types.ManifestEditOut:
        """Return the change of svc.toml that edits make, without writing it. Requires the role deployer."""
        return await manifests.edit(project, data.changes, None, principal().name)

    @routes.post("/v1/projects/<project>/manifest/write", "deployer")
    async def written(project: str, data: types.ManifestWriteRequest) -> types.ManifestEditOut:
        """Write changes to svc.toml, or activate a deployment with them. Requires the role deployer.

        409 if the file or the live deployment has changed since the plan.
        """
        return await manifests.edit(project, data.changes, data.digest, principal().name)

    return routes
