"""The frameworks of `svc new`: a new project of each, with its own build, in `svc dev`."""

from pathlib import Path

import pytest

from bench.compat.frameworks import try_framework
from bench.compat.workspace import PackagesMissing
from svc_tui.project.resource_starter import FRAMEWORKS

pytestmark = [pytest.mark.nightly, pytest.mark.slow(seconds=60), pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_framework_passes_its_checks(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("SVC_HOME", str(home))
    try:
        result = try_framework(name, home / "cache")
    except PackagesMissing as error:
        pytest.skip(f"npm cannot install {name}: {error}")
    assert result.failures == {} and result.bundle and result.compute_ms
