import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import Artifact, ComponentArtifact
from engine.deploy.doors import Doors
from engine.deploy.versions import VersionFactory
from engine.lane import BuildMode, BuildRequest
from engine.manifest.model import Resource
from engine.wasm.execution.runner import Runner
from lanes.js.entry import default_entry
from lanes.js.lane import JsLane
from tests.engine.wasm.conftest import Answer
from tests.lanes.workdir import Workdir, answers


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


@pytest.fixture
def sources(tmp_path: Path, cache: Path) -> Sources:
    return Sources((tmp_path / "project ü").resolve(), cache)


MODES: list[BuildMode] = ["dev", "deploy"]
PROGRAMS = ("odd", "guest_library", "tables", "web", "brotli", "crypto", "memory")
"""Files of programs in this folder, which `Programs` builds together."""
INDEX = """\
const programs = {{ {names} }};
export default {{
  fetch: (request, env, context) => programs[env.PROGRAM].fetch(request, env, context),
}};
"""


class Programs(Sources):
    """Builds of `PROGRAMS`. The variable `PROGRAM` names the program that answers.

    The deploy build has all programs, so that their component is compiled once for all tests. A dev build has
    one, because each request evaluates it.
    """

    def __init__(self, root: Path, cache: Path) -> None:
        super().__init__(root, cache)
        self._artifacts: dict[str, ComponentArtifact] = {}

    def artifact(self, program: str, mode: BuildMode) -> ComponentArtifact:
        names = PROGRAMS if mode == "deploy" else (program,)
        key = " ".join(names)
        if key not in self._artifacts:
            sources = self if mode == "deploy" else Sources(self.root / program, self.cache)
            for name in names:
                sources.write(f"{name}.js", Path(__file__).with_name(f"{name}.js").read_text())
            imports = (f"import {name} from './{name}.js'; " for name in names)
            sources.write("index.js", "".join(imports) + INDEX.format(names=", ".join(names)))
            self._artifacts[key] = sources.build(mode)
        return self._artifacts[key]

    def answers(self, program: str, mode: BuildMode, targets: Iterable[str]) -> dict[str, Answer]:
        """Return the response of a program to each target."""
        targets = list(targets)
        replies = ask(self, self.artifact(program, mode), *targets, environment={"PROGRAM": program})
        return dict(zip(targets, replies, strict=True))


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Programs:
    return Programs(tmp_path_factory.mktemp("programs ü").resolve(), cache)
