import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.lane import BuildMode, BuildRequest
from engine.manifest.entry import js_entry
from engine.manifest.model import Resource
from engine.wasm.runner import Runner
from lanes.js.lane import JsLane
from tests.engine.wasm.conftest import Answer, Client


class Sources:
    """A js Resource on disk; `build` makes it, `ask` runs it."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self.cache = cache
        self.workdir = root / "api"
        self.reported: list[str] = []

    def write(self, name: str, text: str) -> Path:
        path = self.workdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    @property
    def resource(self) -> Resource:
        return Resource("api", "js", self.workdir, entry=js_entry(self.workdir, self.root))

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
    async def main() -> list[Answer]:
        runner = Runner(sources.cache)
        try:
            guest = await runner.guest(sources.resource, artifact, {}, fast=True, report=lambda line: None)
            return [await Client(**fields).call(guest, target) for target in targets]
        finally:
            await runner.aclose()

    return asyncio.run(main())


@pytest.fixture
def sources(tmp_path: Path, cache: Path) -> Sources:
    return Sources((tmp_path / "project ü").resolve(), cache)
