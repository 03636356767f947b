import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.fleet.machines import machines
from tests.support.dev_server import DevServer, dev_server
from tests.support.samples import copied_sample
from tests.support.toolchains import use_rust

__all__ = ["machines"]


@pytest.fixture(scope="session")
def home(cache: Path) -> Path:
    """A home of `svc` with the toolchain cache, so that all workers share compiled components."""
    folder = cache.parent / f"{cache.name}-home"
    folder.mkdir(exist_ok=True)
    link = folder / "cache"
    with contextlib.suppress(FileExistsError):
        link.symlink_to(cache, target_is_directory=True)
    return folder


@pytest.fixture(scope="module")
def rust_toolchain(cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        use_rust(patch, cache)
        yield


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of `sample-apps/pulse`."""
    return copied_sample("pulse", tmp_path)


@pytest.fixture(scope="module")
def pulse_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy of `sample-apps/pulse` that `pulse` serves."""
    return copied_sample("pulse", tmp_path_factory.mktemp("pulse"))


@pytest.fixture(scope="module")
def pulse(pulse_project: Path, home: Path) -> Iterator[DevServer]:
    """`svc dev` for all tests of a module. Tests undo edits that would affect others."""
    with dev_server(pulse_project, home) as server:
        yield server
