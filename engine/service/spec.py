"""What a client asks to have live: a manifest, and for each of its Resources the package in the bucket.

Owns the reading of what a client sent. The rules of the manifest are the manifest's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.bucket.errors import BadName
from engine.bucket.protocols import Digest, as_digest
from engine.errors import SvcError
from engine.manifest.load import parse
from engine.manifest.model import Project

NO_PROJECT_DIR = Path("/dev/null/project")
"""The folder of a Project whose files are with its developer: nothing can be there."""


class InvalidDeploySpec(SvcError):
    """What is to be deployed does not fit together."""

    code = "invalid"


@dataclass(frozen=True, slots=True)
class DeploySpec:
    """One deploy. `revision` is that of what was live when the client looked (`None`: nothing).

    `tables` are the Project's migrations by file name; `allow` lets components import what those that are
    live do not.
    """

    project: Project
    packages: Mapping[str, Digest]
    by: str
    revision: int | None
    commit: str = ""
    message: str = ""
    allow_new_capability: bool = False
    tables: Mapping[str, str] = field(default_factory=dict)


def read_project(manifest: str, name: str) -> Project:
    """Return the Project of a manifest's text; its paths lead nowhere.

    Raises `ManifestError` with every mistake, and `BadOrder` when it is another Project's.
    """
    project = parse(NO_PROJECT_DIR, manifest.encode())
    if project.name != name:
        raise InvalidDeploySpec(f"the manifest is of the Project {project.name}, not of {name}")
    return project


def read_packages(project: Project, packages: Mapping[str, str]) -> dict[str, Digest]:
    """Return the package of each Resource. Raises `BadOrder` for one too few or too many, or no name."""
    lacking = sorted(project.resources.keys() - packages.keys())
    unknown = sorted(packages.keys() - project.resources.keys())
    if lacking or unknown:
        what = (
            f"no package for {', '.join(lacking)}" if lacking else f"no Resource named {', '.join(unknown)}"
        )
        raise InvalidDeploySpec(f"the deploy of {project.name} has {what}")
    try:
        return {name: as_digest(packages[name]) for name in project.resources}
    except BadName as error:
        raise InvalidDeploySpec(f"a package's name is no sha256: {error.message}") from error
