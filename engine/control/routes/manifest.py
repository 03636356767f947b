"""The manifest over the control API: what it says, and changes of its mounts. Owns these routes.

A viewer reads it. A deployer changes it, where the Project is in development: what is live on a service is
changed by a deploy.
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
from engine.control.schemas.manifest import (
    ManifestEditOut,
    ManifestOut,
    ManifestPlanRequest,
    ManifestWriteRequest,
    MountOp,
    op_from_change,
)
from engine.deploy.history import History
from engine.errors import SvcError
from engine.manifest import MANIFEST
from engine.manifest.edit import Edit, ManifestChanged, plan, write
from engine.manifest.load import NoProject, parse, read
from engine.manifest.model import Project
from engine.manifest.problems import ManifestError, Problem
from engine.manifest.undo import inverse


class Manifests(Protocol):
    """Where the manifests of Projects are."""

    async def get(self, project: str) -> ManifestOut:
        """Return what a Project's manifest says. Raises `NotFound`."""
        ...

    def root(self, project: str) -> Path:
        """Return the folder of the svc.toml to edit. Raises `SvcError` where there is none."""
        ...


class EditableManifest:
    """The manifest in the folder of a Project that is being worked on."""

    def __init__(self, project: Project) -> None:
        """`project` is what the manifest said last without a mistake."""
        self._good = project
        self._name = project.name
        self._root = project.root

    async def get(self, project: str) -> ManifestOut:
        """Return what the file says now, or what it said last, and what is wrong with it."""
        return await asyncio.to_thread(self._shown, self.root(project))

    def _shown(self, root: Path) -> ManifestOut:
        content = b""
        try:
            content = read(root / MANIFEST)
            self._good = parse(root, content)
        except NoProject as missing:
            problem = Problem(0, 0, "", missing.message, f"Put {MANIFEST} back.")
            error = ManifestError(root / MANIFEST, [problem])
        except ManifestError as broken:
            error = broken
        else:
            return ManifestOut.from_project(self._good, digest=_digest(content))
        return ManifestOut.from_project(self._good, digest=_digest(content), error=error)

    def root(self, project: str) -> Path:
        """Return the Project's folder."""
        if project != self._name:
            raise unknown_project(project)
        return self._root


class DeployedManifest:
    """What was deployed."""

    def __init__(self, history: History) -> None:
        self._history = history

    async def get(self, project: str) -> ManifestOut:
        """Return what the live deployment's manifest said."""
        live = await self._history.live(project)
        if live is None:
            raise unknown_project(project)
        deployment = await self._history.get(project, live.deployment)
        return ManifestOut.from_project(deployment.served(Path()))

    def root(self, project: str) -> Path:
        """Refuse: what is live is changed by a deploy."""
        raise SvcError(
            f"the manifest of {project} can not be edited here",
            f"Edit {MANIFEST} in the Project's folder, and run `svc deploy`.",
            code="read-only",
        )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def blueprint(manifests: Manifests) -> Blueprint:
    """Return the routes."""
    routes = Blueprint("manifest", __name__)

    @routes.get("/v1/projects/<project>/manifest")
    @validate_response(ManifestOut)
    async def shown(project: str) -> ManifestOut:
        """Say what the manifest says; on a service, that of the live deployment. Needs the role viewer."""
        require(project, "viewer")
        return await manifests.get(project)

    @routes.post("/v1/projects/<project>/manifest/plan")
    @validate_request(ManifestPlanRequest)
    @validate_response(ManifestEditOut)
    async def planned(project: str, data: ManifestPlanRequest) -> ManifestEditOut:
        """Say how changes would be written into svc.toml; writes nothing. Needs the role deployer."""
        require(project, "deployer")
        return await asyncio.to_thread(_plan, manifests.root(project), data.changes)

    @routes.post("/v1/projects/<project>/manifest/write")
    @validate_request(ManifestWriteRequest)
    @validate_response(ManifestEditOut)
    async def written(project: str, data: ManifestWriteRequest) -> ManifestEditOut:
        """Write changes into svc.toml, which applies them; 409 if it is not what it was. Needs deployer."""
        require(project, "deployer")
        return await asyncio.to_thread(_write, manifests.root(project), data.changes, data.digest)

    return routes


def _plan(root: Path, changes: Sequence[MountOp]) -> ManifestEditOut:
    edit, edited = _edit(root, changes)
    return edited.model_copy(update={"digest": _digest(edit.before)})


def _write(root: Path, changes: Sequence[MountOp], digest: str) -> ManifestEditOut:
    _expect(read(root / MANIFEST), digest)
    edit, edited = _edit(root, changes)
    _expect(edit.before, digest)
    write(edit)
    return edited


def _expect(content: bytes, digest: str) -> None:
    if _digest(content) != digest:
        raise ManifestChanged(f"{MANIFEST} is not what it was when this was planned", "Look at it once more.")


def _edit(root: Path, changes: Sequence[MountOp]) -> tuple[Edit, ManifestEditOut]:
    values = [change.to_change() for change in changes]
    edit = plan(root, values)
    undone = inverse(parse(root, edit.before), values)
    return edit, ManifestEditOut(
        diff=edit.diff, digest=_digest(edit.after), inverse=[op_from_change(change) for change in undone]
    )
