"""The folder of a resource: a test writes its sources and a lane builds it."""

import asyncio
from pathlib import Path
from typing import Any

from engine.artifact import ComponentArtifact
from engine.manifest.model import Resource
from engine.wasm.execution.runner import Runner
from tests.support.guest_client import Answer, Client


class Workdir:
    """The folder `api` of a project; `reported` has the messages of the lane."""

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


def compiles_fast(artifact: ComponentArtifact) -> bool:
    """Return whether to compile an artifact in a third of the time, to slower code.

    All dev builds of the js lane share a component, also those of servers, so it is compiled as by `svc dev`.
    """
    return artifact.script is None


def answers(
    cache: Path,
    resource: Resource,
    artifact: ComponentArtifact,
    *targets: str,
    method: str,
    environment: dict[str, str] | None = None,
    **fields: Any,
) -> list[Answer]:
    """Send a request for each target, with `fields` of the Client."""

    async def main() -> list[Answer]:
        runner = Runner(cache)
        try:
            guest = await runner.guest(
                resource, artifact, environment or {}, fast=compiles_fast(artifact), report=lambda line: None
            )
            return [await Client(**fields).call(guest, target, method) for target in targets]
        finally:
            await runner.aclose()

    return asyncio.run(main())
