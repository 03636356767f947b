"""A deploy's specification: a manifest, and the package in the bucket for each of its resources."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from engine.bucket.protocols import BadName, Digest, as_digest
from engine.errors import SvcError
from engine.manifest.load import parse
from engine.manifest.model import Project

NO_PROJECT_DIR = Path("/dev/null/project")
"""Folder of a project whose files are on the deployer's machine; it never exists."""


class InvalidDeploySpec(SvcError):
    """The manifest and packages of a deploy are inconsistent."""

    code = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploySpec:
    """One deploy. `revision` is the live revision that the client read (`None`: nothing was live).

    `tables` are migrations by file name. `allow_new_capability` permits components to import what the live
    ones do not, and new domains. `discard_mounts` permits to undo mounts that were drawn in the Console.
    `may` returns whether the deployer has at least a role in a project: new domains need an owner, and other
    projects are named to their viewers only.
    """

    project: Project
    packages: Mapping[str, Digest]
    by: str
    revision: int | None
    commit: str = ""
    message: str = ""
    allow_new_capability: bool = False
    discard_mounts: bool = False
    tables: Mapping[str, str] = field(default_factory=dict)
    may: Callable[[str, Literal["viewer", "owner"]], bool] = lambda project, role: False


def read_project(manifest: str, name: str) -> Project:
    """Return the project of a manifest's text.

    Raises `ManifestError` with every mistake, and `InvalidDeploySpec` for another project's manifest.
    """
    project = parse(NO_PROJECT_DIR, manifest.encode())
    if project.name != name:
        raise InvalidDeploySpec(f"the manifest is for the project {project.name}, not {name}")
    return project


def read_packages(project: Project, packages: Mapping[str, str]) -> dict[str, Digest]:
    """Return the package of each resource.

    Raises `InvalidDeploySpec` for missing, unknown or invalid packages.
    """
    lacking = sorted(project.resources.keys() - packages.keys())
    unknown = sorted(packages.keys() - project.resources.keys())
    if lacking or unknown:
        reason = (
            f"no package for {', '.join(lacking)}" if lacking else f"no resource named {', '.join(unknown)}"
        )
        raise InvalidDeploySpec(f"the deploy of {project.name} has {reason}")
    try:
        return {name: as_digest(packages[name]) for name in project.resources}
    except BadName as error:
        raise InvalidDeploySpec(f"invalid package digest: {error.message}") from error
