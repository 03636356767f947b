"""Publications, and the factory that turns their artifacts into servable versions."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace

from engine.artifact import Artifact, ComponentArtifact
from engine.deploy.doors import Doors
from engine.errors import SvcError
from engine.gateway.routes import BuiltVersion
from engine.gateway.static.responder import StaticResponder
from engine.lane import BuildMode, ignore_progress
from engine.manifest.model import Project, Resource
from engine.quota import NO_QUOTA, Quota
from engine.wasm.compile.component_file import error_context
from engine.wasm.execution.runner import NO_DOORS, Guest, Runner
from engine.wasm.outbound.door_calls import DoorBinding

BuildResult = Artifact | SvcError | None
"""The artifact of a resource, or its build error; `None` during the first build."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A project to serve, with the outcome of each resource's build.

    `deployment` is the guests' `SVC_DEPLOYMENT`. `secrets` are the values of the secrets that resources
    declare, by name. `quota` is that of the whole service, not of a process. Requests wait
    for the next part of `outdated` resources, whose files were saved. `domains` are the custom domains that
    reach this service; `None` in development, where all are served without redirects.
    """

    project: Project
    parts: Mapping[str, BuildResult]
    deployment: str = "dev"
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    quota: Quota = NO_QUOTA
    _: KW_ONLY
    outdated: frozenset[str] = frozenset()
    domains: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class VersionFactory:
    """Creates versions in this process. `doors_of` returns a project's open Doors."""

    runner: Runner
    mode: BuildMode
    report: Callable[[str], None]
    doors_of: Callable[[str], Doors]

    async def create(self, publication: Publication, resource: Resource, artifact: Artifact) -> BuiltVersion:
        """Return a version that serves the artifact. Raises `SvcError` if a component is rejected."""
        if not isinstance(artifact, ComponentArtifact):
            return await asyncio.to_thread(StaticResponder, artifact, resource)
        doors = self.doors_of(publication.project.name)
        secrets = publication.secrets
        environment = {name: secrets[name] for name in resource.secrets if name in secrets} | {
            "SVC_PROJECT": publication.project.name,
            "SVC_RESOURCE": resource.name,
            "SVC_DEPLOYMENT": publication.deployment,
            "SVC_MEMORY_LIMIT_MB": str(resource.memory_limit_mb),
            **doors.environment,
        }
        return await self._guest(resource, artifact, environment, doors.open)

    def enforce(self, project: str, quota: Quota) -> None:
        """Enforce a quota from the next request on."""
        active = self.runner.quotas.active.get(project)
        if quota.storage_mb != (active.quota.storage_mb if active is not None else None):
            self.doors_of(project).limit_storage(quota.storage_mb)
        self.runner.quotas.set(project, quota)

    def release(self, artifact: Artifact) -> None:
        """Unload the snapshot of an artifact that is no longer served: the next save makes another one."""
        if isinstance(artifact, ComponentArtifact) and artifact.snapshot is not None:
            self.runner.unload(artifact.snapshot.digest)

    async def evaluate(self, project: str, resource: Resource, artifact: ComponentArtifact) -> str | None:
        """Run an artifact once without network and Doors; return why that failed with its output, or `None`.

        Raises `SvcError` if the component is rejected.
        """
        offline = replace(resource, egress=())
        guest = await self._guest(offline, artifact, {"SVC_PROJECT": project}, NO_DOORS)
        return await guest.evaluate()

    async def _guest(
        self,
        resource: Resource,
        artifact: ComponentArtifact,
        environment: dict[str, str],
        doors: Mapping[str, DoorBinding],
    ) -> Guest:
        # All saves share the compiled dev loader, so slower compilation to better code pays off.
        fast = self.mode == "dev" and artifact.script is None
        # A snapshot is made in the background.
        report = self.report if artifact.snapshot is None else ignore_progress
        with error_context(resource.name):
            return await self.runner.guest(
                resource, artifact.snapshot or artifact, environment, fast=fast, report=report, doors=doors
            )
