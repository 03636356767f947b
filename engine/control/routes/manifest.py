"""Routes to read the manifest and edit its mounts.

A viewer may read it. A deployer may edit it in development; a service's manifest changes by a deploy.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from quart import Blueprint
from quart_schema import validate_request, validate_response

from engine.control.app import require
from engine.control.projects import unknown_project
from engine.control.schemas import manifest as types
from engine.deploy.history import DeploymentHistory
from engine.errors import SvcError
from engine.manifest import MANIFEST
from engine.manifest.edit import ManifestChanged, ManifestEdit, inverse, plan, write
from engine.manifest.load import NoProject, parse, read
from engine.manifest.model import Project
from engine.manifest.problems import ManifestError, ManifestProblem


class Manifests(Protocol):
    """Access to the manifests of projects."""

    async def get(self, project: str) -> types.ManifestOut:
        """Return a project's manifest. Raises `NotFound`."""

    def root(self, project: str) -> Path:
        """Return the folder of an editable svc.toml. Raises `SvcError` if it is read-only."""


class EditableManifest:
    """The manifest in a project folder in development."""

    def __init__(self, project: Project) -> None:
        """`project` is the last valid state of the manifest."""
        self._good = project
        self._name = project.name
        self._root = project.root

    async def get(self, project: str) -> types.ManifestOut:
        """Return the manifest; if the file has errors, its last valid state and the first error."""
        return await asyncio.to_thread(self._read, self.root(project))

    def _read(self, root: Path) -> types.ManifestOut:
        content = b""
        try:
            content = read(root / MANIFEST)
            self._good = parse(root, content)
        except NoProject as missing:
            problem = ManifestProblem(0, 0, "", missing.message, missing.hint)
            error = ManifestError(root / MANIFEST, [problem])
        except ManifestError as broken:
            error = broken
        else:
            return types.ManifestOut.from_project(self._good, digest=_digest(content))
        return types.ManifestOut.from_project(self._good, digest=_digest(content), error=error)

    def root(self, project: str) -> Path:
        """Return the project's folder. Raises `NotFound` for another project."""
        if project != self._name:
            raise unknown_project(project)
        return self._root


class DeployedManifest:
    """The manifest of the live deployment."""

    def __init__(self, history: DeploymentHistory) -> None:
        self._history = history

    async def get(self, project: str) -> types.ManifestOut:
        """Return the live deployment's manifest. Raises `NotFound`."""
        live = await self._history.live(project)
        if live is None:
            raise unknown_project(project)
        deployment = await self._history.get(project, live.deployment)
        return types.ManifestOut.from_project(deployment.served(Path()))

    def root(self, project: str) -> Path:
        """Raise `SvcError`, because a deployed manifest is read-only."""
        raise SvcError(
            f"the deployed manifest of {project} is read-only",
            f"Edit {MANIFEST} in the project's folder and run `svc deploy`.",
            code="read-only",
        )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def blueprint(manifests: Manifests) -> Blueprint:
    """Return the routes."""
    routes = Blueprint("manifest", __name__)

    @routes.get("/v1/projects/<project>/manifest")
    @validate_response(types.ManifestOut)
    async def show(project: str) -> types.ManifestOut:
        """Return the manifest; on a service, that of the live deployment. Requires the role viewer."""
        require(project, "viewer")
        return await manifests.get(project)

    @routes.post("/v1/projects/<project>/manifest/plan")
    @validate_request(types.ManifestPlanRequest)
    @validate_response(types.ManifestEditOut)
    async def planned(project: str, data: types.ManifestPlanRequest) -> types.ManifestEditOut:
        """Return how changes would be written to svc.toml, without writing. Requires the role deployer."""
        require(project, "deployer")
        return await asyncio.to_thread(_plan, manifests.root(project), data.changes)

    @routes.post("/v1/projects/<project>/manifest/write")
    @validate_request(types.ManifestWriteRequest)
    @validate_response(types.ManifestEditOut)
    async def written(project: str, data: types.ManifestWriteRequest) -> types.ManifestEditOut:
        """Write changes to svc.toml; 409 if the file has changed since. Requires the role deployer."""
        require(project, "deployer")
        return await asyncio.to_thread(_write, manifests.root(project), data.changes, data.digest)

    return routes


def _plan(root: Path, changes: Sequence[types.ManifestOp]) -> types.ManifestEditOut:
    edit, edited = _edit(root, changes)
    return edited.model_copy(update={"digest": _digest(edit.before)})


def _write(root: Path, changes: Sequence[types.ManifestOp], digest: str) -> types.ManifestEditOut:
    _expect(read(root / MANIFEST), digest)
    edit, edited = _edit(root, changes)
    _expect(edit.before, digest)
    write(edit)
    return edited


def _expect(content: bytes, digest: str) -> None:
    if _digest(content) != digest:
        raise ManifestChanged(f"{MANIFEST} has changed since the edit was planned", "Plan the edit again.")


def _edit(root: Path, changes: Sequence[types.ManifestOp]) -> tuple[ManifestEdit, types.ManifestEditOut]:
    values = [change.to_change() for change in changes]
    edit = plan(root, values)
    undone = inverse(parse(root, edit.before), values)
    return edit, types.ManifestEditOut(
        diff=edit.diff,
        digest=_digest(edit.after),
        inverse=[types.op_from_change(change) for change in undone],
    )
