"""Sources of a js resource on disk that the lane builds and a runner serves."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from engine.artifact import Artifact, ComponentArtifact
from engine.deploy.serving import Doors, VersionFactory
from engine.lane import BuildMode, BuildRequest
from engine.manifest.model import Resource
from engine.wasm.execution.runner import Runner
from lanes.js import default_entry
from lanes.js.lane import JsLane
from tests.lanes.workdir import Workdir, answers
from tests.support.guest_client import Answer


def no_doors(project: str) -> Doors:
    raise AssertionError(f"{project} opens Doors")


class Sources(Workdir):
    """A js resource on disk; `build` makes it, `ask` runs it."""

    @property
    def resource(self) -> Resource:
        return Resource("api", "js", self.workdir, entry=default_entry(self.workdir, self.root))

    def request(self, mode: BuildMode) -> BuildRequest:
        return BuildRequest(self.resource, self.root, self.cache, mode, self.reported.append)

    def with_lane(self, body: Callable[[JsLane], Awaitable[Any]], **options: Any) -> Any:
        async def main() -> Any:
            lane = JsLane(**options)
            try:
                return await body(lane)
            finally:
                await lane.aclose()

        return asyncio.run(main())

    def build(self, mode: BuildMode = "dev", *, evaluated: bool = False) -> ComponentArtifact:
        """Return the artifact; if `evaluated`, the engine evaluates a dev build as in `svc dev`."""

        async def build(lane: JsLane) -> Artifact:
            if not evaluated:
                return await lane.build(self.request(mode))
            runner = Runner(self.cache)
            versions = VersionFactory(runner, mode, self.reported.append, no_doors)
            try:
                evaluate = partial(versions.evaluate, "test", self.resource)
                return await lane.build(replace(self.request(mode), evaluate=evaluate))
            finally:
                await runner.aclose()

        artifact = self.with_lane(build)
        assert isinstance(artifact, ComponentArtifact)
        return artifact


def ask(sources: Sources, artifact: ComponentArtifact, *targets: str, **fields: Any) -> list[Answer]:
    return answers(sources.cache, sources.resource, artifact, *targets, method="GET", **fields)


MODES: list[BuildMode] = ["dev", "deploy"]
