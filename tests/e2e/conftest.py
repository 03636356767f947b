import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dev_server import DevServer, dev_server

SAMPLE = Path(__file__).resolve().parents[2] / "sample-apps" / "pulse"


@pytest.fixture(scope="session")
def home(cache: Path) -> Path:
    """A home of `svc` whose cache is the one that all slow tests share."""
    folder = cache.parent / f"{cache.name}-home"
    folder.mkdir(exist_ok=True)
    link = folder / "cache"
    with contextlib.suppress(FileExistsError):
        link.symlink_to(cache, target_is_directory=True)
    return folder


@pytest.fixture(scope="session")
def rust_toolchain(cache: Path) -> Iterator[None]:
    """Put the toolchain of `tests/toolchains/rust/setup.sh` first on PATH, where there had to be one."""
    prefix = cache / "rust-toolchain"
    with pytest.MonkeyPatch.context() as patch:
        if (prefix / "complete").exists():
            patch.setenv("PATH", f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}")
        yield


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of `sample-apps/pulse` in a path with a space and an umlaut."""
    folder = tmp_path / "pulse ü"
    shutil.copytree(SAMPLE, folder)
    return folder


@pytest.fixture
def pulse(project: Path, home: Path) -> Iterator[DevServer]:
    """That copy, served by `svc dev`."""
    with dev_server(project, home) as server:
        yield server
