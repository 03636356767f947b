import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.lane import BuildMode, BuildRequest
from engine.manifest.model import Resource
from lanes.js.entry import default_entry
from lanes.js.lane import JsLane
from tests.engine.wasm.conftest import Answer
from tests.lanes.workdir import Workdir, answers


class Sources(Workdir):
    """A js Resource on disk; `build` makes it, `ask` runs it."""

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

    def build(self, mode: BuildMode = "dev") -> ComponentArtifact:
        artifact: ComponentArtifact = self.with_lane(lambda lane: lane.build(self.request(mode)))
        return artifact


def ask(sources: Sources, artifact: ComponentArtifact, *targets: str, **fields: Any) -> list[Answer]:
    return answers(sources.cache, sources.resource, artifact, *targets, method="GET", **fields)


@pytest.fixture
def sources(tmp_path: Path, cache: Path) -> Sources:
    return Sources((tmp_path / "project ü").resolve(), cache)
