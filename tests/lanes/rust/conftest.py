import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.lane import BuildMode, BuildRequest
from engine.manifest.model import Resource
from lanes.rust.lane import RustLane
from tests.engine.wasm.conftest import Answer
from tests.lanes.workdir import Workdir, answers

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


@pytest.fixture(scope="session")
def prefix(cache: Path) -> Path:
    """The toolchain of `tests/toolchains/rust/setup.sh`, where `make test-tools` had to make one."""
    return cache / "rust-toolchain"


@pytest.fixture(scope="session", autouse=True)
def toolchain(prefix: Path) -> Iterator[None]:
    """Put that toolchain first on PATH; keep what cargo downloads out of the home folder."""
    with pytest.MonkeyPatch.context() as patch:
        if (prefix / "complete").exists():
            patch.setenv("PATH", f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("CARGO_NET_OFFLINE", "true")
        yield


class Crate(Workdir):
    """A rust Resource on disk; `build` makes it, `ask` runs it."""

    def guest(self, at: str = "svc-guest") -> None:
        """Lay the guest library into the crate, as `svc new` does."""
        shutil.copytree(GUEST, self.workdir / at)

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
        """Send a request for each target, with `fields` of the Client or of the Resource."""
        ours = {name: fields.pop(name) for name in ("egress", "memory_limit_mb") if name in fields}
        method = fields.pop("method", "GET")
        resource = Resource("api", "rust", self.workdir, **ours)
        return answers(self.cache, resource, artifact, *targets, method=method, **fields)


@pytest.fixture
def crate(tmp_path: Path, cache: Path) -> Crate:
    return Crate((tmp_path / "project ü").resolve(), cache)
