"""A lane that only this test registers: the manifest accepts it, `svc dev` builds and serves it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.artifact import FolderArtifact
from engine.lane import BuildRequest, Lane, Tool
from engine.manifest import model as registry
from engine.manifest.load import load
from engine.manifest.model import LaneSpec
from engine.manifest.problems import ManifestError
from engine.manifest.schema import manifest_schema
from svc_tui import composition
from tests.engine.control.developing import Shop, develop


def entry(workdir: Path, root: Path) -> Path | None:
    return workdir / "page.txt"


class UpperLane:
    """Serves one text file in upper case."""

    spec = LaneSpec(name="upper", kind="image", default_entry=entry, tone="violet")

    async def tools(self, cache: Path) -> tuple[Tool, ...]:
        return ()

    async def install(self, cache: Path, report: Callable[[str], None]) -> None: ...

    def identity(self, cache: Path) -> str:
        return "upper 1"

    async def build(self, request: BuildRequest) -> FolderArtifact:
        assert request.resource.entry is not None
        folder = request.cache / "upper"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.html").write_text(request.resource.entry.read_text().upper())
        return FolderArtifact(folder)

    async def aclose(self) -> None: ...


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "svc.toml").write_text(
        '[project]\nname = "shop"\n[resource.web]\nlane = "upper"\npublic = true\nspa = true\n'
    )
    (tmp_path / "page.txt").write_text("hello")
    return tmp_path


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._registered, "upper", UpperLane.spec)
    lane: Lane = UpperLane()
    monkeypatch.setattr(composition, "lanes", lambda: {"upper": lane})


def test_manifest_rejects_unregistered_lane(project: Path) -> None:
    with pytest.raises(ManifestError, match='unknown lane "upper"'):
        load(project)


@pytest.mark.usefixtures("registered")
def test_manifest_validates_resource_by_lane_spec(project: Path) -> None:
    assert load(project).resources["web"].entry == project / "page.txt"
    assert "upper" in manifest_schema()["$defs"]["ResourceTable"]["properties"]["lane"]["enum"]
    with (project / "svc.toml").open("a") as manifest:
        manifest.write('[resource.api]\nlane = "go"\nentry = "main.go"\n')
    with pytest.raises(ManifestError, match="entry is for js and upper resources"):
        load(project)


@pytest.mark.usefixtures("registered")
def test_registered_lane_is_built_and_served(project: Path) -> None:
    async def test(shop: Shop) -> None:
        assert (await shop.public.get("/")).text == "HELLO"
        manifest = await shop.call("GET", "/manifest")
        assert [(each["lane"], each["tone"]) for each in manifest["resources"]] == [("upper", "violet")]
        assert (await shop.state())["resources"][0]["state"] == "ready"

    develop(project, test)
