import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.lane import BuildRequest
from engine.manifest.model import Resource
from engine.wasm.execution.runner import Guest, Runner

SOURCE = Path(__file__).with_name("guest.js")


@pytest.fixture(scope="session")
def artifact(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> ComponentArtifact:
    """The component of `guest.js`, built as for a deploy.

    The tests of the js lane build the same component, and share its machine code.
    """
    from lanes.js.lane import JsLane

    root = tmp_path_factory.mktemp("guest")
    entry = root / "api" / "index.js"
    entry.parent.mkdir()
    entry.write_text(SOURCE.read_text())

    async def build() -> ComponentArtifact:
        lane = JsLane()
        try:
            request = BuildRequest(Resource("api", "js", entry.parent, entry=entry), root, cache, "deploy")
            built = await lane.build(request)
        finally:
            await lane.aclose()
        assert isinstance(built, ComponentArtifact)
        return built

    return asyncio.run(build())


@pytest.fixture
def serve(cache: Path, artifact: ComponentArtifact) -> Callable[..., Any]:
    """Return `serve(body, **resource_fields)`: run `await body(guest, runner)` on a fresh runner."""

    def start(body: Callable[[Guest, Runner], Awaitable[Any]], **fields: Any) -> Any:
        async def main() -> Any:
            runner = Runner(cache, fields.pop("pool", None), queue=fields.pop("queue", 1024))
            try:
                resource = Resource("api", "js", Path("/"), **fields)
                guest = await runner.guest(
                    resource, artifact, {"SVC_PROJECT": "test"}, fast=True, report=lambda line: None
                )
                return await body(guest, runner)
            finally:
                await runner.aclose()

        return asyncio.run(main())

    return start
