"""Makes what serves a Resource out of what its lane built."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from engine.artifact import Artifact, ComponentArtifact
from engine.deploy.doors import Doors
from engine.errors import SvcError
from engine.gateway.routes import Version
from engine.gateway.static.responder import StaticResponder
from engine.lane import BuildMode
from engine.manifest.model import Project, Resource
from engine.wasm.compile.check import error_context
from engine.wasm.execution.runner import Runner


@dataclass(frozen=True, slots=True)
class Publication:
    """A Project as it is to be served: for each Resource what it was built to, or why it was not.

    `None` stands for a Resource that is being built for the first time. `deployment` is what guests see in
    `SVC_DEPLOYMENT`; `secrets` are the values of what Resources name as theirs.
    """

    project: Project
    parts: Mapping[str, Artifact | SvcError | None]
    deployment: str = "dev"
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Versions:
    """Makes Versions in this process. `report` takes progress; `doors_of` gives a Project's open Doors."""

    runner: Runner
    mode: BuildMode
    report: Callable[[str], None]
    doors_of: Callable[[str], Doors]

    async def make(self, publication: Publication, resource: Resource, artifact: Artifact) -> Version:
        """Return what serves the artifact; raises `SvcError` for a component that may not run."""
        if not isinstance(artifact, ComponentArtifact):
            return StaticResponder(artifact, spa=resource.spa)
        doors = self.doors_of(publication.project.name)
        given = publication.secrets
        environment = {name: given[name] for name in resource.secrets if name in given} | {
            "SVC_PROJECT": publication.project.name,
            "SVC_RESOURCE": resource.name,
            "SVC_DEPLOYMENT": publication.deployment,
            **doors.environment,
        }
        # The dev loader is compiled once for all saves, so it may take the time for the best code.
        fast = self.mode == "dev" and artifact.script is None
        with error_context(resource.name):
            return await self.runner.guest(
                resource, artifact, environment, fast=fast, report=self.report, doors=doors.open
            )
