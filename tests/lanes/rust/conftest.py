import asyncio
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.lane import BuildMode, BuildRequest
from engine.manifest.model import Resource
from lanes.rust.cargo import TARGET
from lanes.rust.lane import RustLane
from tests.engine.wasm.conftest import Answer
from tests.lanes.workdir import Workdir, answers
from tests.support.toolchains import rust_prefix, use_rust

NEEDS_RUST = (
    f"Rust cannot build for {TARGET}: install Rust (https://rustup.rs) and run rustup target add {TARGET}"
)
GUEST = Path(__file__).resolve().parents[3] / "lanes" / "rust" / "guest"
MANIFEST = """\
[package]
name = "api"
version = "0.1.0"
edition = "2021"

[lib]
crate-type = ["cdylib"]

[dependencies]
svc-guest = { path = "svc-guest" }
"""


def handler(body: str) -> str:
    """Return a program whose handler has this body."""
    return (
        "use svc_guest::*;\n"
        f"#[allow(unused)] fn handle(request: Request) -> Result<Response> {{\n{body}\n}}\n"
        "svc_guest::handler!(handle);\n"
    )


HELLO = handler('Ok(Response::text("hello\\n"))')


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


class Crate(Workdir):
    """A rust resource on disk; `build` makes it, `ask` runs it."""

    def guest(self) -> None:
        """Copy the guest library into the crate, as `svc new` does, unless it exists."""
        if not (self.workdir / "svc-guest").exists():
            shutil.copytree(GUEST, self.workdir / "svc-guest")

    def program(self, source: str, manifest: str = MANIFEST) -> None:
        self.guest()
        self.write("Cargo.toml", manifest)
        self.write("src/lib.rs", source)

    @property
    def resource(self) -> Resource:
        return Resource("api", "rust", self.workdir)

    def request(self, mode: BuildMode = "dev") -> BuildRequest:
        return BuildRequest(self.resource, self.root, self.cache, mode, self.reported.append)

    def build(self, mode: BuildMode = "dev", **options: Any) -> ComponentArtifact:
        return asyncio.run(RustLane(**options).build(self.request(mode)))

    def ask(self, artifact: ComponentArtifact, *targets: str, **fields: Any) -> list[Answer]:
        """Send a request for each target, with `fields` of the Client or of the resource."""
        ours = {name: fields.pop(name) for name in ("egress", "memory_limit_mb") if name in fields}
        method = fields.pop("method", "GET")
        resource = Resource("api", "rust", self.workdir, **ours)
        return answers(self.cache, resource, artifact, *targets, method=method, **fields)


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
