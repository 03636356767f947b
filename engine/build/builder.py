"""Builder of a project's resources: by their lane, or from the build cache."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from engine.artifact import Artifact, ComponentArtifact
from engine.build.cache import BuildCache, PendingBuild
from engine.errors import SvcError
from engine.lane import BuildMode, BuildRequest, Lane
from engine.manifest.model import Resource


class LaneMissing(SvcError):
    """A resource names a lane that is not installed."""

    code = "lane-missing"


class Builder:
    """Builds the resources of a project in one mode."""

    def __init__(
        self, lanes: Mapping[str, Lane], cache: Path, mode: BuildMode, environ: Mapping[str, str]
    ) -> None:
        self._lanes = lanes
        self._cache = cache
        self._mode = mode
        self._known = BuildCache(cache, environ)

    def lane(self, resource: Resource) -> Lane:
        """Return a resource's lane. Raises `LaneMissing`."""
        lane = self._lanes.get(resource.lane)
        if lane is None:
            raise LaneMissing(
                f"the {resource.lane} lane is not part of this version of svc",
                f"Resource {resource.name} can use one of: {', '.join(self._lanes)}.",
            )
        return lane

    async def remembered(self, resource: Resource, root: Path) -> Artifact | None:
        """Return the artifact of an earlier build with equal inputs, or `None`. Raises `LaneMissing`."""
        lane = self.lane(resource)

        def find() -> Artifact | None:
            return self._known.find(resource, root, self._mode, lane.identity(self._cache))

        return await asyncio.to_thread(find)

    async def build(
        self,
        resource: Resource,
        root: Path,
        report: Callable[[str], None],
        *,
        remember: bool,
        evaluate: Callable[[ComponentArtifact], Awaitable[str | None]] | None = None,
    ) -> Artifact:
        """Build with the resource's lane, which may `evaluate` a dev artifact (see `BuildRequest`).

        Raises the errors of the lane, and `LaneMissing`.
        """
        lane = self.lane(resource)
        began_ns = time.time_ns()
        key = await asyncio.to_thread(self._known.key, resource, root, self._mode) if remember else None
        artifact = await lane.build(
            BuildRequest(resource, root, self._cache, self._mode, report, evaluate=evaluate)
        )
        if key is not None:

            def store() -> None:
                # The lane may have installed its tools meanwhile, so its identity is taken after the build.
                identity = lane.identity(self._cache)
                self._known.store(resource, root, self._mode, identity, PendingBuild(key, began_ns), artifact)

            await asyncio.to_thread(store)
        return artifact

    async def snapshot(
        self, resource: Resource, root: Path, report: Callable[[str], None], loader: ComponentArtifact
    ) -> ComponentArtifact:
        """Return a dev artifact with its snapshot. Raises the errors of the lane."""
        lane = self.lane(resource)
        artifact = await lane.build(
            BuildRequest(resource, root, self._cache, self._mode, report, loader=loader)
        )
        assert isinstance(artifact, ComponentArtifact)
        return replace(loader, snapshot=artifact)
