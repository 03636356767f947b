import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lanes.rust.cargo import TARGET
from tests.lanes.rust.crate import Crate
from tests.support.toolchains import rust_prefix, use_rust

NEEDS_RUST = (
    f"Rust cannot build for {TARGET}: install Rust (https://rustup.rs) and run rustup target add {TARGET}"
)


@pytest.fixture(scope="session")
def prefix(cache: Path) -> Path:
    return rust_prefix(cache)


@pytest.fixture(scope="module", autouse=True)
def toolchain(cache: Path) -> Iterator[None]:
    """Put the tests' toolchain first on PATH; skip the tests if Rust cannot build for the target."""
    with pytest.MonkeyPatch.context() as patch:
        use_rust(patch, cache)
        patch.setenv("CARGO_NET_OFFLINE", "true")
        if not _has_target():
            pytest.skip(NEEDS_RUST)
        yield


def _has_target() -> bool:
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        return False
    command = ["rustc", "--print", "target-libdir", "--target", TARGET]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return process.returncode == 0 and Path(process.stdout.strip()).is_dir()


@pytest.fixture(scope="session")
def new_crate(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Callable[[], Crate]:
    """Return a function that removes the last crate and returns the next one, in the same folder.

    cargo identifies `svc-guest` by its path, so the folder preserves `target` and compiles it only once.
    """
    root = (tmp_path_factory.mktemp("crates") / "project ü").resolve()

    def new_crate() -> Crate:
        crate = Crate(root, cache)
        for folder, cached in ((root, {"api", "target"}), (crate.workdir, {"svc-guest", "target"})):
            for path in folder.iterdir() if folder.is_dir() else ():
                if path.name not in cached:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        return crate

    return new_crate


@pytest.fixture
def crate(new_crate: Callable[[], Crate]) -> Crate:
    return new_crate()


@pytest.fixture
def lone_crate(tmp_path: Path, cache: Path) -> Crate:
    """A crate in a folder of its own, without a `target`."""
    return Crate((tmp_path / "project ü").resolve(), cache)
