import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from lanes.go.toolchain import Go, ensure
from tests.lanes.go.module import Module
from tests.support.toolchains import use_go


@pytest.fixture(scope="module", autouse=True)
def go_settings(cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        use_go(patch, cache)
        yield


@pytest.fixture(scope="session")
def go(cache: Path) -> Go:
    """The Go of the lane, installed if missing."""
    with pytest.MonkeyPatch.context() as patch:
        use_go(patch, cache)
        return asyncio.run(ensure(cache, lambda line: None))


@pytest.fixture
def module(tmp_path: Path, cache: Path) -> Module:
    return Module((tmp_path / "project ü").resolve(), cache)
