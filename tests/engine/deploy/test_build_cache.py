"""The build cache: unchanged resources are not rebuilt, changed ones are."""

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from engine.artifact import Artifact, ComponentArtifact, StaticBundle
from engine.build.builder import Builder
from engine.files.sealed import content_digest
from engine.lane import GENERATED_HEADER, BuildRequest
from engine.manifest.model import Resource
from lanes.static.lane import StaticLane
from tests.lanes.components import component

BUILD = "mkdir -p dist && cat src/* > dist/page.txt && echo >> ../runs"


@dataclass
class Prepared(StaticLane):
    """The static lane with a configurable identity, or a lane that builds `prebuilt` from `read`."""

    stated: str = "one"
    read: frozenset[Path] = frozenset()
    prebuilt: Path | None = None
    builds: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def identity(self, cache: Path) -> str:
        return self.stated

    async def build(self, request: BuildRequest) -> Artifact:  # type: ignore[override]
        self.builds += 1
        if self.prebuilt is None:
            return await super().build(request)
        return ComponentArtifact(
            self.prebuilt, content_digest(self.prebuilt), "script ü", b'{"version":3}', self.read
        )


@dataclass
class Project:
    """A project with one resource whose build command leaves a mark at each run."""

    root: Path
    lane: Prepared = field(default_factory=Prepared)
    environ: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.resource = Resource(
            "web", "static", self.root / "web", build=BUILD, output=self.root / "web" / "dist"
        )
        self.write("web/src/a", "one")

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def cache(self) -> Path:
        return self.root.parent / "cache"

    def go(self) -> tuple[Artifact, bool]:
        """Build as `svc build` does; return the artifact and whether it was rebuilt."""

        async def main() -> tuple[Artifact, bool]:
            builder = Builder({"static": self.lane}, self.cache, "deploy", self.environ)
            known = await builder.remembered(self.resource, self.root)
            if known is not None:
                return known, False
            silent = list[str]().append
            return await builder.build(self.resource, self.root, silent, remember=True), True

        return asyncio.run(main())

    def rebuilt(self) -> bool:
        return self.go()[1]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = tmp_path / "project ü"
    root.mkdir()
    return Project(root)


def test_unchanged_resource_is_not_rebuilt(project: Project) -> None:
    first, rebuilt = project.go()
    assert rebuilt and isinstance(first, StaticBundle)
    assert project.go() == (first, False)
    assert (project.root / "runs").read_text() == "\n"


