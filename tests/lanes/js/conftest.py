from pathlib import Path

import pytest

from tests.lanes.js.programs import Programs
from tests.lanes.js.sources import Sources


@pytest.fixture
def sources(tmp_path: Path, cache: Path) -> Sources:
    return Sources((tmp_path / "project ü").resolve(), cache)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Programs:
    return Programs(tmp_path_factory.mktemp("programs ü").resolve(), cache)
