"""Deploy builds are reproducible, whatever the folders of sources and cache."""

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from engine.deploy.package_store import pack
from engine.lane import BuildRequest
from engine.manifest.load import load
from svc_tui.composition import lanes
from tests.support.toolchains import use_rust

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.timeout(1800)]
SAMPLE = Path(__file__).resolve().parents[2] / "sample-apps" / "polyglot"
LEFT_OUT = shutil.ignore_patterns(".svc", "target", "go.work", "go.work.sum")


@pytest.fixture(autouse=True)
def rust(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_rust(monkeypatch, cache)
    monkeypatch.delenv("CARGO_PROFILE_RELEASE_OPT_LEVEL")  # As for users.


def package(name: str, place: Path, cache: Path) -> bytes:
    """Return the package of a resource of the sample, copied to a folder with its own cache."""
    shutil.copytree(SAMPLE, place / "project", ignore=LEFT_OUT)
    own = place / "cache"
    own.mkdir()
    (cache / "toolchains").mkdir(exist_ok=True)
    (own / "toolchains").symlink_to(cache / "toolchains")
    project = load(place / "project")
    resource = project.resources[name]

    async def main() -> bytes:
        parts = lanes()
        try:
            request = BuildRequest(resource, project.root, own, "deploy", lambda line: None)
            artifact = await parts[resource.lane].build(request)
            return pack(artifact).package.encode()
        finally:
            await asyncio.gather(*(lane.aclose() for lane in parts.values()))

    return asyncio.run(main())


@pytest.mark.parametrize("name", ["front", "js", "go", "rust"])
def test_equal_sources_build_equal_packages(name: str, tmp_path: Path, cache: Path) -> None:
    places = (tmp_path / "a", tmp_path / "another place ü" / "deeper")
    places[1].mkdir(parents=True)
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for command in (("init", "--quiet"), ("commit", "--quiet", "--allow-empty", "--message=one")):
        subprocess.run(["git", *author, *command], cwd=places[1], check=True)
    packages = [package(name, place, cache) for place in places]
    assert packages[0] == packages[1]