def alter(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(bytes(path.stat().st_size))


CHANGES = {
    "a file": lambda p: p.write("web/src/a", "two"),
    "a new file": lambda p: p.write("web/src/b", ""),
    "a name": lambda p: (p.root / "web/src/a").rename(p.root / "web/src/z"),
    "an executable bit": lambda p: (p.root / "web/src/a").chmod(0o755),
    "the command": lambda p: setattr(p, "resource", replace(p.resource, build=BUILD + " # again")),
    "a tool": lambda p: setattr(p.lane, "stated", "two"),
    "a variable": lambda p: setattr(p, "environ", {"API": "https://example.com"}),
    "a lost image": lambda p: shutil.rmtree(p.cache / "images"),
    "a lost blob": lambda p: next(path for path in (p.cache / "images").glob("*/blobs/*")).unlink(),
    "an altered blob": lambda p: alter(next((p.cache / "images").glob("*/blobs/*"))),
    "a lost cache": lambda p: shutil.rmtree(p.cache),
    "a broken note": lambda p: next((p.cache / "builds").rglob("*.json")).write_text("{"),
    "a note of another kind": lambda p: next((p.cache / "builds").rglob("*.json")).write_text("[]"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_resource_is_rebuilt(project: Project, change: str) -> None:
    assert project.rebuilt()
    CHANGES[change](project)
    assert project.rebuilt()
    assert not project.rebuilt()


NO_CHANGES = {
    "what git ignores": lambda p: p.write("web/secret.log", "x"),
    "a package": lambda p: p.write("web/node_modules/a/index.js", "x"),
    "an editor's file": lambda p: p.write("web/src/.a.swp", "x"),
    "its own output": lambda p: p.write("web/dist/other.txt", "x"),
    "another folder": lambda p: p.write("api/index.js", "x"),
    "what svc left there": lambda p: p.write("web/src/go.work", f"{GENERATED_HEADER}: ..."),
    "the manifest": lambda p: p.write("svc.toml", "x"),
    "a terminal's variable": lambda p: setattr(p, "environ", {"TERM": "dumb", "SHLVL": "3"}),
    "a limit": lambda p: setattr(p, "resource", replace(p.resource, run_limit_secs=3)),
    "a link to nowhere": lambda p: (p.root / "web/src/gone").symlink_to("nowhere"),
    "a link out of the project": lambda p: (p.root / "web/src/out").symlink_to("/"),
    "a link in a circle": lambda p: (p.root / "web/src/round").symlink_to(p.root / "web"),
}


@pytest.mark.parametrize("change", NO_CHANGES)
def test_change_of_ignored_file_does_not_rebuild(project: Project, change: str) -> None:
    project.write(".gitignore", "*.log\n")
    assert project.rebuilt()
    NO_CHANGES[change](project)
    assert not project.rebuilt()


def test_reverted_change_uses_cached_build(project: Project) -> None:
    first, _ = project.go()
    project.write("web/src/a", "two")
    assert project.rebuilt()
    project.write("web/src/a", "one")
    assert project.go() == (first, False)


def test_input_changed_during_build_is_not_cached(project: Project) -> None:
    project.resource = replace(project.resource, build=BUILD + "; echo more >> src/a")
    assert project.rebuilt()
    assert project.rebuilt()


def test_file_created_by_build_rebuilds_once(project: Project) -> None:
    project.resource = replace(project.resource, build=BUILD + "; echo made > lock")
    assert [project.rebuilt() for _ in range(3)] == [True, True, False]


def test_inputs_outside_workdir_are_tracked(project: Project) -> None:
    shared = project.write("shared.js", "one")
    project.lane.prebuilt = project.write("made.wasm", "")
    project.lane.prebuilt.write_bytes(component())
    project.lane.read = frozenset({shared})
    first, _ = project.go()
    assert project.go() == (first, False)
    shared.write_text("two")
    assert project.rebuilt()
    assert not project.rebuilt()
    shared.unlink()
    assert project.lane.builds == 2
    project.lane.read = frozenset()
    assert project.rebuilt()


def test_missing_component_is_rebuilt(project: Project) -> None:
    project.lane.prebuilt = project.write("made.wasm", "x")
    assert project.rebuilt()
    for damaged in ("other", "y"):
        project.lane.prebuilt.write_text(damaged)
        assert project.rebuilt()


def test_static_resource_without_command_tracks_every_served_file(project: Project) -> None:
    project.write(".gitignore", "*.log\n")
    project.resource = Resource("web", "static", project.root, output=project.root / "web")
    assert [project.rebuilt(), project.rebuilt()] == [True, False]
    project.write("web/node_modules/a.log", "served all the same")
    assert [project.rebuilt(), project.rebuilt()] == [True, False]


def test_inputs_above_limit_are_never_cached(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.build.builder.MAX_BYTES", 2)
    assert [project.rebuilt(), project.rebuilt()] == [True, True]


def test_only_latest_cache_entries_are_retained(project: Project) -> None:
    for number in range(12):
        project.write("web/src/a", str(number))
        project.go()
    assert len(list((project.cache / "builds").rglob("*.json"))) == 8


def test_unwritable_cache_is_ignored(project: Project) -> None:
    project.cache.mkdir()
    (project.cache / "builds").write_text("a file in the way")
    assert [project.rebuilt(), project.rebuilt()] == [True, True]
